"""build-id → the unstripped file on this machine: the one way any part of devkit finds symbols."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from devkit.errors import FileError
from devkit.symbols.elf import ElfInfo, is_elf, read_elf


class SymbolIndex:
    """Local ELF files by build-id. The file with debug information wins over one without."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._by_id: dict[str, ElfInfo] = {}
        for file in files:
            self.add(file)

    def add(self, file: Path) -> None:
        """Take one file in. Files that are no ELF file or have no build-id are passed over."""
        if not is_elf(file):
            return
        try:
            info = read_elf(file)
        except FileError:
            return
        if info.build_id is None:
            return
        known = self._by_id.get(info.build_id)
        if known is None or (info.has_debug_info and not known.has_debug_info):
            self._by_id[info.build_id] = info

    def find(self, build_id: str) -> ElfInfo | None:
        """The file with exactly this build-id (hex, any case), or None."""
        return self._by_id.get(build_id.lower())

    def folders(self) -> tuple[Path, ...]:
        """The folders of all files, each once, in the order they were added."""
        return tuple(dict.fromkeys(info.path.parent for info in self._by_id.values()))
