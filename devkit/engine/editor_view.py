"""The editor's compile_commands.json: one view of all builds of a source folder, kept up to date.

It lies in `build/devkit/editor`; the source folder gets a symbolic link to it when nothing else has
that name there. A file of the user's own is never touched.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import paths
from devkit.config import BUILD_TYPES
from devkit.engine import compile_commands
from devkit.engine.buildfolder import LOG_FILE, STATE_FILE
from devkit.engine.compile_commands import Database
from devkit.engine.plan import BUILD_ROOT
from devkit.errors import FileError, UsageError

NAME = "compile_commands.json"
VIEW_FOLDER = BUILD_ROOT / "editor"
_CHOICE_FILE = "view.json"
PREFERENCES = ("device", "host")
# Whose entry a file gets, best first. A phone's build says what runs there; a virtual phone's is
# compiled by the host's compiler.
_TAG_AND_TYPE = re.compile(rf"(?:arm64-v8a|armeabi-v7a|[^-]+)(?:-sim)?-(?:{'|'.join(BUILD_TYPES)})")
_ORDER = {"device": ("ndk", "sim", "host"), "host": ("host", "sim", "ndk")}


@dataclass(frozen=True)
class ExistingBuild:
    """A build folder that devkit has configured. kind: "ndk", "sim" (for virtual phones) or "host"."""

    folder: Path
    kind: str
    built_at: float

    @property
    def name(self) -> str:
        """Profile, ABI and build type, as in the folder's name."""
        return self.folder.name

    @property
    def build_type(self) -> str:
        """The last part of the name: debug, release, profile or relwithdebinfo."""
        return self.name.rpartition("-")[2]

    @property
    def database(self) -> Path:
        """Its compile_commands.json."""
        return self.folder / NAME

    def is_of(self, profile: str) -> bool:
        """Whether it was built with this profile."""
        rest = self.name.removeprefix(profile + "-")
        # "qnn" is not the profile of qnn-online-arm64-v8a-debug.
        return rest != self.name and _TAG_AND_TYPE.fullmatch(rest) is not None


@dataclass(frozen=True)
class View:
    """What the editor's file should hold, and where it goes.

    Attributes:
        builds: the builds it is made of, the one that decides first.
        link: "wanted" (to be made), "there", "users" (a file of the user's own is in its place) or "off".
        is_current: whether the file on disk is this already.
    """

    source: Path
    prefer: str
    builds: tuple[ExistingBuild, ...]
    database: Database
    content: bytes
    link: str
    is_current: bool

    @property
    def folder(self) -> Path:
        """For clangd's --compile-commands-dir."""
        return self.source / VIEW_FOLDER


def find_builds(source: Path) -> tuple[ExistingBuild, ...]:
    """All configured build folders of a source folder, the one built last first."""
    found = []
    for state in (source / BUILD_ROOT).glob(f"*/{STATE_FILE}"):
        folder = state.parent
        if folder.name.rpartition("-")[2] not in BUILD_TYPES or not (folder / NAME).is_file():
            continue
        try:
            fixed = json.loads(state.read_bytes())["fixed"]
            built_at = max(f.stat().st_mtime for f in (folder / NAME, folder / LOG_FILE) if f.exists())
        except (OSError, ValueError, KeyError, TypeError):
            continue  # half made or half removed
        kind = "ndk" if fixed.get("API level") else "sim" if "-sim-" in folder.name else "host"
        found.append(ExistingBuild(folder, kind, built_at))
    return tuple(sorted(found, key=lambda build: (-build.built_at, build.name)))


def plan_view(source: Path, prefer: str | None = None) -> View:
    """The view as it should be now. Changes nothing.

    Args:
        prefer: "device" or "host": whose entry a file gets that both compile. None: as chosen last.

    Raises:
        UsageError: another preference.
    """
    prefer = prefer or _read_choice(source)
    if prefer not in PREFERENCES:
        raise UsageError(f"--for cannot be {prefer!r}", hints=[f"--for {known}" for known in PREFERENCES])
    order = _ORDER[prefer]
    builds = tuple(sorted(find_builds(source), key=lambda build: order.index(build.kind)))
    databases: list[Database] = []
    used: list[ExistingBuild] = []
    problems: list[str] = []
    for build in builds:
        try:
            databases.append(compile_commands.read_database(build.database, root=source))
            used.append(build)
        except FileError as error:
            problems.append(f"{error.what} ({error.evidence})" if error.evidence else error.what)
    merged = compile_commands.merge(databases)
    merged = Database(merged.entries, (*problems, *merged.warnings))
    content = merged.dump()
    return View(
        source=source,
        prefer=prefer,
        builds=tuple(used),
        database=merged,
        content=content,
        link=_link_state(source),
        is_current=_read(source / VIEW_FOLDER / NAME) == content and _read_choice(source) == prefer,
    )


def write_view(view: View) -> None:
    """Write the file if it differs, and the link if nothing is in its place.

    Raises:
        FileError: the folder cannot be written.
    """
    try:
        if not view.is_current:
            paths.write_atomically(view.folder / _CHOICE_FILE, json.dumps({"for": view.prefer}) + "\n")
            paths.write_atomically(view.folder / NAME, view.content)
        if view.link == "wanted":
            _make_link(view.source)
    except OSError as error:
        raise FileError(f"{view.folder / NAME} cannot be written", evidence=str(error)) from None


def refresh_view(source: Path) -> None:
    """After a build: bring the view up to date, if there is one. Looks at few files when it is.

    CMake may have run again inside the build: the age of the builds' lists tells. A link of ours
    to a file that is gone means that somebody has removed the build folder, not the view.

    Raises:
        FileError: the folder cannot be written.
    """
    choice = source / VIEW_FOLDER / _CHOICE_FILE
    seen_at = _changed_at(choice)
    if seen_at is None:
        if _link_state(source) == "there" and not (source / NAME).exists():
            write_view(plan_view(source))
        return
    if any((_changed_at(build.database) or 0) >= seen_at for build in find_builds(source)):
        write_view(plan_view(source))
        # The list itself keeps its age when it has not changed: clangd would read it again.
        try:
            os.utime(choice)
        except OSError:
            pass  # looked at once more next time


def remove_view(source: Path) -> bool:
    """Take the view and its link away; whether there was any.

    Raises:
        FileError: a file cannot be removed.
    """
    link, folder = source / NAME, source / VIEW_FOLDER
    ours = [folder / NAME, folder / _CHOICE_FILE]
    if _link_state(source) == "there":
        ours.insert(0, link)
    there = [file for file in ours if os.path.lexists(file)]
    try:
        for file in there:
            file.unlink()
        _remove_index(folder)
    except OSError as error:
        raise FileError(f"{error.filename} cannot be removed", evidence=str(error)) from None
    return bool(there)


def pick_builds(source: Path, profile: str, build_type: str | None = None) -> tuple[ExistingBuild, ...]:
    """The builds of one profile, the last one first."""
    builds: Sequence[ExistingBuild] = find_builds(source)
    return tuple(b for b in builds if b.is_of(profile) and build_type in (None, b.build_type))


def _link_target() -> str:
    return os.path.join(*VIEW_FOLDER.parts, NAME)


def _link_state(source: Path) -> str:
    link = source / NAME
    if os.name == "nt":
        return "off"  # symbolic links need a privilege there
    if os.path.islink(link):
        return "there" if os.readlink(link) == _link_target() else "users"
    return "users" if link.exists() else "wanted"


def _make_link(source: Path) -> None:
    try:
        (source / NAME).symlink_to(_link_target())
    except FileExistsError:
        pass  # somebody was faster: theirs


def _read_choice(source: Path) -> str:
    try:
        choice = json.loads((source / VIEW_FOLDER / _CHOICE_FILE).read_bytes())["for"]
    except (OSError, ValueError, KeyError, TypeError):
        return PREFERENCES[0]
    return choice if choice in PREFERENCES else PREFERENCES[0]


def _changed_at(file: Path) -> float | None:
    try:
        return file.stat().st_mtime
    except OSError:
        return None


def _read(file: Path) -> bytes | None:
    try:
        return file.read_bytes()
    except OSError:
        return None


def _remove_index(folder: Path) -> None:
    """clangd keeps its index beside the file; both go, and the folder if nothing else is in it."""
    import shutil

    shutil.rmtree(folder / ".cache" / "clangd", ignore_errors=True)
    for empty in (folder / ".cache", folder):
        try:
            empty.rmdir()
        except OSError:
            pass  # not there, or somebody's files in it
