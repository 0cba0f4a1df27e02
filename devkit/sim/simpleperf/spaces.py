"""What lies in a process's memory, from records and /proc; how to unwind a copied stack with it."""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from dataclasses import dataclass, field

from devkit.sim.crashes.frames import Row, caller, find_row
from devkit.sim.crashes.memory import Memory, parse_maps
from devkit.sim.crashes.registers import Processor, Registers

_PT_LOAD, _PT_NOTE, _PT_GNU_EH_FRAME = 1, 4, 0x6474E550
_PF_X = 1
_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_BROKEN = (OSError, ValueError, struct.error, IndexError, KeyError)
_PAGE = 4096
MAX_FRAMES = 128
_MAX_STEP_BYTES = 1 << 20


class ElfFile:
    """A mapped file: where its segments go, its build-id, its call frame table. Reads what it needs."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.loads: list[tuple[int, int, int, int]] = []  # offset, address, size, flags
        self.frame_table = 0
        self.build_id = b""
        self._data = b""
        try:
            with open(path, "rb") as file:
                self._data = file.read()
            self._parse()
        except (OSError, struct.error, ValueError):
            self.loads = []

    @property
    def first_code(self) -> tuple[int, int]:
        """Virtual address and file offset of the first executable segment, as simpleperf notes them."""
        for offset, address, _, flags in self.loads:
            if flags & _PF_X:
                return address, offset
        return 0, 0

    def address_of(self, offset: int) -> int | None:
        """The virtual address of a place in the file."""
        for start, address, size, _ in self.loads:
            if start // _PAGE * _PAGE <= offset < start + size:
                return offset - start + address
        return None

    def bytes_at(self, address: int, count: int) -> bytes | None:
        """Bytes at a virtual address."""
        for offset, start, size, _ in self.loads:
            if start <= address and address + count <= start + size:
                return self._data[offset + address - start : offset + address - start + count]
        return None

    def _parse(self) -> None:
        header = _EHDR.unpack_from(self._data)
        if header[0][:5] != b"\x7fELF\x02":
            raise ValueError("no 64-bit ELF file")
        for index in range(header[10]):
            kind, flags, offset, address, _, size, _, _ = _PHDR.unpack_from(
                self._data, header[5] + index * header[9]
            )
            if kind == _PT_LOAD:
                self.loads.append((offset, address, size, flags))
            elif kind == _PT_GNU_EH_FRAME:
                self.frame_table = address
            elif kind == _PT_NOTE and not self.build_id:
                self.build_id = _build_id(self._data[offset : offset + size])


def _build_id(notes: bytes) -> bytes:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        name_at = at + 12
        content = name_at + (name_size + 3 & ~3)
        if kind == 3 and notes[name_at : name_at + 4] == b"GNU\0":
            return notes[content : content + size]
        at = content + (size + 3 & ~3)
    return b""


@dataclass
class Place:
    """A part of a file in a process."""

    start: int
    end: int
    offset: int
    path: str


@dataclass
class Space:
    """The executable mappings of one process."""

    places: list[Place] = field(default_factory=list)
    rows: dict[int, Row | None] = field(default_factory=dict)

    def add(self, place: Place) -> None:
        """Take one in; what it covers is gone."""
        self.places = [p for p in self.places if p.end <= place.start or place.end <= p.start]
        self.places.append(place)
        self.places.sort(key=lambda p: p.start)
        self.rows.clear()

    def find(self, address: int) -> Place | None:
        """What lies at an address."""
        at = bisect_right(self.places, address, key=lambda p: p.start) - 1
        return self.places[at] if at >= 0 and address < self.places[at].end else None


class _Copied(Memory):
    """A piece of stack that was copied."""

    def __init__(self, stack_at: int, stack: bytes) -> None:
        self._stack_at, self._stack = stack_at, stack

    def close(self) -> None:
        pass

    def read(self, address: int, count: int) -> bytes:
        at = address - self._stack_at
        if at >= 0 and at + count <= len(self._stack):
            return self._stack[at : at + count]
        raise OSError(f"no memory at {address:#x}")


class _Table(Memory):
    """One file's call frame information, as it lies in a process."""

    def __init__(self, file: ElfFile, bias: int) -> None:
        self._file, self._bias = file, bias

    def close(self) -> None:
        pass

    def read(self, address: int, count: int) -> bytes:
        data = self._file.bytes_at(address - self._bias, count)
        if data is None:
            # The end of a table may be asked for with more than there is.
            for length in range(count - 1, 0, -1):
                data = self._file.bytes_at(address - self._bias, length)
                if data is not None:
                    return data + bytes(count - length)
            raise OSError(f"no memory at {address:#x}")
        return data


class Files:
    """The files that were mapped, each read once."""

    def __init__(self) -> None:
        self._known: dict[str, ElfFile] = {}

    def get(self, path: str) -> ElfFile:
        """One of them; one that cannot be read has no segments."""
        file = self._known.get(path)
        if file is None:
            file = self._known[path] = ElfFile(path)
        return file


def read_space(pid: int) -> Space:
    """The mappings of a process that runs. Empty when it is gone."""
    try:
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
            mappings = parse_maps(file.read())
    except OSError:
        return Space()
    space = Space()
    for mapping in mappings:
        if mapping.executable:
            space.places.append(Place(mapping.start, mapping.end, mapping.offset, mapping.name or "//anon"))
    return space


def unwind(
    registers: Registers, stack: bytes, space: Space, files: Files, processor: Processor, *, dwarf: bool
) -> list[int]:
    """Addresses from the innermost frame on; those of callers lie in the call.

    Args:
        stack: copied from the stack pointer on.
        dwarf: by call frame information; else by frame pointers alone.
    """
    stack_at = registers.get(processor.stack, 0)
    memory = _Copied(stack_at, stack)
    chain: list[int] = []
    exact = True
    while len(chain) < MAX_FRAMES:
        pc = registers.get(processor.pc, 0)
        place = pc if exact else pc - processor.call_bytes
        if not pc or (chain and space.find(place) is None):
            break
        chain.append(place if exact or processor.call_bytes == 1 else pc - 2)
        row = _row(place, space, files) if dwarf else None
        following: Registers | None = None
        if row is not None:
            try:
                following = caller(row, registers, memory, processor.stack, processor.pc)
            except _BROKEN:
                break
            exact = row.is_signal
        elif not dwarf or len(chain) > 1:
            following = _by_frame_pointer(registers, memory, processor)
            exact = False
        if following is None or following.get(processor.stack, 0) < registers.get(processor.stack, 0):
            break
        if following == registers:
            break
        registers = following
    return chain


def _row(place: int, space: Space, files: Files) -> Row | None:
    if place in space.rows:
        return space.rows[place]
    row: Row | None = None
    mapped = space.find(place)
    file = files.get(mapped.path) if mapped is not None else None
    if mapped is not None and file is not None and file.frame_table:
        address = file.address_of(place - mapped.start + mapped.offset)
        if address is not None:
            bias = place - address
            try:
                row = find_row(_Table(file, bias), file.frame_table + bias, place)
            except _BROKEN:
                row = None
    space.rows[place] = row
    return row


def _by_frame_pointer(registers: Registers, memory: Memory, processor: Processor) -> Registers | None:
    frame, stack = registers.get(processor.frame, 0), registers.get(processor.stack, 0)
    if frame % 8 or not stack <= frame < stack + _MAX_STEP_BYTES:
        return None
    try:
        saved, address = memory.word(frame), memory.word(frame + 8)
    except _BROKEN:
        return None
    result = dict(registers)
    result.update({processor.frame: saved, processor.pc: address, processor.stack: frame + 16})
    return result


def name_of(pid: int, tid: int) -> str:
    """A thread's name, "" when it is gone."""
    try:
        with open(f"/proc/{pid}/task/{tid}/comm", encoding="utf-8", errors="replace") as file:
            return file.read().rstrip("\n")
    except OSError:
        return ""


def threads_of(pid: int) -> list[int]:
    """The threads of a process, none when it is gone."""
    try:
        return sorted(int(name) for name in os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return []
