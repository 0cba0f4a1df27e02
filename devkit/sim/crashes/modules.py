"""Programs and libraries as they lie in a process's memory: symbols, build-ids, call frame tables.

Everything that is loaded is read from the memory, so that a file that was replaced since does not mislead;
only a table of local symbols comes from the file, if it is still the one that was loaded.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

from devkit.sim.crashes.memory import Mapping, Maps, Memory

_PT_LOAD, _PT_DYNAMIC, _PT_NOTE = 1, 2, 4
_PT_GNU_EH_FRAME = 0x6474E550
_DT_HASH, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ = 4, 5, 6, 10
_DT_GNU_HASH = 0x6FFFFEF5
_NT_GNU_BUILD_ID = 3
_SHT_SYMTAB = 2
_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SHDR = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_MAX_SYMBOLS = 4_000_000


@dataclass(frozen=True)
class Symbol:
    """A function.

    Args:
        start: as in the file (a virtual address, not where it lies in the process).
    """

    start: int
    size: int
    name: str


class Module:
    """One loaded ELF file.

    Args:
        first: the mapping of its beginning.

    Raises:
        OSError: its headers cannot be read.
        ValueError: it is no ELF file.
    """

    def __init__(self, memory: Memory, first: Mapping) -> None:
        self._memory = memory
        self._first = first
        header = memory.read(first.start, _EHDR.size)
        if header[:4] != b"\x7fELF" or header[4] != 2:
            raise ValueError(f"{first.name} is no 64-bit ELF file")
        fields = _EHDR.unpack(header)
        table, size, count = fields[5], fields[9], fields[10]
        data = memory.read(first.start + table, size * count)
        self._headers = [_PHDR.unpack_from(data, index * size) for index in range(count)]
        load = next((h for h in self._headers if h[0] == _PT_LOAD and h[2] == 0), None)
        if load is None:
            raise ValueError(f"{first.name} has no first segment")
        # What is added to an address of the file to get one of the process.
        self.bias: int = first.start - load[3]
        self.name = first.name
        self._build_id: str | None = None
        self._symbols: list[Symbol] | None = None
        self._starts: list[int] = []

    @property
    def frame_table(self) -> int | None:
        """Where .eh_frame_hdr lies in the process."""
        found: int | None = next((h[3] + self.bias for h in self._headers if h[0] == _PT_GNU_EH_FRAME), None)
        return found

    @property
    def build_id(self) -> str:
        """In hex, "" when it has none."""
        if self._build_id is None:
            self._build_id = ""
            for kind, _, _, address, _, size, _, _ in self._headers:
                if kind == _PT_NOTE:
                    try:
                        data = self._memory.read(address + self.bias, size)
                    except OSError:
                        continue
                    self._build_id = next(_build_ids(data), self._build_id)
        return self._build_id

    def symbol_at(self, address: int) -> Symbol | None:
        """The function at an address of the file."""
        if self._symbols is None:
            self._symbols = self._load_symbols()
            self._starts = [symbol.start for symbol in self._symbols]
        index = bisect_right(self._starts, address) - 1
        if index < 0:
            return None
        symbol = self._symbols[index]
        return symbol if address < symbol.start + symbol.size else None

    def exported(self, wanted: bytes) -> int | None:
        """Where in the process an exported object lies, None when it exports no such name."""
        for name, _, _, section, value, _ in self._dynamic_symbols():
            if section and name == wanted:
                return int(value) + self.bias
        return None

    def _load_symbols(self) -> list[Symbol]:
        found: dict[int, Symbol] = {}
        for source in (self._dynamic_symbols(), self._file_symbols()):
            for name, info, _, section, value, size in source:
                if section and size and name and info & 15 in (_STT_FUNC, _STT_GNU_IFUNC):
                    known = found.get(value)
                    if known is None or known.size < size:
                        found[value] = Symbol(value, size, name.decode("utf-8", "replace"))
        return [found[start] for start in sorted(found)]

    def _dynamic_symbols(self) -> Iterator[tuple[bytes, int, int, int, int, int]]:
        try:
            tags = dict(self._dynamic())
            symbols, strings = self._pointer(tags[_DT_SYMTAB]), self._pointer(tags[_DT_STRTAB])
            count = self._symbol_count(tags)
            table = self._memory.read(symbols, min(count, _MAX_SYMBOLS) * _SYMBOL.size)
            names = self._memory.read(strings, tags[_DT_STRSZ])
        except (OSError, KeyError):
            return
        yield from _read_symbols(table, names)

    def _dynamic(self) -> Iterator[tuple[int, int]]:
        for kind, _, _, address, _, _, size, _ in self._headers:
            if kind == _PT_DYNAMIC:
                data = self._memory.read(address + self.bias, size)
                yield from struct.iter_unpack("<QQ", data[: len(data) // 16 * 16])

    def _pointer(self, value: int) -> int:
        """glibc relocates the pointers of a dynamic section in place, except where it is read-only."""
        return value if value >= self._first.start else value + self.bias

    def _symbol_count(self, tags: dict[int, int]) -> int:
        if _DT_HASH in tags:
            return int(struct.unpack("<II", self._memory.read(self._pointer(tags[_DT_HASH]), 8))[1])
        table = self._pointer(tags[_DT_GNU_HASH])
        buckets, first, bloom, _ = struct.unpack("<IIII", self._memory.read(table, 16))
        start = table + 16 + bloom * 8
        heads = struct.unpack(f"<{buckets}I", self._memory.read(start, buckets * 4))
        last = max(heads, default=0)
        if last < first:
            return int(first)
        chain = start + buckets * 4
        # The chain of the last bucket ends with an odd hash.
        while not self._memory.read(chain + (last - first) * 4, 1)[0] & 1:
            last += 1
        return int(last) + 1

    def _file_symbols(self) -> Iterator[tuple[bytes, int, int, int, int, int]]:
        """The local symbols too, if the file has them and is the one that was loaded."""
        try:
            with open(self.name, "rb") as file:
                facts = os.fstat(file.fileno())
                device = f"{os.major(facts.st_dev):02x}:{os.minor(facts.st_dev):02x}"
                if (device, facts.st_ino) != (self._first.device, self._first.inode):
                    return
                fields = _EHDR.unpack(file.read(_EHDR.size))
                offset, size, count = fields[6], fields[11], fields[12]
                file.seek(offset)
                table = file.read(size * count)
                sections = [_SHDR.unpack_from(table, index * size) for index in range(count)]
                for section in sections:
                    if section[1] == _SHT_SYMTAB:
                        strings = sections[section[6]]
                        file.seek(section[4])
                        symbols = file.read(min(section[5], _MAX_SYMBOLS * _SYMBOL.size))
                        file.seek(strings[4])
                        yield from _read_symbols(symbols, file.read(strings[5]))
        except (OSError, struct.error, IndexError):
            return


class Modules:
    """The modules of a process, each looked at when it is needed."""

    def __init__(self, memory: Memory, maps: Maps) -> None:
        self._memory = memory
        self._maps = maps
        self._known: dict[int, Module | None] = {}

    def at(self, mapping: Mapping) -> Module | None:
        """The module a mapping belongs to, None when it is none."""
        first = self._maps.first_of(mapping)
        if first.start not in self._known:
            try:
                self._known[first.start] = Module(self._memory, first)
            except (OSError, ValueError, struct.error):
                self._known[first.start] = None
        return self._known[first.start]


def _read_symbols(table: bytes, names: bytes) -> Iterator[tuple[bytes, int, int, int, int, int]]:
    whole = len(table) // _SYMBOL.size * _SYMBOL.size
    for name, info, other, section, value, size in _SYMBOL.iter_unpack(table[:whole]):
        end = names.find(b"\0", name)
        yield names[name:end], info, other, section, value, size


def _build_ids(notes: bytes) -> Iterator[str]:
    at = 0
    while at + 12 <= len(notes):
        name_size, size, kind = struct.unpack_from("<III", notes, at)
        content = at + 12 + (name_size + 3 & ~3)
        if kind == _NT_GNU_BUILD_ID and notes[at + 12 : at + 12 + name_size] == b"GNU\0":
            yield notes[content : content + size].hex()
        at = content + (size + 3 & ~3)
