"""Answers of a symbolizer, kept by build-id and address: the same crash again asks nobody."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from devkit import paths
from devkit.symbols.elf import ElfInfo
from devkit.symbols.location import Location

_KEEP_DAYS = 30
_MOST_ADDRESSES = 50_000
# Builds may be given any build-id; these lengths are hashes of the content (xxh, md5, sha1).
_HASHES = (16, 32, 40)


class LineCache:
    """A file for each build, which also names the file that was read and the tool: another one begins anew.

    What cannot be read or written is as if it were not there.
    """

    def __init__(self) -> None:
        self._folder = paths.cache_dir() / "lines"
        self._swept = False

    def load(self, info: ElfInfo, tool: str) -> dict[int, tuple[Location, ...]]:
        """What is known of a file."""
        file = self._file(info)
        if file is None:
            return {}
        try:
            data = json.loads(file.read_bytes())
            if data["of"] != _identity(info, tool):
                return {}
            found = {
                int(address): tuple(Location(*fields) for fields in locations)
                for address, locations in data["lines"].items()
            }
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return {}
        with contextlib.suppress(OSError):
            os.utime(file)  # kept while it is used
        return found

    def store(self, info: ElfInfo, tool: str, lines: Mapping[int, Sequence[Location]]) -> None:
        """Keep all that is known of a file now."""
        file = self._file(info)
        if file is None or len(lines) > _MOST_ADDRESSES:
            return
        rows = {
            str(address): [[loc.function, loc.file, loc.line, loc.column] for loc in locations]
            for address, locations in lines.items()
        }
        with contextlib.suppress(OSError):
            data = {"of": _identity(info, tool), "lines": rows}
            paths.write_atomically(file, json.dumps(data, ensure_ascii=False), mode=0o600)
            self._sweep(self._folder.iterdir())

    def _file(self, info: ElfInfo) -> Path | None:
        if info.build_id is None or len(info.build_id) not in _HASHES:
            return None
        return self._folder / f"{info.build_id}.json"

    def _sweep(self, files: Iterable[Path]) -> None:
        if self._swept:
            return
        self._swept = True
        oldest = time.time() - _KEEP_DAYS * 86400
        for file in files:
            with contextlib.suppress(OSError):
                if file.stat().st_mtime < oldest:
                    file.unlink()


def _identity(info: ElfInfo, tool: str) -> list[object]:
    """Of a stripped file and the one with debug information only the latter has lines."""
    status = info.path.stat()
    return [tool, status.st_size, status.st_mtime_ns]
