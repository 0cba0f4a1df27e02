"""Addresses of a profile to functions and lines, by build-id: another build's lines are worse than none."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.profiling.builder import with_frames
from devkit.profiling.model import NONE, Frame, Module, Profile
from devkit.symbols.elf_file import ElfFile

if TYPE_CHECKING:
    from devkit.symbols import ElfInfo, Location, SymbolIndex, Symbolizer

_PT_LOAD = 1
_PAGE_BYTES = 4096


def locator(index: SymbolIndex) -> Callable[[Module, int], int | None]:
    """For the reader: where places in files of the index are linked to."""

    def locate(module: Module, offset: int) -> int | None:
        info = index.find(module.build_id) if module.build_id else None
        return address_in(info.path, offset) if info is not None else None

    return locate


def address_in(file: Path, offset: int) -> int | None:
    """The virtual address of a place in an ELF file; None where no segment holds it."""
    for start, address, size in _segments(file):
        # A mapping begins at a page, its segment may begin within it.
        if start // _PAGE_BYTES * _PAGE_BYTES <= offset < start + size:
            return offset - start + address
    return None


@lru_cache(maxsize=256)
def _segments(file: Path) -> tuple[tuple[int, int, int], ...]:
    try:
        with file.open("rb") as stream:
            found = [s for s in ElfFile(stream).segments if s.kind == _PT_LOAD]
    except (OSError, ValueError, struct.error):
        return ()
    return tuple((s.offset, s.address, s.file_size) for s in found)


def symbolize(profile: Profile, index: SymbolIndex, symbolizer: Symbolizer) -> Profile:
    """The profile with functions, lines and inlined functions where the index has a module's very build.

    What could not be looked up is in the notes: modules that are here only as another build.

    Raises:
        ToolMissing, ToolFailed: there are files to read, and no tool that can.
    """
    infos = {
        number: index.find(module.build_id)
        for number, module in enumerate(profile.modules)
        if module.build_id
    }
    asked: list[tuple[int, ElfInfo, int]] = []
    for number, frame in enumerate(profile.frames):
        info = infos.get(frame.module)
        if info is not None and frame.address != NONE and not frame.line:
            asked.append((number, info, frame.address))
    answers = symbolizer.symbolize((info, address) for _, info, address in asked) if asked else {}
    frames = {
        number: made
        for number, info, address in asked
        if (made := _frames(profile.frames[number], answers.get((info.path, address), ())))
    }
    notes = (*profile.meta.notes, *_mismatches(profile, index, infos))
    done = with_frames(profile, frames) if frames else profile
    return replace(done, meta=replace(done.meta, notes=notes))


def _frames(frame: Frame, locations: Sequence[Location]) -> list[Frame]:
    """Outermost first; all but that one were inlined."""
    made = []
    for place, location in enumerate(reversed(locations)):
        made.append(
            Frame(
                location.function or frame.function,
                frame.module,
                location.file or "",
                location.line or 0,
                place > 0,
                frame.address,
            )
        )
    return made


def demangled(profile: Profile, *, beside: Path | None = None) -> Profile:
    """The profile with C++ names as in the source: simpleperf writes symbols down as linkers know them.

    Args:
        beside: as `devkit.symbols.demangling.demangle`.
    """
    from devkit.symbols.demangling import demangle

    names = demangle((frame.function for frame in profile.frames), beside=beside)
    frames = {
        number: [frame._replace(function=names[frame.function])]
        for number, frame in enumerate(profile.frames)
        if frame.function in names
    }
    return with_frames(profile, frames) if frames else profile


def _mismatches(profile: Profile, index: SymbolIndex, infos: dict[int, ElfInfo | None]) -> Iterable[str]:
    """Sentences on modules of which this machine has another build; those that weigh nothing are not told."""
    used = {profile.frames[frame].module for frame in profile.stack_frame}
    for number in sorted(used):
        if not 0 <= number < len(profile.modules) or infos.get(number) is not None:
            continue
        module = profile.modules[number]
        others = index.named(module.name)
        if others and not module.build_id:
            yield f"{module.name}: what ran has no build-id, so nothing tells which build it was"
        elif others:
            known = ", ".join(sorted({(info.build_id or "none")[:12] for info in others}))
            there = module.build_id[:12]
            yield f"{module.name}: the phone runs build {there}, here is only {known}; no lines"


def by_thread(profile: Profile) -> Profile:
    """The profile with each sample's thread as its outermost frame."""
    from devkit.profiling.builder import ProfileBuilder

    builder = ProfileBuilder()
    for module in profile.modules:
        builder.module(*module)
    frames = [builder.add_frame(frame) for frame in profile.frames]
    roots: dict[int, int] = {}
    moved: dict[tuple[int, int], int] = {}
    stacks = profile.sample_stack[:]
    for at, (stack, thread) in enumerate(zip(profile.sample_stack, profile.sample_thread, strict=True)):
        if thread not in roots:
            entry = profile.threads[thread]
            roots[thread] = builder.stack([builder.frame(f"thread {entry.name or '?'} ({entry.tid})")])
        key = (stack, thread)
        if key not in moved:
            chain = [frames[f] for f in profile.frames_of(stack)] if stack >= 0 else []
            moved[key] = builder.stack(chain, roots[thread])
        stacks[at] = moved[key]
    made = builder.finish(profile.meta)
    return replace(
        profile,
        modules=made.modules,
        frames=made.frames,
        stack_parent=made.stack_parent,
        stack_frame=made.stack_frame,
        sample_stack=stacks,
    )
