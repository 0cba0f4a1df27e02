"""Which libraries a program needs, all levels down, and where on this machine each of them is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
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
    the program itself and for what is opened at run time), `origin` the group of folders it was found in,
    `opened` why a file that nothing names travels.
    """

    name: str
    elf: ElfInfo
    needed_by: str | None
    origin: str
    opened: str | None = None

    @property
    def reason(self) -> str:
        """Why it is part of a deployment, for people."""
        if self.opened is not None:
            return self.opened
        return "the program" if self.needed_by is None else f"needed by {self.needed_by}"


@dataclass(frozen=True)
class OpenedFile:
    """A library that no NEEDED names: a program opens it at run time (dlopen), or a DSP does.

    `reason` says who opens it, for people. `strict`: what it needs must be found; else the phone's maker
    may have it (`Closure.unresolved`).
    """

    path: Path
    reason: str
    origin: str
    strict: bool = True


@dataclass(frozen=True)
class SearchDir:
    """A folder to look for libraries in, and what to call it ('build', 'toolchain')."""

    path: Path
    origin: str


@dataclass(frozen=True)
class Closure:
    """`files` travel (the program first), `system` are on the phone already.

    `unresolved`: (library, who needs it) of files that are not `strict`.
    """

    files: tuple[NeededFile, ...]
    system: tuple[str, ...]
    unresolved: tuple[tuple[str, str], ...] = ()


def needed_closure(
    program: Path,
    *,
    abi: str,
    api_level: int,
    libc: str = "bionic",
    artifacts: Iterable[Path] = (),
    search: Sequence[SearchDir] = (),
    opened: Sequence[OpenedFile] = (),
    vendor: Collection[str] = (),
) -> Closure:
    """Follow NEEDED from `program` until everything is found on this machine or on the phone.

    Args:
        abi: the phone's ABI; every file that travels must have it.
        api_level: the phone's API level, for the list of system libraries.
        libc: "bionic", or "glibc" for the virtual phone.
        artifacts: libraries the build made; they win over everything else.
        search: further folders, nearest first; those of origin TOOLCHAIN come after the phone's
            own libraries.
        opened: files that travel although nothing names them; what they need travels, too.
        vendor: names of libraries that the phone's maker puts there.

    Raises:
        DeployError: a library is nowhere, or is of another ABI; says who needs it.
        FileError: the program cannot be read.
    """
    built = {path.name: path for path in artifacts} | {o.path.name: o.path for o in opened}
    origins = {o.path.name: o.origin for o in opened}
    on_phone = system_libraries(libc, api_level) | frozenset(vendor)
    info = read_elf(program)
    _check_abi(info, abi, needed_by=None)
    files = [NeededFile(program.name, info, None, "build" if program.name in built else "program")]
    seen = {program.name}
    for file in opened:
        info = read_elf(file.path)
        # A DSP's code is not the phone's CPU's: of another machine, and rightly so.
        if info.machine != "hexagon":
            _check_abi(info, abi, needed_by=None)
        files.append(NeededFile(file.path.name, info, None, file.origin, file.reason))
        seen.add(file.path.name)
    lenient = {o.path.name for o in opened if not o.strict}
    unresolved: list[tuple[str, str]] = []
    system: dict[str, None] = {}
    missing: dict[str, list[str]] = {}
    # Breadth first, as the dynamic linker does.
    for current in files:
        if current.elf.machine == "hexagon":
            continue
        beside = [SearchDir(current.elf.path.parent, current.origin)] if current.name in lenient else []
        for name in current.elf.needed:
            if name in missing:
                missing[name].append(current.name)
            if name in seen:
                continue
            seen.add(name)
            own = [(built[name], origins.get(name, "build"))] if name in built else []
            own += [(s.path / name, s.origin) for s in (*beside, *search) if s.origin != TOOLCHAIN]
            found = _find(name, abi, own)
            if found is None and name in on_phone:
                system[name] = None
                continue
            # A compiler's folders may hold the C library as well: the phone's own comes first.
            found = found or _find(name, abi, [(s.path / name, s.origin) for s in search])
            if found is not None:
                files.append(NeededFile(name, found[0], current.name, found[1]))
                if current.name in lenient:
                    lenient.add(name)
            elif current.name in lenient:
                unresolved.append((name, current.name))
            else:
                missing[name] = [current.name]
    if missing:
        raise _missing(missing, abi, built, search, libc, api_level)
    return Closure(tuple(files), tuple(system), tuple(unresolved))


def system_libraries(libc: str, api_level: int) -> frozenset[str]:
    """Names of the libraries a phone has at this API level (see system_libraries.yaml)."""
    return frozenset(name for name, since in _tables()[libc].items() if since <= api_level)


def load_tables() -> None:
    """Read what `system_libraries` needs, at a time when it costs nothing."""
    _tables()


@lru_cache(maxsize=1)
def _tables() -> dict[str, dict[str, int]]:
    import yaml

    text = resources.files("devkit.runtime").joinpath("system_libraries.yaml").read_text("utf-8")
    tables: dict[str, dict[str, int]] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
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
