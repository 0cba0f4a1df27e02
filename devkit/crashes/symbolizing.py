"""Frames to source lines, each file's build-id looked at first: another build's line is worse than none."""

from __future__ import annotations

import re
import shlex
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from devkit.crashes.archives import Archives
from devkit.crashes.frames import is_file, split_module
from devkit.crashes.model import BARE, DEBUGGERD, GLIBC, LLDB, MATCH, MISMATCH, UNKNOWN, Crash, Frame
from devkit.errors import UsageError
from devkit.symbols import ElfInfo, Location, SymbolIndex, Symbolizer, is_elf, read_elf
from devkit.symbols.addresses import address_of_function, mapped_address
from devkit.symbols.functions import qualified_name
from devkit.symbols.index import symbol_files

_ABI_MACHINES = {
    "arm64": "aarch64", "arm": "arm", "x86": "i386", "x86_64": "x86_64", "riscv64": "riscv64",
}  # fmt: skip


class SymbolFolders:
    """The files with symbols on this machine. Use as a context manager: libraries of APKs are unpacked.

    `folder` lives as long as this.

    Args:
        places: folders, looked through with all below them, or single files.
        deployed: files on the phone that were put there from here, path on the phone → file here. They need
            no build-id to be sure of.

    Raises:
        UsageError: one does not exist.
    """

    def __init__(self, places: Iterable[Path], deployed: Mapping[str, Path] | None = None) -> None:
        self.places = tuple(places)
        self.deployed = dict(deployed or {})
        self.index = SymbolIndex()
        archives: list[Path] = []
        for place in self.places:
            if not place.exists():
                raise UsageError(f"{place} does not exist", hints=[f"ls -d {shlex.quote(str(place.parent))}"])
            for file in symbol_files(place):
                if file.suffix in (".apk", ".zip"):
                    archives.append(file)
                else:
                    self.index.add(file)
        self._temporary = tempfile.TemporaryDirectory(prefix="devkit-symbols-")
        self.folder = Path(self._temporary.name)
        self.archives = Archives(archives, self.folder)

    def add(self, file: Path) -> None:
        """One more file."""
        if file.suffix in (".apk", ".zip"):
            self.archives.add(file)
        else:
            self.index.add(file)

    def __enter__(self) -> SymbolFolders:
        return self

    def __exit__(self, *_: object) -> None:
        self._temporary.cleanup()


@dataclass(frozen=True)
class _Asked:
    """A frame with the file and the addresses to ask for; the second one is of the other convention."""

    frame: Frame
    info: ElfInfo | None = None
    addresses: tuple[int, ...] = ()


def symbolize(crashes: Sequence[Crash], folders: SymbolFolders, symbolizer: Symbolizer) -> None:
    """Put locations and verdicts into the frames of all crashes; the symbolizer runs once.

    Raises:
        ToolMissing, ToolFailed: there are files to read, and no tool that can.
    """
    told = _build_ids(crashes)
    asked: dict[int, list[list[_Asked]]] = {}
    requests: list[tuple[ElfInfo, int]] = []
    for number, crash in enumerate(crashes):
        asked[number] = [
            [_look_up(frame, crash, folders, told) for frame in stack.frames] for stack in crash.stacks
        ]
        for looked_up in asked[number]:
            requests += [
                (a.info, address) for a in looked_up if a.info is not None for address in a.addresses
            ]
    answers = symbolizer.symbolize(requests) if requests else {}
    for number, crash in enumerate(crashes):
        for stack, looked_up in zip(crash.stacks, asked[number], strict=True):
            stack.frames = [_answered(a, answers) for a in looked_up]


def _build_ids(crashes: Sequence[Crash]) -> dict[tuple[int, str], str]:
    """The build-id that other frames of the same crash print for a module, where all print the same."""
    seen: dict[tuple[int, str], set[str]] = {}
    for crash in crashes:
        for stack in crash.stacks:
            for frame in stack.frames:
                if frame.module and frame.build_id and not frame.module.endswith(".apk"):
                    seen.setdefault((id(crash), frame.module), set()).add(frame.build_id)
    return {key: next(iter(ids)) for key, ids in seen.items() if len(ids) == 1}


def _look_up(frame: Frame, crash: Crash, folders: SymbolFolders, told: dict[tuple[int, str], str]) -> _Asked:
    if frame.module is None or not is_file(frame.module):
        return _Asked(frame)
    outer, inner = split_module(frame.module)
    in_archive = outer.endswith(".apk") or inner is not None
    name: str | None = inner or outer.rpartition("/")[2]
    build_id = frame.build_id or told.get((id(crash), frame.module))
    packed: ElfInfo | None = None
    info: ElfInfo | None
    note: str | None
    if in_archive and inner is None:
        name = None
        if frame.offset is not None:
            found = folders.archives.library_at(outer.rpartition("/")[2], frame.offset)
            name, packed = found or (None, None)
            if packed is not None and build_id not in (None, packed.build_id):
                name = packed = None  # another app's base.apk
    here = folders.deployed.get(frame.module) if build_id is None else None
    if here is not None and is_elf(here):
        info, verdict, note = read_elf(here), MATCH, None
    else:
        info, verdict, note = _choose(build_id, name, packed, crash, folders)
    if name is None and info is not None:
        name = info.soname or info.path.name
    if frame.locations:
        # It came with its lines, whatever lies here.
        info, verdict, note = None, MATCH if verdict == MATCH else UNKNOWN, None
    frame = replace(frame, verdict=verdict, note=note, library=name, build_id=build_id)
    if info is None:
        return _Asked(frame)
    addresses = _addresses(frame, info, in_archive)
    if not addresses:
        return _Asked(replace(frame, note=note or "its address in the file is not told"))
    return _Asked(replace(frame, local=info.path), info, addresses)


def _choose(
    build_id: str | None, name: str | None, packed: ElfInfo | None, crash: Crash, folders: SymbolFolders
) -> tuple[ElfInfo | None, str, str | None]:
    """The file to ask, the verdict on it, and why there is none."""
    index = folders.index
    if build_id is not None and (info := index.find(build_id)):
        return info, MATCH, None
    if packed is not None:
        unstripped = index.find(packed.build_id) if packed.build_id else None
        return unstripped or packed, MATCH if build_id else UNKNOWN, None
    same_name = index.named(name) if name else ()
    if build_id is not None:
        if same_name:
            other = same_name[0]
            return None, MISMATCH, f"{other.path} is another build ({other.build_id or 'without a build-id'})"
        return None, UNKNOWN, "no file of this build-id in the symbol folders"
    if name is None:
        return None, UNKNOWN, "which library of the APK it is, only the APK tells"
    machine = _ABI_MACHINES.get(crash.abi or "")
    fitting = [info for info in same_name if machine is None or info.machine == machine]
    if not fitting:
        if same_name:
            return None, MISMATCH, f"{same_name[0].path} is {same_name[0].describe}"
        return None, UNKNOWN, None
    if len(fitting) > 1:
        return (
            None,
            UNKNOWN,
            f"{len(fitting)} builds of {name} are there, and no build-id is printed",
        )
    return fitting[0], UNKNOWN, None


def _addresses(frame: Frame, info: ElfInfo, in_archive: bool) -> tuple[int, ...]:
    if frame.origin == GLIBC:
        # All that backtrace() returns are return addresses: the call is before them.
        if frame.function is not None and frame.function_offset is not None:
            start = address_of_function(info.path, frame.function)
            return (start + frame.function_offset - 1,) if start is not None else ()
        if frame.pc is not None:
            return (frame.pc - 1,) if frame.pc else ()
        return (frame.address - 1,) if info.is_fixed and frame.address else ()
    if frame.origin == LLDB:
        if frame.function is None or frame.function_offset is None:
            return ()
        start = address_of_function(info.path, frame.function)
        back = 1 if frame.number else 0
        return (start + frame.function_offset - back,) if start is not None else ()
    if frame.pc is None:
        return ()
    if frame.origin == BARE:
        # Nobody said whether the first is where it stopped, or the return address of backtrace()'s caller:
        # one byte before a return address is the call, and one before a stop is mostly the same line.
        place = mapped_address(info.path, frame.offset or 0, frame.pc)
        return () if place is None else (place - 1,)
    # debuggerd and the sanitizers have gone back to the call already.
    if frame.origin == DEBUGGERD and frame.offset and not in_archive:
        # Android 9 and older, of a mapping that does not begin with the ELF header: libbacktrace counts from
        # the mapping, the first libunwindstack from the file.
        other = mapped_address(info.path, frame.offset, frame.pc)
        if other is not None and other != frame.pc:
            possible = (other, frame.pc)
            if frame.function and frame.function_offset is not None:
                start = address_of_function(info.path, frame.function)
                if start is not None and start + frame.function_offset in possible:
                    return (start + frame.function_offset,)
            return possible
    return (frame.pc,)


def _answered(asked: _Asked, answers: dict[tuple[Path, int], tuple[Location, ...]]) -> Frame:
    frame, info = asked.frame, asked.info
    if info is None:
        return frame
    possible = [answers.get((info.path, address), ()) for address in asked.addresses]
    printed = _bare(frame.function)
    fitting = [found for found in possible if found and _agree(printed, _bare(found[-1].function))]
    if len(fitting) > 1 and printed is None:
        names = " or ".join(str(found[-1].function) for found in fitting)
        return replace(frame, note=f"older Androids count here in two ways, which leaves {names}")
    if fitting:
        return replace(frame, locations=fitting[0])
    if not any(possible):
        return replace(frame, note="the file has no symbol there")
    if frame.verdict == MATCH and len(asked.addresses) == 1:
        return replace(frame, locations=possible[0])  # folded functions have several names
    return replace(
        frame,
        verdict=MISMATCH if frame.verdict == UNKNOWN else frame.verdict,
        note=f"{info.path} has another function there: {possible[0][-1].function if possible[0] else 'none'}",
    )


def _agree(printed: str | None, found: str | None) -> bool:
    return not printed or not found or printed == found


def _bare(name: str | None) -> str | None:
    """The last component of a function's name, without parameters and templates, or None."""
    if name is None or "operator" in name or "lambda" in name or "unnamed" in name:
        return None
    if name.startswith("_Z"):
        name = qualified_name(name) or ""
    name = re.split(r"[(<\[]", name.replace("(anonymous namespace)::", ""), maxsplit=1)[0].strip()
    return name.rpartition("::")[2].rpartition(" ")[2].partition(".")[0].partition("@")[0] or None
