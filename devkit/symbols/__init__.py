"""What is inside ELF files: machine, needed libraries, build-id, debug information."""

from devkit.symbols.elf import ElfInfo, is_elf, read_elf
from devkit.symbols.index import SymbolIndex
from devkit.symbols.line_cache import LineCache
from devkit.symbols.location import Location
from devkit.symbols.strip import Stripper
from devkit.symbols.symbolizer import Symbolizer

__all__ = ["ElfInfo", "LineCache", "Location", "Stripper", "SymbolIndex", "Symbolizer", "is_elf", "read_elf"]
