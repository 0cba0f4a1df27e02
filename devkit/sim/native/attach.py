"""Appends the linker hook to a copy of ld.so, so that it runs first in every dynamic program.

The hook becomes a segment of its own, readable and executable, and takes over the entry point. Kernels
before 6.7 set up the memory behind the last segment of an interpreter only, so the segment that
has a .bss gets it as zeros from the file, and both end on a page boundary.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from pathlib import Path

from devkit.sim.native.build import PREBUILT

_MAGIC_DISTANCE = struct.pack("<q", 0x6B6F6F6872656B6C)
_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_PT_LOAD = 1
_PT_GNU_STACK = 0x6474E551
_PT_GNU_PROPERTY = 0x6474E553
_PF_X, _PF_W, _PF_R = 1, 2, 4
# The largest page an aarch64 kernel may have; x86_64's 4 KiB divide it.
_ALIGNMENT = 0x10000


@dataclass
class _Segment:
    kind: int
    flags: int
    offset: int
    address: int
    physical: int
    file_size: int
    memory_size: int
    alignment: int

    def pack(self) -> bytes:
        return _PHDR.pack(
            *(self.kind, self.flags, self.offset, self.address, self.physical),
            *(self.file_size, self.memory_size, self.alignment),
        )


def applet() -> Path:
    """The program behind logcat, log, su and the like, for this machine's processor."""
    return PREBUILT / f"applet-{os.uname().machine}"


def linker_hook() -> Path:
    """What is appended to ld.so, for this machine's processor."""
    return PREBUILT / f"linker_hook-{os.uname().machine}"


def clock_library() -> Path:
    """What programs load while the phone's clock is wrong, for this machine's processor."""
    return PREBUILT / f"clock-{os.uname().machine}"


def crash_library() -> Path:
    """What programs of a reduced phone load, for this machine's processor."""
    return PREBUILT / f"crash-{os.uname().machine}"


def with_hook(loader: bytes, hook: bytes) -> bytes:
    """A copy of ld.so in which the hook runs first.

    Raises:
        ValueError: the loader has no program header to spare, or the hook is not as it should be.
    """
    image, start = _flatten(hook)
    entry, segments = _read(loader)
    loads = [segment for segment in segments if segment.kind == _PT_LOAD]
    # Neither is looked at in an interpreter: the first repeats a note, the second is the program's to say.
    spare = next((s for kind in (_PT_GNU_PROPERTY, _PT_GNU_STACK) for s in segments if s.kind == kind), None)
    # The kernel wants the segments to load in the order of their addresses.
    if spare is None or segments.index(spare) < segments.index(loads[-1]):
        raise ValueError("no program header to spare")
    data = loads[-1]
    if not data.flags & _PF_W:
        raise ValueError("the last segment is not the data")
    result = bytearray(loader)
    content = loader[data.offset : data.offset + data.file_size]
    end = _align(data.address + data.memory_size)
    _pad(result, data.address)
    data.offset = len(result)
    data.file_size = data.memory_size = end - data.address
    result += content.ljust(data.file_size, b"\0")
    _pad(result, end)
    size = _align(len(image))
    distance = struct.pack("<q", entry - (end + start))
    segments[segments.index(spare)] = _Segment(
        _PT_LOAD, _PF_R | _PF_X, len(result), end, end, size, size, _ALIGNMENT
    )
    result += image.replace(_MAGIC_DISTANCE, distance).ljust(size, b"\0")
    header = list(_EHDR.unpack_from(result))
    header[4] = end + start
    result[: _EHDR.size] = _EHDR.pack(*header)
    table = b"".join(segment.pack() for segment in segments)
    result[header[5] : header[5] + len(table)] = table
    return bytes(result)


def _read(data: bytes) -> tuple[int, list[_Segment]]:
    header = _EHDR.unpack_from(data)
    entry, table, size, count = header[4], header[5], header[9], header[10]
    return entry, [_Segment(*_PHDR.unpack_from(data, table + index * size)) for index in range(count)]


def _flatten(hook: bytes) -> tuple[bytes, int]:
    """The hook's memory image from its first address on, and where in it the hook starts."""
    entry, segments = _read(hook)
    loads = [s for s in segments if s.kind == _PT_LOAD and not s.flags & _PF_W]
    if hook.count(_MAGIC_DISTANCE) != 1 or any(s.kind == _PT_LOAD and s.flags & _PF_W for s in segments):
        raise ValueError("the linker hook has data of its own, or no place for the entry point")
    base = loads[0].address
    image = bytearray(loads[-1].address + loads[-1].memory_size - base)
    for segment in loads:
        start = segment.address - base
        image[start : start + segment.file_size] = hook[segment.offset : segment.offset + segment.file_size]
    return bytes(image), entry - base


def _align(address: int) -> int:
    return -(-address // _ALIGNMENT) * _ALIGNMENT


def _pad(data: bytearray, address: int) -> None:
    """Lengthen a file until its end can be mapped at an address."""
    data += bytes((address - len(data)) % _ALIGNMENT)
