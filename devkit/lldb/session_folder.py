"""The private folder of a debug session, and those of sessions that were killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from devkit import paths, process


@contextlib.contextmanager
def session_folder() -> Iterator[Path]:
    """A private folder named after this process; those of dead processes are swept first."""
    for old in stale_folders():
        shutil.rmtree(old, ignore_errors=True)
    sessions = _sessions()
    sessions.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=sessions))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def stale_folders() -> list[Path]:
    """Folders of sessions whose process has ended without removing them."""
    try:
        folders = sorted(_sessions().iterdir())
    except OSError:
        return []
    pids = [(folder, folder.name.partition("-")[0]) for folder in folders]
    return [folder for folder, pid in pids if pid.isdigit() and not process.is_alive(int(pid))]


def _sessions() -> Path:
    return paths.state_dir() / "sessions"
