"""Whether the phone's linker will take the files of a deployment: said before the first byte travels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.errors import DeployError, FileError
from devkit.symbols import is_elf, read_elf

if TYPE_CHECKING:
    from devkit.runtime.closure import NeededFile
    from devkit.symbols import ElfInfo

ERROR, WARNING = "error", "warning"
# The largest page that a phone has; what is aligned to it needs no look at the phone.
LARGEST_PAGE_BYTES = 16384
# The first API level with phones of 16 KiB pages.
LARGE_PAGES_SINCE_API = 35
# From this release on libraries carry LLVM's unwinder instead of libgcc's; the two do not mix.
_UNWINDER_CHANGED = 23
_BIONIC_LINKER = "/system/bin/linker"


@dataclass(frozen=True)
class Finding:
    """One thing that will not work (`error`) or may not (`warning`); `file` is its path on the phone."""

    severity: str
    file: str
    text: str
    hint: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {"severity": self.severity, "file": self.file, "text": self.text, "hint": self.hint}


def page_size_matters(files: Iterable[NeededFile], api_level: int) -> bool:
    """Whether a phone has to be asked for its page size: most cannot have large ones, most files fit all."""
    return api_level >= LARGE_PAGES_SINCE_API and any(
        0 < f.elf.load_align < LARGEST_PAGE_BYTES for f in files if f.elf.abi is not None
    )


def check_files(
    files: Sequence[NeededFile],
    own: Mapping[str, Path],
    *,
    abi: str,
    abilist: Sequence[str],
    libc: str,
    api_level: int,
    page_bytes: int | None,
) -> list[Finding]:
    """Look at all files that travel.

    Args:
        files: the program (first) and its libraries.
        own: the app's own files by their path in its folder on the phone.
        abi: the program's; libraries beside it must have it.
        abilist: everything the phone runs.
        page_bytes: the phone's page size; None when it does not matter.
    """
    on_cpu = [f for f in files if f.elf.abi is not None]
    libraries = {f.name: f.elf for f in files}
    libraries |= {remote: elf for remote, elf in _elves(own).items() if "/" not in remote}
    return [
        *_machines(_elves(own), abi, abilist),
        *_start(files[0].name, files[0].elf, libc),
        *(_alignment(on_cpu, page_bytes) if page_bytes else ()),
        *_api_levels(on_cpu, api_level),
        *_ndk_generations(on_cpu),
        *_sonames(libraries),
    ]


def refuse(findings: Iterable[Finding]) -> None:
    """Raise for the errors among findings, all in one.

    Raises:
        DeployError: there are some.
    """
    errors = [f for f in findings if f.severity == ERROR]
    if errors:
        more = "\n".join(f"also: {f.text}" for f in errors[1:])
        hints = [f.hint for f in errors if f.hint]
        raise DeployError(errors[0].text, evidence=more or None, hints=list(dict.fromkeys(hints)))


def _elves(own: Mapping[str, Path]) -> dict[str, ElfInfo]:
    found = {}
    for remote, path in own.items():
        if is_elf(path):
            try:
                found[remote] = read_elf(path)
            except FileError:  # an object file, a core, a broken one: data to us
                continue
    return found


def _machines(own: Mapping[str, ElfInfo], abi: str, abilist: Sequence[str]) -> Iterator[Finding]:
    for remote, elf in own.items():
        if elf.machine == "hexagon" or elf.abi == abi or elf.kind not in ("executable", "shared"):
            continue
        text = f"{remote} is for {elf.describe}, the phone wants {abi}"
        # In the app's folder the linker would meet it; elsewhere it may lie for another purpose.
        if "/" not in remote:
            yield Finding(ERROR, remote, text, f"take {elf.path} out of `files:`, or build it for {abi}")
        elif elf.abi not in abilist:
            yield Finding(WARNING, remote, text)


def _start(name: str, elf: ElfInfo, libc: str) -> Iterator[Finding]:
    interpreter = elf.interpreter
    if interpreter is None:
        return
    if interpreter.startswith(_BIONIC_LINKER) != (libc == "bionic"):
        made_for = "Android" if libc != "bionic" else "a Linux computer"
        yield Finding(
            ERROR, name, f"{name} is for {made_for}: it asks for {interpreter}, which is not on the phone",
            "build it for this phone: devkit build",
        )  # fmt: skip
    elif libc == "bionic" and elf.is_fixed:
        yield Finding(
            ERROR, name, f"{name} is not position independent, and Android runs nothing else since 5.0",
            "compile with -fPIE and link with -pie (CMAKE_POSITION_INDEPENDENT_CODE=ON)",
        )  # fmt: skip


def _alignment(files: Sequence[NeededFile], page_bytes: int) -> Iterator[Finding]:
    small = [f for f in files if 0 < f.elf.load_align < page_bytes]
    for file in small:
        yield Finding(
            ERROR, file.name,
            f"{file.name} is aligned to {file.elf.load_align} bytes, the phone's pages have {page_bytes}",
            f"link with -Wl,-z,max-page-size={page_bytes} (NDK r28 and later do, r27 with "
            "-DANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES=ON)",
        )  # fmt: skip


def _api_levels(files: Sequence[NeededFile], api_level: int) -> Iterator[Finding]:
    newer = {f.name: f.elf.android_api for f in files if (f.elf.android_api or 0) > api_level}
    for name, built_for in newer.items():
        yield Finding(
            WARNING, name,
            f"{name} was built for API level {built_for}, the phone has {api_level}: it may lack symbols",
            "build.api_level in devkit.yaml",
        )  # fmt: skip


def _ndk_generations(files: Sequence[NeededFile]) -> Iterator[Finding]:
    """Libraries that were built apart and share an unwinder or C++ library in one process."""
    from devkit.runtime.qnn import ORIGIN

    made = {f.name: (f.elf.ndk_release or "", _major(f.elf.ndk_release)) for f in files if f.origin != ORIGIN}
    known = {name: row for name, row in made.items() if row[1] is not None}
    old = [f"{name} ({release})" for name, (release, major) in known.items() if major < _UNWINDER_CHANGED]
    new = [f"{name} ({release})" for name, (release, major) in known.items() if major >= _UNWINDER_CHANGED]
    if old and new:
        yield Finding(
            WARNING, old[0].partition(" ")[0],
            f"built with NDKs before and after r{_UNWINDER_CHANGED}: {', '.join(old)}; {', '.join(new)}: "
            "they may not find _Unwind_Resume in each other",
            "build all of them with one NDK",
        )  # fmt: skip
        return
    runtime = "libc++_shared.so"
    if runtime not in known:
        return
    release, major = known[runtime]
    for name, (other, its) in known.items():
        if its > major:
            yield Finding(
                WARNING, runtime, f"{runtime} is of NDK {release}, {name} was built with {other}",
                f"take the {runtime} of the newer NDK",
            )  # fmt: skip
            return


def _sonames(libraries: Mapping[str, ElfInfo]) -> Iterator[Finding]:
    by_soname: dict[str, list[str]] = {}
    for name, elf in libraries.items():
        if elf.soname and elf.abi is not None:
            by_soname.setdefault(elf.soname, []).append(name)
    for soname, names in by_soname.items():
        if len(names) > 1:
            yield Finding(
                WARNING, names[1], f"{' and '.join(names)} have one soname, {soname}: one hides the other",
                "send one of them",
            )  # fmt: skip


def _major(release: str | None) -> Any:
    found = re.match(r"r(\d+)", release or "")
    return int(found.group(1)) if found else None
