"""What is inside ELF files: machine, needed libraries, build-id, debug information."""

from devkit.symbols.elf import ElfInfo, is_elf, read_elf
from devkit.symbols.index import SymbolIndex
from devkit.symbols.strip import Stripper

__all__ = ["ElfInfo", "Stripper", "SymbolIndex", "is_elf", "read_elf"]
