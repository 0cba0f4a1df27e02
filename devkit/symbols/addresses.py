"""Addresses in an ELF file: of a function, and of a place in a mapping of it."""

from __future__ import annotations

import struct
from functools import lru_cache
from pathlib import Path

from devkit.symbols.elf_file import ElfFile
from devkit.symbols.functions import qualified_name

_PT_LOAD = 1
_PAGE_BYTES = 4096


@lru_cache(maxsize=256)
def _functions(file: Path, _mtime_ns: int) -> dict[str, int]:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import SymbolTableSection

    found: dict[str, int] = {}
    try:
        with file.open("rb") as stream:
            for section in ELFFile(stream).iter_sections():
                if not isinstance(section, SymbolTableSection):
                    continue
                for symbol in section.iter_symbols():
                    if symbol["st_info"]["type"] == "STT_FUNC" and symbol["st_value"]:
                        known = found.setdefault(symbol.name, symbol["st_value"])
                        if known != symbol["st_value"]:
                            found[symbol.name] = 0  # two static ones of a name: which is meant is open
    except (
        OSError,
        ELFError,
        ValueError,
        KeyError,
        AttributeError,
        IndexError,
        AssertionError,
        struct.error,
    ):
        return {}
    return found


@lru_cache(maxsize=64)
def _readable(file: Path, mtime_ns: int) -> dict[str, int]:
    found: dict[str, int] = {}
    for symbol, address in _functions(file, mtime_ns).items():
        name = qualified_name(symbol) if symbol.startswith("_Z") else None
        if name is not None and found.setdefault(name, address) != address:
            found[name] = 0  # overloads
    return found


def address_of_function(file: Path, name: str) -> int | None:
    """The virtual address where a function begins; None if it has none, or the name stands for several.

    Args:
        name: as the linker has it, or as people read it: `kit::decode(kit::Step*)`.
    """
    try:
        changed = file.stat().st_mtime_ns
    except OSError:
        return None
    name = name.partition("@")[0]
    found = _functions(file, changed).get(name)
    if found is None and ("::" in name or "(" in name):
        found = _readable(file, changed).get(name.partition("(")[0])
    return found or None


def mapped_address(file: Path, offset: int, distance: int) -> int | None:
    """The virtual address `distance` bytes into the mapping that begins at `offset` of the file.

    None where no segment is mapped from there.
    """
    try:
        with file.open("rb") as stream:
            segments = ElfFile(stream).segments
    except (OSError, ValueError, struct.error):
        return None
    for segment in segments:
        if segment.kind != _PT_LOAD or segment.offset // _PAGE_BYTES * _PAGE_BYTES != offset:
            continue
        place = offset + distance - segment.offset
        if 0 <= place < segment.file_size:
            return segment.address + place
    return None
