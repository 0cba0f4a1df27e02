"""A build folder's memory: that devkit made it, from what, and whether it can be used again."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from devkit import output, paths
from devkit.engine.plan import BuildPlan
from devkit.errors import BuildError

STATE_FILE = ".devkit-build.json"
LOG_FILE = "devkit-build.log"
_MAKE_FILES = {"Ninja": "build.ninja", "Unix Makefiles": "Makefile"}
# CMakeCache.txt entry → what it must equal, by the plan's `fixed` key.
_CACHED = {
    "CMAKE_HOME_DIRECTORY": "source folder",
    "CMAKE_CACHEFILE_DIR": "build folder",
    "CMAKE_GENERATOR": "generator",
    "CMAKE_TOOLCHAIN_FILE": "CMAKE_TOOLCHAIN_FILE",
    "ANDROID_ABI": "ANDROID_ABI",
    "ANDROID_PLATFORM": "ANDROID_PLATFORM",
    "ANDROID_STL": "ANDROID_STL",
}
# Said by the entries before them already, for people.
_FOLLOWS_FROM_TOOLCHAIN = (
    "toolchain's files",
    "CMAKE_C_COMPILER",
    "CMAKE_CXX_COMPILER",
    "CMAKE_TOOLCHAIN_FILE",
)
_FOLDERS = ("CMAKE_HOME_DIRECTORY", "CMAKE_CACHEFILE_DIR", "CMAKE_TOOLCHAIN_FILE")


@dataclass(frozen=True)
class FolderState:
    """What STATE_FILE says; `configured` is the command line that last succeeded, or nothing.

    `spoiled` is why the content cannot be used, or nothing.
    """

    fixed: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, str] = field(default_factory=dict)
    configured: tuple[str, ...] = ()
    spoiled: str = ""


def read_state(build_dir: Path) -> FolderState | None:
    """The folder's state, or None when devkit did not make it."""
    try:
        content = json.loads((build_dir / STATE_FILE).read_bytes())
        configured = tuple(content["configured"])
        return FolderState(content["fixed"], content["options"], configured, content.get("spoiled", ""))
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError):
        # Ours by its name, but unreadable: nothing in it can be relied on.
        return FolderState()


def write_state(plan: BuildPlan, *, configured: bool, spoiled: str = "") -> None:
    """Remember the plan; `configured` once CMake has succeeded with it.

    Args:
        spoiled: why the folder's content cannot be used: the next build starts with an empty one.
    """
    content = {
        "made_by": "devkit",
        "fixed": dict(plan.fixed),
        "options": dict(plan.options),
        "configured": list(plan.configure) if configured else [],
        "spoiled": spoiled,
    }
    paths.write_atomically(plan.build_dir / STATE_FILE, json.dumps(content, indent=1, ensure_ascii=False))


def is_configured(plan: BuildPlan) -> bool:
    """Whether the folder is configured exactly as the plan says."""
    state = read_state(plan.build_dir)
    make_file = plan.build_dir / _MAKE_FILES.get(plan.tools.generator, "CMakeCache.txt")
    return (
        state is not None
        and state.configured == plan.configure
        and dict(state.fixed) == dict(plan.fixed)
        and make_file.is_file()
        and (plan.build_dir / "CMakeCache.txt").is_file()
    )


def fixed_differences(plan: BuildPlan) -> tuple[str, ...]:
    """What differs from the folder's content that CMake cannot change in place.

    CMake notices some of it itself, but then drops its cache *with the user's -D options* and goes
    on with a build for the wrong machine. Both devkit's record and CMake's cache are compared: the
    folder may have been moved, or configured by hand.
    """
    found: list[str] = []
    state = read_state(plan.build_dir)
    if state is not None and state.spoiled:
        found.append(state.spoiled)
    if state is not None and state.fixed:
        for name in dict.fromkeys([*plan.fixed, *state.fixed]):
            old, new = state.fixed.get(name, ""), plan.fixed.get(name, "")
            if old != new and not (found and name in _FOLLOWS_FROM_TOOLCHAIN):
                found.append(f"{name}: {old or 'none'} → {new or 'none'}")
    told = {entry.partition(":")[0] for entry in found}
    cache = read_cache_file(plan.build_dir)
    for name, key in _CACHED.items():
        if name in cache and key not in told and not _same(name, cache[name], plan.fixed.get(key, "")):
            found.append(f"{key}: {cache[name]} → {plan.fixed.get(key) or 'none'}")
    return tuple(found)


def read_cache_file(build_dir: Path) -> dict[str, str]:
    """The entries of CMakeCache.txt; empty when there is none."""
    try:
        text = (build_dir / "CMakeCache.txt").read_text("utf-8", "replace")
    except OSError:
        return {}
    entries: dict[str, str] = {}
    for line in text.splitlines():
        name, colon, rest = line.partition(":")
        if colon and "=" in rest and not line.startswith(("#", "//")):
            entries[name] = rest.partition("=")[2]
    return entries


def empty_folder(build_dir: Path) -> None:
    """Remove a build folder that devkit made.

    Raises:
        BuildError: devkit did not make it, or it cannot be removed.
    """
    check_ours(build_dir)
    try:
        shutil.rmtree(build_dir)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise BuildError(f"the build folder {build_dir} cannot be removed", evidence=str(error)) from None


def check_ours(build_dir: Path) -> None:
    """Refuse a folder with content that devkit did not make.

    Raises:
        BuildError: it is such a folder.
    """
    if build_dir.is_dir() and not (build_dir / STATE_FILE).exists() and any(build_dir.iterdir()):
        raise BuildError(
            f"{build_dir} is in the way",
            evidence=f"it was not made by devkit (it has no {STATE_FILE}), so devkit leaves it alone",
            hints=[f"move or remove it: {build_dir}"],
        )


class BuildLog:
    """The log of a build. A build that finds nothing to do leaves the last one as it is."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._waiting: list[str] = []
        self._file: IO[str] | None = None

    def write(self, line: str) -> None:
        """Add a line."""
        if self._file is None:
            self._waiting.append(line)
        else:
            self._file.write(line + "\n")

    def keep(self) -> None:
        """Something is done: this log takes the last one's place, and is written as it comes."""
        if self._file is None:
            self._file = open(self.path, "w", encoding="utf-8", buffering=1)
            self._file.write("".join(line + "\n" for line in self._waiting))

    def text(self) -> str:
        """Everything so far."""
        if self._file is None:
            return "\n".join(self._waiting)
        return self.path.read_text("utf-8", "replace")

    def close(self) -> None:
        """End it. The file's time says when this folder was last built, whatever there was to do."""
        if self._file is not None:
            self._file.close()
        elif self.path.exists():
            os.utime(self.path)


@contextlib.contextmanager
def locked(build_dir: Path) -> Iterator[int]:
    """Keep other devkits out of a build folder; waits for one that is building.

    Yields:
        The lock's descriptor: whoever inherits it keeps the folder locked.

    Raises:
        BuildError: the folder above cannot be written.
    """
    lock = build_dir.parent / f".{build_dir.name}.lock"
    try:
        lock.parent.mkdir(parents=True, exist_ok=True)
        file = open(lock, "w")  # beside the folder: the folder itself may be emptied
    except OSError as error:
        raise BuildError(f"no build folder can be made in {build_dir.parent}", evidence=str(error)) from None
    with file:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                output.current().note(f"waiting for another devkit that builds in {build_dir}")
                fcntl.flock(file, fcntl.LOCK_EX)
        yield file.fileno()


def _same(name: str, old: str, new: str) -> bool:
    return old == new or (name in _FOLDERS and os.path.realpath(old) == os.path.realpath(new))
