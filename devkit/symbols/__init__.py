"""What is inside ELF files: machine, needed libraries, build-id, debug information."""

from devkit.symbols.elf import ElfInfo, is_elf, read_elf
from devkit.symbols.index import SymbolIndex
from devkit.symbols.strip import Stripper
from devkit.symbols.symbolizer import Location, Symbolizer

__all__ = ["ElfInfo", "Location", "Stripper", "SymbolIndex", "Symbolizer", "is_elf", "read_elf"]
