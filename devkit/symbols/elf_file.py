"""The tables of an ELF file, read directly: pyelftools takes ten times as long to be loaded and to read.

Layouts: the System V ABI, chapters 4 and 5 (elf.h). What is damaged raises ValueError or struct.error.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import BinaryIO

# After e_ident: type, machine, version, entry, phoff, shoff, flags, and six halves.
_HEADER = {32: "HHIIIIIHHHHHH", 64: "HHIQQQIHHHHHH"}
# Section headers differ in the width of their words only: name, type, flags, addr, offset, size, link, info,
# addralign, entsize.
_SECTION = {32: "IIIIIIIIII", 64: "IIQQQQIIQQ"}
_PT_LOAD = 1
_SHT_NOBITS = 8
_SHF_COMPRESSED = 0x800
_DT_NULL, _DT_STRTAB = 0, 5
# Numbers that do not fit into the header's halves are in section header 0.
_PN_XNUM, _SHN_XINDEX = 0xFFFF, 0xFFFF
_MOST_NAME_BYTES = 4096
_MOST_TABLE_BYTES = 256 << 20


@dataclass(frozen=True)
class Segment:
    """One program header. Offsets, sizes and the alignment are in bytes."""

    kind: int
    offset: int
    address: int
    file_size: int
    alignment: int


class ElfFile:
    """An open file (binary), which has to stay open; `bits` is 32 or 64, `kind` e_type, `machine` e_machine.

    Raises:
        ValueError, struct.error: it is no ELF file, or its headers are damaged.
    """

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = file.seek(0, os.SEEK_END)
        ident = self._read(0, 16)
        if ident[:4] != b"\x7fELF":
            raise ValueError("it does not begin as an ELF file does")
        if ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise ValueError(f"class {ident[4]}, data encoding {ident[5]}: neither is known")
        self.bits = 32 * ident[4]
        self.little_endian = ident[5] == 1
        self._order = "<" if self.little_endian else ">"
        header = struct.Struct(self._order + _HEADER[self.bits])
        fields = header.unpack(self._read(16, header.size))
        self.kind, self.machine = fields[0], fields[1]
        self._sections_at, self._section_bytes = fields[5], fields[10]
        segments_at, segment_bytes, segments = fields[4], fields[8], fields[9]
        self._sections, self._names_index = fields[11], fields[12]
        if self._sections_at:
            first = self._section(0)
            self._sections = self._sections or first[5]
            if self._names_index == _SHN_XINDEX:
                self._names_index = first[6]
            if segments == _PN_XNUM:
                segments = first[7]
        self.segments = tuple(self._segments(segments_at, segment_bytes, segments))

    def content(self, segment: Segment) -> bytes:
        """What the file holds of a segment."""
        return self._read(segment.offset, segment.file_size)

    def notes(self, segment: Segment) -> Iterator[tuple[bytes, int, bytes]]:
        """Owner, type and description of each note of a PT_NOTE segment."""
        data = self.content(segment)
        # 8 is .note.gnu.property's own.
        unit = 8 if segment.alignment == 8 else 4
        head = struct.Struct(self._order + "III")
        at = 0
        while at + head.size <= len(data):
            name_bytes, description_bytes, kind = head.unpack_from(data, at)
            name_at = at + head.size
            start = _aligned(name_at + name_bytes, unit)
            end = start + description_bytes
            if end > len(data):
                raise ValueError(f"a note at {segment.offset + at:#x} is longer than its segment")
            yield data[name_at : name_at + name_bytes].rstrip(b"\0"), kind, data[start:end]
            at = _aligned(end, unit)

    def dynamic_tags(self, segment: Segment) -> list[tuple[int, int]]:
        """The (tag, value) pairs of the PT_DYNAMIC segment up to its end mark."""
        pair = struct.Struct(self._order + ("iI" if self.bits == 32 else "qQ"))
        data = self.content(segment)
        tags: list[tuple[int, int]] = []
        for tag, value in pair.iter_unpack(data[: len(data) // pair.size * pair.size]):
            if tag == _DT_NULL:
                break
            tags.append((tag, value))
        return tags

    def dynamic_names(
        self, tags: Collection[tuple[int, int]], wanted: Collection[int]
    ) -> list[tuple[int, str]]:
        """The strings that some of the tags stand for, in the file's order."""
        strings = dict(tags).get(_DT_STRTAB)
        if strings is None:
            # A file of debug information alone keeps the header and loses what it points to.
            return []
        offset = self._offset_of(strings)
        return [(tag, self._name(offset + value)) for tag, value in tags if tag in wanted]

    def section_names(self) -> frozenset[bytes]:
        """Names of all sections; empty without section headers."""
        return frozenset(name for name, *_ in self.sections())

    def sections(self) -> Iterator[tuple[bytes, int, int, bool]]:
        """Name, offset, size in the file (0: nothing is there), and whether it is compressed, of each."""
        if not self._sections or not self._sections_at or not self._names_index:
            return
        entry = struct.Struct(self._order + _SECTION[self.bits])
        size = self._section_bytes
        table = self._read(self._sections_at, self._sections * size)
        names = entry.unpack_from(table, self._names_index * size)
        text = b"" if names[1] == _SHT_NOBITS else self._read(names[4], names[5])
        for number in range(self._sections):
            start, kind, flags, _, offset, length, *_ = entry.unpack_from(table, number * size)
            name = text[start : max(text.find(b"\0", start), start)]
            yield name, offset, 0 if kind == _SHT_NOBITS else length, bool(flags & _SHF_COMPRESSED)

    def _segments(self, at: int, size: int, count: int) -> Iterator[Segment]:
        table = self._read(at, size * count) if count else b""
        for number in range(count):
            if self.bits == 64:
                fields = struct.unpack_from(self._order + "IIQQQQQQ", table, number * size)
                kind, _, offset, address, _, file_size, _, alignment = fields
            else:
                fields = struct.unpack_from(self._order + "IIIIIIII", table, number * size)
                kind, offset, address, _, file_size, _, _, alignment = fields
            yield Segment(kind, offset, address, file_size, alignment)

    def _section(self, number: int) -> tuple[int, ...]:
        entry = struct.Struct(self._order + _SECTION[self.bits])
        return entry.unpack(self._read(self._sections_at + number * self._section_bytes, entry.size))

    def _offset_of(self, address: int) -> int:
        for segment in self.segments:
            if segment.kind == _PT_LOAD and 0 <= address - segment.address < segment.file_size:
                return segment.offset + address - segment.address
        raise ValueError(f"no segment holds the strings at {address:#x}")

    def _name(self, offset: int) -> str:
        name, end, _ = self._up_to(offset, _MOST_NAME_BYTES).partition(b"\0")
        if not end:
            raise ValueError(f"the name at {offset:#x} has no end")
        return name.decode("utf-8", "surrogateescape")

    def _read(self, offset: int, size: int) -> bytes:
        if size > _MOST_TABLE_BYTES:
            raise ValueError(f"a table of {size} bytes at {offset:#x}")
        data = self._up_to(offset, size)
        if len(data) != size:
            raise ValueError(f"{size} bytes at {offset:#x} are beyond its end ({self._size} bytes)")
        return data

    def _up_to(self, offset: int, size: int) -> bytes:
        if offset >= self._size:
            return b""
        self._file.seek(offset)
        return self._file.read(size)


def _aligned(value: int, unit: int) -> int:
    return (value + unit - 1) // unit * unit
