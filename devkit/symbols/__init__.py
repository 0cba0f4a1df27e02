"""What is inside ELF files: machine, needed libraries, build-id, debug information."""

from devkit.symbols.elf import ElfInfo, is_elf, read_elf
from devkit.symbols.index import SymbolIndex

__all__ = ["ElfInfo", "SymbolIndex", "is_elf", "read_elf"]
