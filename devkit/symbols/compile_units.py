"""The sources that an ELF file's debug information names: the first entry of each DWARF unit, nothing more.

Layouts: DWARF 2 to 5, sections 7.5 (debugging information) and 7.26 (string offsets). What is damaged, or of
a form that is not known, ends the reading: what was found so far is right.
"""

from __future__ import annotations

import mmap
import posixpath
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from devkit.symbols.elf_file import ElfFile

_AT_NAME, _AT_COMP_DIR, _AT_STR_OFFSETS_BASE = 0x03, 0x1B, 0x72
_UT_COMPILE, _UT_PARTIAL, _UT_SKELETON = 1, 3, 4
# Bytes of each form that has always as many; strings and the rest are read by hand.
_FIXED = {
    0x0B: 1, 0x05: 2, 0x06: 4, 0x07: 8, 0x0C: 1, 0x11: 1, 0x12: 2, 0x13: 4, 0x14: 8, 0x19: 0, 0x1C: 4,
    0x1E: 16, 0x20: 8, 0x21: 0, 0x24: 8, 0x29: 1, 0x2A: 2, 0x2B: 3, 0x2C: 4,
}  # fmt: skip
_STRING, _STRP, _LINE_STRP, _IMPLICIT_CONST, _INDIRECT = 0x08, 0x0E, 0x1F, 0x21, 0x16
_STRX = {0x1A: 0, 0x25: 1, 0x26: 2, 0x27: 3, 0x28: 4}
_LEB = (0x0D, 0x0F, 0x15, 0x1B, 0x22, 0x23)
_OFFSETS = (0x0E, 0x10, 0x17, 0x1F, 0x1D, 0x1F20, 0x1F21)
_BLOCKS = {0x0A: 1, 0x03: 2, 0x04: 4, 0x09: 0, 0x18: 0}
_MOST_UNITS = 20000


@dataclass(frozen=True)
class CompileUnit:
    """One source as the compiler was given it: its name, and the folder it was run in."""

    name: str
    folder: str

    @property
    def path(self) -> str:
        """The source's path on the machine that compiled it; relative where that was hidden."""
        return posixpath.normpath(
            posixpath.join(self.folder.replace("\\", "/"), self.name.replace("\\", "/"))
        )


def read_units(path: Path) -> tuple[CompileUnit, ...]:
    """The units of a file; none when it has no debug information, or cannot be read.

    Answers come from a cache while the file's size and time stay the same.
    """
    try:
        status = path.stat()
    except OSError:
        return ()
    return _read(path, status.st_size, status.st_mtime_ns)


@lru_cache(maxsize=256)
def _read(path: Path, size: int, _mtime_ns: int) -> tuple[CompileUnit, ...]:
    found: list[CompileUnit] = []
    if not size:
        return ()
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            elf = ElfFile(file)
            sections = _Sections(data, elf)
            for unit in _units(sections):
                found.append(unit)
                if len(found) >= _MOST_UNITS:
                    break
    except (OSError, ValueError, IndexError, KeyError, struct.error, zlib.error):
        pass
    return tuple(found)


class _Sections:
    """The debug sections, as they are in the file or unpacked."""

    def __init__(self, data: mmap.mmap, elf: ElfFile) -> None:
        self.order = "<" if elf.little_endian else ">"
        self._parts: dict[str, mmap.mmap | bytes] = {}
        self._starts: dict[str, int] = {}
        self._ends: dict[str, int] = {}
        for name, offset, size, is_packed in elf.sections():
            if not name.startswith(b".debug_") or name in (b".debug_line", b".debug_loc", b".debug_ranges"):
                continue
            key = name.decode("ascii", "replace")
            if is_packed:
                # Elf64_Chdr is 24 bytes, Elf32_Chdr 12; the first word says how (1: zlib).
                head = 24 if elf.bits == 64 else 12
                (how,) = struct.unpack_from(self.order + "I", data, offset)
                if how != 1:
                    continue
                self._parts[key] = zlib.decompress(data[offset + head : offset + size])
                self._starts[key], self._ends[key] = 0, len(self._parts[key])
            else:
                self._parts[key], self._starts[key], self._ends[key] = data, offset, offset + size

    def get(self, name: str) -> tuple[mmap.mmap | bytes, int, int]:
        """What holds the section, and where it starts and ends there."""
        return self._parts[name], self._starts[name], self._ends[name]

    def text(self, name: str, offset: int) -> str:
        data, start, end = self.get(name)
        stop = data.find(b"\0", start + offset, end)
        return bytes(data[start + offset : stop]).decode("utf-8", "surrogateescape")

    def number(self, name: str, offset: int, size: int) -> int:
        data, start, _ = self.get(name)
        piece = bytes(data[start + offset : start + offset + size])
        return int.from_bytes(piece, "little" if self.order == "<" else "big")


def _units(sections: _Sections) -> Iterator[CompileUnit]:
    data, at, end = sections.get(".debug_info")
    order = sections.order
    while at + 11 < end:
        (length,) = struct.unpack_from(order + "I", data, at)
        width = 4
        at += 4
        if length == 0xFFFFFFFF:
            (length,) = struct.unpack_from(order + "Q", data, at)
            width, at = 8, at + 8
        next_unit = at + length
        (version,) = struct.unpack_from(order + "H", data, at)
        cursor, kind = at + 2, _UT_COMPILE
        if version >= 5:
            kind, address = data[cursor], data[cursor + 1]
            cursor += 2
        abbreviations = int.from_bytes(data[cursor : cursor + width], "little" if order == "<" else "big")
        cursor += width
        if version < 5:
            address = data[cursor]
            cursor += 1
        if kind == _UT_SKELETON:
            cursor += 8
        if kind in (_UT_COMPILE, _UT_PARTIAL, _UT_SKELETON):
            unit = _first_entry(sections, cursor, abbreviations, width, address, version)
            if unit is not None:
                yield unit
        at = next_unit


def _first_entry(
    sections: _Sections, at: int, abbreviations: int, width: int, address: int, version: int
) -> CompileUnit | None:
    data, _, _ = sections.get(".debug_info")
    code, at = _leb(data, at)
    values: dict[int, tuple[int, int]] = {}
    for attribute, form in _specification(sections, abbreviations, code):
        while form == _INDIRECT:
            form, at = _leb(data, at)
        if attribute in (_AT_NAME, _AT_COMP_DIR, _AT_STR_OFFSETS_BASE):
            values[attribute] = (form, at)
        at = _after(data, at, form, width, address if version > 2 or form != 0x10 else width, sections.order)
    texts = [_text(sections, values, key, width) for key in (_AT_NAME, _AT_COMP_DIR)]
    return None if texts[0] is None else CompileUnit(texts[0], texts[1] or "")


def _specification(sections: _Sections, offset: int, wanted: int) -> Iterator[tuple[int, int]]:
    data, start, _ = sections.get(".debug_abbrev")
    at = start + offset
    while True:
        code, at = _leb(data, at)
        if not code:
            return
        at = _leb(data, at)[1] + 1  # its tag, and whether it has children
        while True:
            attribute, at = _leb(data, at)
            form, at = _leb(data, at)
            if form == _IMPLICIT_CONST:
                at = _leb(data, at)[1]
            if not attribute and not form:
                break
            if code == wanted:
                yield attribute, form
        if code == wanted:
            return


def _after(data: mmap.mmap | bytes, at: int, form: int, width: int, address: int, order: str) -> int:
    """Where the value of a form ends that begins at `at`."""
    if form in _FIXED:
        return at + _FIXED[form]
    if form == 0x01:
        return at + address
    if form in _OFFSETS:
        return at + width
    if form == _STRING:
        return data.find(b"\0", at) + 1
    if form in _STRX:
        return at + _STRX[form] if _STRX[form] else _leb(data, at)[1]
    if form in _LEB:
        return _leb(data, at)[1]
    if form in _BLOCKS:
        size = _BLOCKS[form]
        if not size:
            length, at = _leb(data, at)
            return at + length
        return at + size + int.from_bytes(data[at : at + size], "little" if order == "<" else "big")
    raise ValueError(f"form {form:#x}")


def _text(sections: _Sections, values: dict[int, tuple[int, int]], key: int, width: int) -> str | None:
    if key not in values:
        return None
    form, at = values[key]
    data, start, _ = sections.get(".debug_info")
    if form == _STRING:
        return bytes(data[at : data.find(b"\0", at)]).decode("utf-8", "surrogateescape")
    if form in (_STRP, _LINE_STRP):
        offset = sections.number(".debug_info", at - start, width)
        return sections.text(".debug_str" if form == _STRP else ".debug_line_str", offset)
    if form in _STRX:
        size = _STRX[form]
        index = sections.number(".debug_info", at - start, size) if size else _leb(data, at)[0]
        # Behind the header of the first table, where the unit does not say.
        base = 8 if width == 4 else 16
        if _AT_STR_OFFSETS_BASE in values:
            base = sections.number(".debug_info", values[_AT_STR_OFFSETS_BASE][1] - start, width)
        offset = sections.number(".debug_str_offsets", base + index * width, width)
        return sections.text(".debug_str", offset)
    return None


def _leb(data: mmap.mmap | bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
