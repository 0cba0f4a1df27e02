"""glibc's ld.so.cache: reading this machine's, writing the phone's. No `ldconfig` is needed.

Format: the "new" one that glibc reads since 2.2 (elf/dl-cache.h): a header, entries sorted by
descending name for a binary search, then the strings; offsets count from the start of the header.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Iterable, Mapping

MAGIC = b"glibc-ld.so.cache1.1"
_HEADER = struct.Struct("<20sIIB3xI12x")
_ENTRY = struct.Struct("<iIIIQ")
_LITTLE_ENDIAN = 2
# FLAG_ELF_LIBC6 with the architecture's own flag.
FLAGS = {"x86_64": 0x0303, "aarch64": 0x0A03}


def read_cache(data: bytes, flags: int) -> dict[str, str]:
    """Library name → path, for the entries with these flags; the first (preferred) one wins.

    Data that is no cache gives an empty result.
    """
    start = data.find(MAGIC)
    if start < 0 or len(data) < start + _HEADER.size:
        return {}
    _, count, _, _, _ = _HEADER.unpack_from(data, start)
    found: dict[str, str] = {}
    for index in range(count):
        offset = start + _HEADER.size + index * _ENTRY.size
        if offset + _ENTRY.size > len(data):
            break
        entry_flags, key, value, _, hwcap = _ENTRY.unpack_from(data, offset)
        # Entries with hwcap are variants for certain processors.
        if entry_flags == flags and hwcap == 0:
            found.setdefault(_string(data, start + key), _string(data, start + value))
    return found


def write_cache(libraries: Mapping[str, str], flags: int) -> bytes:
    """A cache in which each name leads to its path."""
    names = sort_names(libraries)
    strings = bytearray()
    entries = bytearray()
    base = _HEADER.size + len(names) * _ENTRY.size
    for name in names:
        key = base + len(strings)
        strings += name.encode() + b"\0"
        value = base + len(strings)
        strings += libraries[name].encode() + b"\0"
        entries += _ENTRY.pack(flags, key, value, 0, 0)
    return _HEADER.pack(MAGIC, len(names), len(strings), _LITTLE_ENDIAN, 0) + bytes(entries) + bytes(strings)


def sort_names(names: Iterable[str]) -> list[str]:
    """Names in the order the loader searches them: descending, numbers compared by their value."""
    return sorted(names, key=functools.cmp_to_key(_compare), reverse=True)


def _compare(left: str, right: str) -> int:
    a, b = _tokens(left), _tokens(right)
    for x, y in zip(a, b, strict=False):
        if x == y:
            continue
        if isinstance(x, int) and isinstance(y, int):
            return -1 if x < y else 1
        # A number comes after every other character.
        if isinstance(x, int):
            return 1
        if isinstance(y, int):
            return -1
        return -1 if x < y else 1
    return (len(a) > len(b)) - (len(a) < len(b))


def _tokens(name: str) -> list[int | str]:
    tokens: list[int | str] = []
    digits = ""
    for character in [*name, ""]:
        if character.isdigit() and character.isascii():
            digits += character
            continue
        if digits:
            tokens.append(int(digits))
            digits = ""
        if character:
            tokens.append(character)
    return tokens


def _string(data: bytes, offset: int) -> str:
    end = data.find(b"\0", offset)
    return data[offset : end if end >= 0 else len(data)].decode("utf-8", "replace")
