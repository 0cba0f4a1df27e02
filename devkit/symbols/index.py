"""build-id → the unstripped file on this machine: the one way any part of devkit finds symbols."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from devkit.errors import FileError
from devkit.symbols.elf import ElfInfo, is_elf, read_elf

# What no unstripped library or program is called; build folders hold thousands of these.
_NOT_SYMBOLS = {
    ".o", ".a", ".d", ".c", ".cc", ".cpp", ".h", ".hpp", ".inl", ".py", ".txt", ".json", ".ninja", ".cmake",
    ".md", ".mnn", ".weight", ".bin", ".png", ".jpg", ".java", ".class", ".obj", ".lib",
}  # fmt: skip
_SKIPPED_FOLDERS = {".git", ".hg", ".svn", "CMakeFiles", "node_modules", "__pycache__"}


class SymbolIndex:
    """Local ELF files by build-id. The file with debug information wins over one without."""

    def __init__(self, files: Iterable[Path] = ()) -> None:
        self._by_id: dict[str, ElfInfo] = {}
        self._by_name: dict[str, list[ElfInfo]] = {}
        for file in files:
            self.add(file)

    def add(self, file: Path) -> None:
        """Take one file in. Files that are no ELF file are passed over."""
        if not is_elf(file):
            return
        try:
            info = read_elf(file)
        except FileError:
            return
        self._by_name.setdefault(_plain_name(file.name), []).append(info)
        if info.build_id is None:
            return
        known = self._by_id.get(info.build_id)
        if known is None or (info.has_debug_info and not known.has_debug_info):
            self._by_id[info.build_id] = info

    def find(self, build_id: str) -> ElfInfo | None:
        """The file with exactly this build-id (hex, any case), or None."""
        return self._by_id.get(build_id.lower())

    def named(self, name: str) -> tuple[ElfInfo, ...]:
        """The builds that have a file of this name: of each build-id the best one, and all without one.

        A name proves nothing: `find` is the way to lines that are right.
        """
        found: dict[object, ElfInfo] = {}
        for info in self._by_name.get(_plain_name(name), ()):
            if info.build_id is None:
                found[info.path] = info
            else:
                found[info.build_id] = self._by_id[info.build_id]
        return tuple(found.values())

    def folders(self) -> tuple[Path, ...]:
        """The folders of all files, each once, in the order they were added."""
        return tuple(dict.fromkeys(info.path.parent for info in self._by_id.values()))


def _plain_name(name: str) -> str:
    """`libx.so.debug`, `libx.so.dbg` and `libx.so.sym` hold the symbols of libx.so."""
    for ending in (".debug", ".dbg", ".sym"):
        name = name.removesuffix(ending)
    return name


def symbol_files(place: Path) -> Iterator[Path]:
    """A file, or all below a folder that may be a program or library."""
    if place.is_file():
        yield place
        return
    for folder, below, names in os.walk(place):
        below[:] = sorted(name for name in below if name not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            if os.path.splitext(name)[1] not in _NOT_SYMBOLS:
                yield Path(folder, name)
