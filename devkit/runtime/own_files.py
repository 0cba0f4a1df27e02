"""An app's `files:` as single files: folders walked, patterns matched, exclusions left out."""

from __future__ import annotations

import fnmatch
import glob
import posixpath
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from devkit.config import FileMapping
from devkit.errors import DeployError
from devkit.runtime.hashes import regular_files


def expand(mapping: FileMapping, on_skipped: Callable[[Path, str], object]) -> Iterator[tuple[str, Path]]:
    """All files of one entry as (path on the phone relative to the app's folder, local file).

    Args:
        on_skipped: told of what cannot travel (a dead link, a pipe), with why.

    Raises:
        DeployError: there is nothing there, nothing is left, or the path on the phone leaves the app's
            folder.
        FileError: a folder cannot be read.
    """
    remote = posixpath.normpath(mapping.remote)
    if remote.startswith(("..", "/")):
        raise DeployError(
            f"`remote: {mapping.remote}` leaves the app's folder on the phone",
            hints=["use a path relative to the app's folder"],
        )
    if mapping.local.is_file():
        yield remote, mapping.local
        return
    if mapping.is_pattern:
        found = _matches(mapping.local, on_skipped)
    elif mapping.local.is_dir():
        files = regular_files(mapping.local, on_skipped)
        found = [(file.relative_to(mapping.local).as_posix(), file) for file in files]
    else:
        is_there = "is neither a file nor a folder" if mapping.local.exists() else "does not exist"
        raise _nothing(f"{mapping.local} {is_there}")
    left = [(inner, file) for inner, file in found if not _excluded(inner, mapping.exclude)]
    if mapping.is_pattern and not found:
        raise _nothing(f"nothing matches {mapping.local}")
    if found and not left:
        raise _nothing(f"`exclude:` leaves nothing of {mapping.local}")
    for inner, file in left:
        yield posixpath.normpath(posixpath.join(remote, inner)), file


def own_files(files: Iterable[FileMapping]) -> dict[str, Path]:
    """All files of all entries by their path on the phone; nothing is said of what cannot travel.

    Raises:
        DeployError, FileError: as `expand`.
    """
    return {remote: local for entry in files for remote, local in expand(entry, lambda _path, _why: None)}


def _matches(pattern: Path, on_skipped: Callable[[Path, str], object]) -> list[tuple[str, Path]]:
    """What a pattern stands for, relative to the last folder before its first wildcard. A folder that it
    names stands for all in it, as with `cp -r`; `**` finds every folder anyway."""
    parts = list(pattern.parts)
    base = Path(parts.pop(0))
    # A folder may have brackets in its name.
    while len(parts) > 1 and (base / parts[0]).is_dir():
        base /= parts.pop(0)
    deep = "**" in parts
    found: dict[str, Path] = {}
    # Not Path.glob, for which hidden files match a star.
    wanted = posixpath.join(glob.escape(str(base)), *parts)
    for name in glob.glob(wanted, recursive=True):  # noqa: PTH207
        path = Path(name)
        if path.is_file():
            found[path.relative_to(base).as_posix()] = path
        elif path.is_dir() and not deep:
            for file in regular_files(path, on_skipped):
                found[file.relative_to(base).as_posix()] = file
    return sorted(found.items())


def _excluded(inner: str, patterns: Sequence[str]) -> bool:
    """A pattern without a slash is held against every name of the path, else against the path and the
    folders above; an excluded folder takes all in it along."""
    path = PurePosixPath(inner)
    above = [str(path), *(str(parent) for parent in path.parents if str(parent) != ".")]
    for pattern in patterns:
        wanted = pattern.rstrip("/").removeprefix("./")
        candidates = above if "/" in wanted else path.parts
        # A trailing slash means folders alone.
        if pattern.endswith("/"):
            candidates = above[1:] if "/" in wanted else path.parts[:-1]
        if any(fnmatch.fnmatchcase(candidate, wanted) for candidate in candidates):
            return True
    return False


def _nothing(what: str) -> DeployError:
    return DeployError(
        what,
        evidence="it is named under `files:` in devkit.yaml",
        hints=["devkit config show --origin says which line names it"],
    )
