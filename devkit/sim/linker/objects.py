"""What linking needs to know of an ELF file, read once for every state of the file."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

_EHDR = struct.Struct("<16sHHIQQQIHHHHHH")
_PHDR = struct.Struct("<IIQQQQQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB, _DT_SYMTAB, _DT_STRSZ, _DT_RPATH, _DT_RUNPATH = 1, 5, 6, 10, 15, 29
_DT_HASH, _DT_GNU_HASH = 4, 0x6FFFFEF5
_STB_GLOBAL = 1
_CLASS_64 = 2
_CACHE_FILES = 500


@dataclass(frozen=True)
class ElfObject:
    """A file that is linked.

    Args:
        needed: names of the libraries it asks for.
        run_path: DT_RUNPATH, or DT_RPATH where that is missing, as it stands in the file.
        old_run_path: it is a DT_RPATH, which comes before LD_LIBRARY_PATH.
        alignment: the smallest of its segments to load.
        defined, wanted: names of symbols; `wanted` are those that must be found elsewhere.
    """

    needed: tuple[str, ...]
    run_path: str
    old_run_path: bool
    alignment: int
    defined: frozenset[bytes]
    wanted: frozenset[bytes]


@dataclass(frozen=True)
class BadObject:
    """A file that cannot be linked.

    Args:
        kind: "magic", "class", "machine", "small".
        detail: the four bytes, the class, the machine, or how many bytes there are.
    """

    kind: str
    detail: int


class ObjectCache:
    """Files that were read before."""

    def __init__(self, machine: int) -> None:
        self._machine = machine
        self._known: dict[tuple[int, int, int, int, int], ElfObject | BadObject] = {}

    def load(self, path: Path) -> ElfObject | BadObject:
        """What a file is.

        Raises:
            OSError: it cannot be read.
        """
        with path.open("rb") as file:
            facts = os.fstat(file.fileno())
            # A push sets the time of modification, in whole seconds; nobody sets that of the change.
            key = (facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns, facts.st_ctime_ns)
            known = self._known.get(key)
            if known is None:
                if len(self._known) >= _CACHE_FILES:
                    self._known.clear()
                known = self._known[key] = read_object(file.fileno(), self._machine)
        return known


def read_object(fd: int, machine: int) -> ElfObject | BadObject:
    """Read an open file.

    Args:
        machine: the e_machine it is to have.

    Raises:
        OSError: it cannot be read.
    """
    header = os.pread(fd, _EHDR.size, 0)
    if len(header) < _EHDR.size:
        return BadObject("small", len(header))
    if header[:4] != b"\x7fELF":
        return BadObject("magic", int.from_bytes(header[:4], "big"))
    if header[4] != _CLASS_64:
        return BadObject("class", header[4])
    fields = _EHDR.unpack(header)
    if fields[2] != machine:
        return BadObject("machine", fields[2])
    table = os.pread(fd, fields[9] * fields[10], fields[5])
    headers = [_PHDR.unpack_from(table, n * fields[9]) for n in range(len(table) // fields[9])]
    try:
        return _read_dynamic(fd, headers)
    except (struct.error, IndexError, ValueError):
        # Broken in a way that ld.so may judge for itself.
        return ElfObject((), "", False, 1 << 62, frozenset(), frozenset())


def _read_dynamic(fd: int, headers: list[tuple[int, ...]]) -> ElfObject:
    loads = [h for h in headers if h[0] == _PT_LOAD]
    dynamic = next((h for h in headers if h[0] == _PT_DYNAMIC), None)
    alignment = min((h[7] for h in loads), default=1 << 62)
    if dynamic is None:
        return ElfObject((), "", False, alignment, frozenset(), frozenset())

    def at(address: int, count: int) -> bytes:
        for _, _, offset, start, _, size, _, _ in loads:
            if start <= address < start + size:
                return os.pread(fd, count, offset + address - start)
        raise ValueError(f"nothing at {address:#x}")

    content = os.pread(fd, dynamic[5], dynamic[2])
    pairs = list(struct.iter_unpack("<qQ", content[: len(content) // 16 * 16]))
    tags = dict(pairs)
    names = at(tags[_DT_STRTAB], tags[_DT_STRSZ]) if _DT_STRTAB in tags else b""

    def name(offset: int) -> bytes:
        return names[offset : names.index(0, offset)]

    needed = tuple(os.fsdecode(name(value)) for tag, value in pairs if tag == _DT_NEEDED)
    run_path = tags.get(_DT_RUNPATH, tags.get(_DT_RPATH))
    defined: set[bytes] = set()
    wanted: set[bytes] = set()
    for text, info, section in _symbols(at, tags, name):
        binding = info >> 4
        if section:
            defined.add(text)
        elif binding == _STB_GLOBAL and text:
            wanted.add(text)
    return ElfObject(
        needed,
        os.fsdecode(name(run_path)) if run_path is not None else "",
        _DT_RPATH in tags and _DT_RUNPATH not in tags,
        alignment,
        frozenset(defined),
        frozenset(wanted - defined),
    )


def _symbols(
    at: Callable[[int, int], bytes], tags: dict[int, int], name: Callable[[int], bytes]
) -> Iterator[tuple[bytes, int, int]]:
    """Name, binding and type, section of each dynamic symbol."""
    if _DT_SYMTAB not in tags:
        return
    count = _symbol_count(at, tags)
    table = at(tags[_DT_SYMTAB], count * _SYMBOL.size)
    for offset, info, _, section, _, _ in _SYMBOL.iter_unpack(table[: len(table) // 24 * 24]):
        yield name(offset), info, section


def _symbol_count(at: Callable[[int, int], bytes], tags: dict[int, int]) -> int:
    if _DT_HASH in tags:
        return int(struct.unpack("<II", at(tags[_DT_HASH], 8))[1])
    if _DT_GNU_HASH not in tags:
        return 0
    table = tags[_DT_GNU_HASH]
    buckets, first, bloom, _ = struct.unpack("<IIII", at(table, 16))
    start = table + 16 + bloom * 8
    last = max(struct.unpack(f"<{buckets}I", at(start, buckets * 4)), default=0)
    if last < first:
        return int(first)
    chain = start + buckets * 4
    # The chain of the last bucket ends with an odd hash.
    while not at(chain + (last - first) * 4, 1)[0] & 1:
        last += 1
    return int(last) + 1
