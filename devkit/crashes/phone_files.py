"""Files that only the phone has: which ones a crash needs, and those that were fetched, kept by build-id."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import paths
from devkit.crashes.frames import is_file, split_module
from devkit.crashes.model import Crash, Frame
from devkit.crashes.own import is_own
from devkit.symbols import is_elf

_BUILD_ID = re.compile(r"[0-9a-f]{2,64}")


@dataclass(frozen=True)
class Missing:
    """A file on the phone; `build_id` is the one that the crash prints, if it does."""

    remote: str
    build_id: str | None

    @property
    def is_archive(self) -> bool:
        """An APK, which holds the library."""
        return self.remote.endswith(".apk")


def missing_files(crashes: Iterable[Crash]) -> list[Missing]:
    """What would tell more about frames: the user's own files, the system's where no function is printed."""
    found: dict[Missing, None] = {}
    for crash in crashes:
        for stack in crash.stacks:
            for frame in stack.frames:
                if _is_open(frame):
                    remote = split_module(frame.module or "")[0]
                    build_id = None if remote.endswith(".apk") else frame.build_id
                    found[Missing(remote, build_id)] = None
    return list(found)


def _is_open(frame: Frame) -> bool:
    if frame.locations or not is_file(frame.module) or not (frame.module or "").startswith("/"):
        return False
    if frame.pc is None and frame.function_offset is None:
        return False  # nothing says where in the file it is
    return is_own(frame) or frame.function is None


def kept_place(build_id: str, name: str) -> Path:
    """Where a fetched file of this build-id is kept, whether it is there or not."""
    return _root() / build_id / name


def kept_files(crashes: Sequence[Crash]) -> list[Path]:
    """Fetched files of the build-ids that the crashes print."""
    root = _root()
    if not root.is_dir():
        return []
    wanted = {f.build_id for c in crashes for s in c.stacks for f in s.frames if f.build_id}
    found: list[Path] = []
    for build_id in sorted(wanted):
        if _BUILD_ID.fullmatch(build_id) and (root / build_id).is_dir():
            found += [file for file in sorted((root / build_id).iterdir()) if is_elf(file)]
    return found


def _root() -> Path:
    return paths.cache_dir() / "phone-files"
