"""Which libraries a program needs, all levels down, and where on this machine each of them is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import DeployError
from devkit.symbols import is_elf, read_elf

if TYPE_CHECKING:
    from devkit.symbols import ElfInfo


TOOLCHAIN = "toolchain"


@dataclass(frozen=True)
class NeededFile:
    """One file of the closure.

    `name` is what the dynamic linker looks for, `needed_by` the file that names it first (None for
    the program itself), `origin` the group of folders it was found in.
    """

    name: str
    elf: ElfInfo
    needed_by: str | None
    origin: str


@dataclass(frozen=True)
class SearchDir:
    """A folder to look for libraries in, and what to call it ('build', 'toolchain')."""

    path: Path
    origin: str


@dataclass(frozen=True)
class Closure:
    """`files` travel (the program first), `system` are on the phone already."""

    files: tuple[NeededFile, ...]
    system: tuple[str, ...]


def needed_closure(
    program: Path,
    *,
    abi: str,
    api_level: int,
    libc: str = "bionic",
    artifacts: Iterable[Path] = (),
    search: Sequence[SearchDir] = (),
) -> Closure:
    """Follow NEEDED from `program` until everything is found on this machine or on the phone.

    Args:
        abi: the phone's ABI; every file that travels must have it.
        api_level: the phone's API level, for the list of system libraries.
        libc: "bionic", or "glibc" for the virtual phone.
        artifacts: libraries the build made; they win over everything else.
        search: further folders, nearest first; those of origin TOOLCHAIN come after the phone's
            own libraries.

    Raises:
        DeployError: a library is nowhere, or is of another ABI; says who needs it.
        FileError: the program cannot be read.
    """
    built = {path.name: path for path in artifacts}
    on_phone = system_libraries(libc, api_level)
    info = read_elf(program)
    _check_abi(info, abi, needed_by=None)
    files = [NeededFile(program.name, info, None, "build" if program.name in built else "program")]
    seen = {program.name}
    system: dict[str, None] = {}
    missing: dict[str, list[str]] = {}
    # Breadth first, as the dynamic linker does.
    for current in files:
        for name in current.elf.needed:
            if name in missing:
                missing[name].append(current.name)
            if name in seen:
                continue
            seen.add(name)
            own = [(built[name], "build")] if name in built else []
            own += [(s.path / name, s.origin) for s in search if s.origin != TOOLCHAIN]
            found = _find(name, abi, own)
            if found is None and name in on_phone:
                system[name] = None
                continue
            # A compiler's folders may hold the C library as well: the phone's own comes first.
            found = found or _find(name, abi, [(s.path / name, s.origin) for s in search])
            if found is not None:
                files.append(NeededFile(name, found[0], current.name, found[1]))
            else:
                missing[name] = [current.name]
    if missing:
        raise _missing(missing, abi, built, search, libc, api_level)
    return Closure(tuple(files), tuple(system))


def system_libraries(libc: str, api_level: int) -> frozenset[str]:
    """Names of the libraries a phone has at this API level (see system_libraries.yaml)."""
    return frozenset(name for name, since in _tables()[libc].items() if since <= api_level)


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, int]]:
    import yaml

    text = resources.files("devkit.runtime").joinpath("system_libraries.yaml").read_text("utf-8")
    tables: dict[str, dict[str, int]] = yaml.safe_load(text)
    return tables


def _find(name: str, abi: str, candidates: Iterable[tuple[Path, str]]) -> tuple[ElfInfo, str] | None:
    for path, origin in candidates:
        if is_elf(path):
            info = read_elf(path)
            if info.abi == abi:
                return info, origin
    return None


def _missing(
    missing: dict[str, list[str]],
    abi: str,
    built: dict[str, Path],
    search: Sequence[SearchDir],
    libc: str,
    api_level: int,
) -> DeployError:
    """The error for libraries that are nowhere; all of them, with everyone who needs them."""
    # Deepest first: the library that really uses it comes before those that only pass it on.
    needs = {name: ", ".join(reversed(users)) for name, users in missing.items()}
    name, users = next(iter(needs.items()))
    for path in [*([built[name]] if name in built else []), *(folder.path / name for folder in search)]:
        if is_elf(path):
            return _wrong_abi(read_elf(path), abi, users)
    since = _tables()[libc].get(name)
    if since is not None:
        return DeployError(
            f"{name}, needed by {users}, is on phones from API level {since} on; this has {api_level}",
            hints=[f"build without it, or use a phone with API level {since} or later"],
        )
    looked = "\n".join(f"{folder.path} ({folder.origin})" for folder in search)
    more = "".join(f"\nalso missing: {other}, needed by {who}" for other, who in list(needs.items())[1:])
    return DeployError(
        f"{name}, needed by {users}, was not found",
        evidence=("looked in:\n" + looked if looked else "no folder to look in") + more,
        hints=["build the target that makes it, or put it beside the program"],
    )


def _check_abi(info: ElfInfo, abi: str, *, needed_by: str | None) -> None:
    if info.abi != abi:
        raise _wrong_abi(info, abi, needed_by)


def _wrong_abi(info: ElfInfo, abi: str, needed_by: str | None) -> DeployError:
    who = f", needed by {needed_by}," if needed_by else ""
    return DeployError(
        f"{info.path.name}{who} is for {info.describe}, the phone wants {abi}",
        evidence=str(info.path),
        hints=[
            f"build it for {abi}: devkit build",
            "devkit device list shows all phones, -s SERIAL picks one",
        ],
    )
