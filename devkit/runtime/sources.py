"""The files of this machine that an app is made of, and whether one of them has changed.

Looked at by their times, not by inotify: that has a limit of watches which a source tree of an engine
can pass, knows nothing of network filesystems and needs another package on macOS and Windows.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import FileError

if TYPE_CHECKING:
    from devkit.config import AppConfig
    from devkit.engine import BuildResult

# What a compiler reads and a build system is written in; headers of generators (.in) as well.
_SUFFIXES = frozenset((
    ".c", ".cc", ".cpp", ".cxx", ".c++", ".h", ".hh", ".hpp", ".hxx", ".h++", ".inl", ".inc", ".ipp", ".tcc",
    ".def", ".s", ".asm", ".cl", ".cu", ".cuh", ".m", ".mm", ".metal", ".comp", ".glsl", ".cmake", ".in",
    ".proto", ".fbs",
))  # fmt: skip
_NAMES = frozenset(("CMakeLists.txt", "CMakePresets.json", "CMakeUserPresets.json"))
_PRUNED = frozenset(("node_modules", "__pycache__", "devkit-out"))
# In a folder with this file nothing is written by hand.
_BUILD_FOLDER_MARK = "CMakeCache.txt"

QUIET_S = 0.3
_LEAST_PAUSE_S, _MOST_PAUSE_S = 0.2, 3.0
# Looking takes at most this share of a processor.
_SHARE = 0.1
_LONGEST_STORM_S = 10.0

Stamp = tuple[int, int, int]
Snapshot = Mapping[str, Stamp]


class Sources:
    """The files that matter to one app.

    Args:
        trees: folders of which every source file counts.
        files: files and folders that count whole (data of the app, devkit.yaml).
    """

    def __init__(self, trees: Iterable[Path], files: Iterable[Path]) -> None:
        self._trees = tuple(os.path.abspath(tree) for tree in trees)
        self._files = dict.fromkeys(os.path.abspath(file) for file in files)
        self._cost_s = 0.0
        self._next_at = 0.0

    def learn(self, result: BuildResult | None, seen: Snapshot) -> Snapshot:
        """Add the sources outside of the trees that a build compiled.

        Args:
            seen: a snapshot of before, which the files learnt now are added to as they are.
        """
        if result is None or result.compile_commands is None:
            return seen
        from devkit.engine.compile_commands import read_database

        try:
            entries = read_database(result.compile_commands).entries
        except FileError:
            return seen
        build = str(result.build_dir.absolute()) + os.sep
        new = [
            entry.file
            for entry in entries
            if entry.file not in self._files
            and not entry.file.startswith(build)
            and not any(entry.file.startswith(tree + os.sep) for tree in self._trees)
        ]
        self._files.update(dict.fromkeys(new))
        added = dict(seen)
        for file in new:
            _stamp(file, added)
        return added

    def snapshot(self) -> Snapshot:
        """All files that are there, with what tells a changed one: mtime (ns), size and inode."""
        started = time.monotonic()
        found: dict[str, Stamp] = {}
        for tree in self._trees:
            _walk(tree, found, sources_only=True)
        for file in self._files:
            if os.path.isdir(file):
                _walk(file, found, sources_only=False)
            else:
                _stamp(file, found)
        self._cost_s = time.monotonic() - started
        return found

    def changed(self, seen: Snapshot) -> bool:
        """Whether something differs from a snapshot. May be asked often: it looks only now and then."""
        if time.monotonic() < self._next_at:
            return False
        differs = self.snapshot() != seen
        pause_s = min(max(self._cost_s / _SHARE, _LEAST_PAUSE_S), _MOST_PAUSE_S)
        self._next_at = time.monotonic() + (0.0 if differs else pause_s)
        return differs

    def wait_for_change(self, seen: Snapshot, *, sleep: Callable[[float], object] = time.sleep) -> list[str]:
        """Wait until something differs from a snapshot and has been quiet for QUIET_S; what differs.

        A switch of branches, and an editor that writes a file twice, are one change.
        """
        while not self.changed(seen):
            sleep(_LEAST_PAUSE_S / 2)
        deadline = time.monotonic() + _LONGEST_STORM_S
        now = self.snapshot()
        while True:
            sleep(QUIET_S)
            later = self.snapshot()
            if later == now or time.monotonic() > deadline:
                return differences(seen, later)
            now = later


def sources_of(
    config_files: Sequence[Path], app: AppConfig, source: Path | None, program: Path | None
) -> Sources:
    """What to watch for an app.

    Args:
        config_files: devkit.yaml, if there is one.
        source: the engine's source folder, for apps that are built.
        program: the executable, for an app that is one.
    """
    files = [*config_files, *(mapping.local for mapping in app.files)]
    if program is not None:
        # Its libraries are beside it.
        files += [program, *sorted(program.parent.glob("*.so"))]
    return Sources([source] if source is not None else [], files)


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Files that are new, gone or changed, sorted."""
    return sorted(file for file in {*before, *after} if before.get(file) != after.get(file))


def _walk(folder: str, found: dict[str, Stamp], *, sources_only: bool) -> None:
    try:
        with os.scandir(folder) as entries:
            inside = list(entries)
    except OSError:
        return
    if sources_only and any(entry.name == _BUILD_FOLDER_MARK for entry in inside):
        return
    for entry in inside:
        try:
            if entry.is_dir(follow_symlinks=not sources_only):
                if not (sources_only and (entry.name.startswith(".") or entry.name in _PRUNED)):
                    _walk(entry.path, found, sources_only=sources_only)
            elif not sources_only or _is_source(entry.name):
                status = entry.stat()
                found[entry.path] = (status.st_mtime_ns, status.st_size, status.st_ino)
        except OSError:
            continue  # gone while we looked


def _is_source(name: str) -> bool:
    # Editors' copies: .#file, .file.swp, file~ end otherwise or begin with a dot.
    return name in _NAMES or (os.path.splitext(name)[1].lower() in _SUFFIXES and not name.startswith("."))


def _stamp(file: str, found: dict[str, Stamp]) -> None:
    try:
        status = os.stat(file)
    except OSError:
        return
    found[file] = (status.st_mtime_ns, status.st_size, status.st_ino)
