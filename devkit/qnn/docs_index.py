"""What was found in an SDK's pages and headers, kept until one of them changes."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.errors import FileError

# Of the layout of what is kept.
_VERSION = 2


def stamp_of(files: Iterable[Path]) -> list[Any]:
    """What changes when one of these files or folders does.

    Raises:
        FileError: one of them cannot be read.
    """
    stamp: list[Any] = [_VERSION]
    for path in files:
        try:
            status = path.stat()
        except OSError as error:
            raise FileError(f"{path} cannot be read", evidence=error.strerror) from None
        stamp.append([path.name, status.st_size, status.st_mtime_ns])
    return stamp


def kept_for(path: Path, stamp: list[Any]) -> dict[str, Any] | None:
    """What was kept for a page or folder; None when there is nothing, or it is of another state."""
    try:
        data = json.loads(_file(path).read_text("utf-8"))
    except (OSError, ValueError):
        return None
    if not isinstance(data, dict) or data.get("stamp") != stamp:
        return None
    found = data.get("found")
    return found if isinstance(found, dict) else None


def keep(path: Path, stamp: list[Any], found: Mapping[str, Any]) -> None:
    """Keep it for the next command."""
    with contextlib.suppress(OSError):  # only speed is lost
        text = json.dumps({"path": str(path), "stamp": stamp, "found": found})
        paths.write_atomically(_file(path), text)


def _file(path: Path) -> Path:
    name = hashlib.sha256(str(path.absolute()).encode("utf-8", "surrogateescape")).hexdigest()[:24]
    return paths.cache_dir() / "qnn-docs" / f"{name}.json"
