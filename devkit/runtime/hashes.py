"""SHA-256 of local files, remembered by path, size, times and inode so that a 3 GB model is read once."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from devkit import paths
from devkit.errors import FileError

_CHUNK_BYTES = 1 << 20
_MAX_ENTRIES = 20_000


class HashCache:
    """Use as a context manager: new hashes are written back once, at the end."""

    def __init__(self, file: Path | None = None) -> None:
        self._file = file or paths.cache_dir() / "hashes.json"
        self._known: dict[str, list[object]] = {}
        self._changed = False

    def __enter__(self) -> HashCache:
        try:
            loaded = json.loads(self._file.read_text("utf-8"))
            if isinstance(loaded, dict):
                self._known = loaded
        except (OSError, ValueError):
            self._known = {}
        return self

    def __exit__(self, *_error: object) -> None:
        if not self._changed:
            return
        recent = dict(list(self._known.items())[-_MAX_ENTRIES:])
        try:
            paths.write_atomically(self._file, json.dumps(recent))
        except OSError:
            # Only speed is lost.
            pass

    def sha256(self, file: Path, on_bytes: Callable[[int], None] | None = None) -> str:
        """Hex digest of the content.

        Raises:
            FileError: the file cannot be read.
        """
        try:
            status = file.stat()
            key = str(file.absolute())
            # The time of the change, too: cp -p and rsync -t set that of the modification.
            stamp: list[object] = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
            entry = self._known.get(key)
            if isinstance(entry, list) and entry[:-1] == stamp and isinstance(entry[-1], str):
                if on_bytes:
                    on_bytes(status.st_size)
                return entry[-1]
            digest = hashlib.sha256()
            with file.open("rb") as stream:
                while chunk := stream.read(_CHUNK_BYTES):
                    digest.update(chunk)
                    if on_bytes:
                        on_bytes(len(chunk))
        except OSError as error:
            raise FileError(f"{file} cannot be read", evidence=str(error)) from None
        # Written last, so that pruning drops what was not used for longest.
        self._known.pop(key, None)
        self._known[key] = [*stamp, digest.hexdigest()]
        self._changed = True
        return digest.hexdigest()


def regular_files(folder: Path, on_skipped: Callable[[Path, str], object]) -> list[Path]:
    """All files below a folder, sorted. Links to files and to folders are followed.

    Args:
        on_skipped: told of everything else (a dead link, a pipe, a link that leads in a circle), with why.

    Raises:
        FileError: a folder cannot be read.
    """
    return sorted(_walk(folder, (), on_skipped))


def _walk(
    folder: Path, above: tuple[tuple[int, int], ...], on_skipped: Callable[[Path, str], object]
) -> Iterator[Path]:
    try:
        status = folder.stat()
        paths_inside = sorted(folder.iterdir())
    except OSError as error:
        raise FileError(f"{folder} cannot be read", evidence=os.strerror(error.errno or 0)) from None
    identity = (status.st_dev, status.st_ino)
    if identity in above:
        on_skipped(folder, "a link that leads in a circle")
        return
    for path in paths_inside:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            dead = path.is_symlink() and isinstance(error, FileNotFoundError)
            on_skipped(path, "a link to nothing" if dead else os.strerror(error.errno or 0))
            continue
        if stat.S_ISREG(mode):
            yield path
        elif stat.S_ISDIR(mode):
            yield from _walk(path, (*above, identity), on_skipped)
        else:
            on_skipped(path, "neither a file nor a folder")
