"""Libraries inside an APK, which Android maps from there: the one that begins at an offset."""

from __future__ import annotations

import contextlib
import struct
import zipfile
from pathlib import Path

from devkit.errors import FileError
from devkit.symbols import ElfInfo, read_elf

_LOCAL_HEADER = struct.Struct("<4s5H3I2H")
_MOST_BYTES = 1 << 30


class Archives:
    """APK files on this machine.

    Args:
        folder: where libraries are unpacked to for the symbolizer; has to live as long as this.
    """

    def __init__(self, files: list[Path], folder: Path) -> None:
        self._files = files
        self._folder = folder
        self._unpacked: dict[tuple[Path, str], ElfInfo | None] = {}

    def add(self, file: Path) -> None:
        """One more archive."""
        self._files.append(file)

    def library_at(self, archive: str, offset: int) -> tuple[str, ElfInfo] | None:
        """The library that begins at `offset` bytes in an archive of this name, with its name, or None.

        Every app's archive is called base.apk: one of another app rarely has a library at the same offset,
        and never the same build-id.
        """
        for file in self._files:
            if file.name == archive and (entry := _entry_at(file, offset)) is not None:
                key = (file, entry)
                if key not in self._unpacked:
                    self._unpacked[key] = self._unpack(file, entry)
                info = self._unpacked[key]
                if info is not None:
                    return entry.rpartition("/")[2], info
        return None

    def _unpack(self, file: Path, entry: str) -> ElfInfo | None:
        target = self._folder / str(len(self._unpacked)) / entry.rpartition("/")[2]
        with contextlib.suppress(OSError, zipfile.BadZipFile, FileError):
            target.parent.mkdir(parents=True)
            with zipfile.ZipFile(file) as archive:
                target.write_bytes(archive.read(entry))
            return read_elf(target)
        return None


def _entry_at(file: Path, offset: int) -> str | None:
    """The stored entry whose data begin at `offset`. Compressed ones cannot be mapped."""
    try:
        with zipfile.ZipFile(file) as archive, file.open("rb") as stream:
            for entry in archive.infolist():
                if entry.compress_type != zipfile.ZIP_STORED or not 0 < entry.file_size <= _MOST_BYTES:
                    continue
                if not entry.header_offset < offset <= entry.header_offset + 4 * 65536:
                    continue
                stream.seek(entry.header_offset)
                header = stream.read(_LOCAL_HEADER.size)
                if len(header) < _LOCAL_HEADER.size:
                    continue
                name_bytes, extra_bytes = _LOCAL_HEADER.unpack(header)[-2:]
                if entry.header_offset + _LOCAL_HEADER.size + name_bytes + extra_bytes == offset:
                    return entry.filename
    except (OSError, zipfile.BadZipFile, struct.error):
        return None
    return None
