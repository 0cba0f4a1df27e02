"""Zip archives with the modes and symlinks of Unix, into a folder that appears whole or not at all."""

from __future__ import annotations

import os
import posixpath
import re
import shutil
import stat
import sys
import zipfile
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths
from devkit.errors import FileError

if TYPE_CHECKING:
    from devkit.output import Progress

BLOCK_BYTES = 1024 * 1024
# Beside what the files hold: folders, blocks that are not full, the file system's own.
SPARE_BYTES = 50_000_000
_MAX_LINK_BYTES = 4096
_DRIVE = re.compile(r"[A-Za-z]:")


def install_zip(archive: Path, target: Path, *, find_root: Callable[[Path], Path | None], what: str) -> Path:
    """Unpack an archive beside `target` and move the part that is wanted there.

    `target` appears by one rename, when everything is written and checked. Unfinished folders of
    processes that were killed are removed; the caller holds a lock on `target`.

    Args:
        find_root: given the unpacked folder, the folder that becomes `target`, or None.
        what: for messages ("NDK r29").

    Raises:
        FileError: the archive is damaged, dangerous or not what it should be, or the disk is full.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{target.name}.unpack-"
    for old in target.parent.glob(f"{_escape(prefix)}*"):
        remove_tree(old)
    staging = target.parent / f"{prefix}{os.getpid()}"
    try:
        unpack_zip(archive, staging, label=f"unpacking {what}")
        root = find_root(staging)
        if root is None:
            raise FileError(
                f"{archive.name} does not hold {what}",
                evidence=f"{archive}\nit holds: " + ", ".join(sorted(os.listdir(staging))[:10]),
                hints=["check which archive it is", "devkit ndk install RELEASE --from FILE"],
            )
        if target.exists() or target.is_symlink():
            # Only a broken one is replaced; it makes room in one step.
            os.replace(target, target.parent / f"{prefix}old-{os.getpid()}")
        os.replace(root, target)
    except OSError as error:
        raise FileError(
            f"{what} could not be unpacked", evidence=str(error), hints=["free some space and run it again"]
        ) from None
    finally:
        for folder in (staging, target.parent / f"{prefix}old-{os.getpid()}"):
            remove_tree(folder)
    return target


def local_archive(file: Path, whose: str) -> Path:
    """The absolute path of a zip archive that the user names.

    Args:
        whose: "an NDK's", for messages.

    Raises:
        FileError: there is no such file.
    """
    file = paths.expand_user(file).absolute()
    if file.is_dir():
        use = "an unpacked one needs no installing: name its folder in the settings"
        raise FileError(f"{file} is a folder", hints=[f"--from takes {whose} zip archive", use])
    if not file.is_file():
        raise FileError(f"{file} does not exist", hints=[f"--from takes {whose} zip archive"])
    return file


def unpack_zip(archive: Path, target: Path, *, label: str) -> None:
    """Unpack all of an archive into the new folder `target`.

    Every name is checked before anything is written: nothing lands outside `target`, whatever
    the archive says. Symlinks are made last, so that no file is written through one.

    Raises:
        FileError: the archive is damaged or dangerous, or there is not enough space for it.
        OSError: a file cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as opened:
            entries = opened.infolist()
            _check_names(archive, entries)
            _check_space(archive, entries, target)
            target.mkdir(parents=True)
            total = sum(entry.file_size for entry in entries)
            with output.current().progress(label, total, unit="bytes") as bar:
                links = _write_files(opened, entries, target, bar)
            _make_links(archive, links, target)
            _set_folder_modes(entries, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        # RuntimeError: zipfile's for an encrypted entry.
        raise _damaged(archive, str(error) or type(error).__name__) from None


def remove_tree(folder: Path) -> None:
    """Remove a folder with everything in it, also folders that are read-only. Missing is fine."""

    def retry(_function: Callable[..., object], path: str, _error: object) -> None:
        try:
            os.chmod(os.path.dirname(path), 0o700)
            if os.path.isdir(path) and not os.path.islink(path):
                os.chmod(path, 0o700)
                shutil.rmtree(path, ignore_errors=True)
            else:
                os.unlink(path)
        except OSError:
            pass

    if folder.is_symlink():
        folder.unlink()
    else:
        # Python 3.12 has renamed the argument.
        if sys.version_info >= (3, 12):
            shutil.rmtree(folder, onexc=retry)
        else:
            shutil.rmtree(folder, onerror=retry)


def _check_names(archive: Path, entries: Sequence[zipfile.ZipInfo]) -> None:
    seen: set[str] = set()
    plain: set[str] = set()
    for entry in entries:
        name = entry.filename
        parts = name.rstrip("/").split("/")
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if name.startswith("/") or "\\" in name or _DRIVE.match(name):
            why = "an absolute name or one of Windows"
        elif not name.strip("/") or any(part in ("", ".", "..") for part in parts):
            why = "a name that leaves the folder"
        elif "\0" in name or any(ord(c) < 32 for c in name):
            why = "control characters in a name"
        elif kind not in (0, stat.S_IFREG, stat.S_IFDIR, stat.S_IFLNK):
            why = "an entry that is no file, folder or symlink"
        elif "/".join(parts) in seen:
            why = "the same name twice"
        else:
            seen.add("/".join(parts))
            if not entry.is_dir():
                plain.add("/".join(parts))
            continue
        raise _dangerous(archive, why, repr(name))
    for name in seen:
        # A file, or a symlink, that is also a folder.
        parent = posixpath.dirname(name)
        while parent:
            if parent in plain:
                raise _dangerous(archive, "an entry inside something that is no folder", repr(name))
            parent = posixpath.dirname(parent)


def _check_space(archive: Path, entries: Sequence[zipfile.ZipInfo], target: Path) -> None:
    needed = sum(entry.file_size for entry in entries) + SPARE_BYTES
    free = shutil.disk_usage(target.parent).free
    if free < needed:
        raise FileError(
            f"not enough disk space to unpack {archive.name}",
            evidence=f"{output.human_bytes(needed)} are needed, {output.human_bytes(free)} are free in "
            f"{target.parent}",
            hints=["free some space and run it again", "XDG_DATA_HOME names another folder to install to"],
        )


def _write_files(
    opened: zipfile.ZipFile, entries: Sequence[zipfile.ZipInfo], target: Path, bar: Progress
) -> list[tuple[str, str]]:
    """Write folders and files; the symlinks come back as (name, where they point)."""
    links: list[tuple[str, str]] = []
    for entry in entries:
        name = entry.filename.rstrip("/")
        path = target / name
        mode = entry.external_attr >> 16
        if stat.S_ISLNK(mode):
            if entry.file_size > _MAX_LINK_BYTES:
                raise _damaged(Path(opened.filename or ""), f"the symlink {name} is too long")
            links.append((name, opened.read(entry).decode("utf-8", "surrogateescape")))
        elif entry.is_dir():
            path.mkdir(parents=True, exist_ok=True)
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            with opened.open(entry) as source, path.open("xb") as file:
                while block := source.read(BLOCK_BYTES):
                    file.write(block)
                    bar.advance(len(block))
            # Archives made on Windows have no modes. Never setuid; the owner can always read.
            path.chmod((stat.S_IMODE(mode) & 0o777 or 0o644) | 0o600)
    return links


def _make_links(archive: Path, links: Sequence[tuple[str, str]], target: Path) -> None:
    for name, to in links:
        inside = posixpath.normpath(posixpath.join(posixpath.dirname(name), to))
        if not to or to.startswith("/") or "\0" in to or inside == ".." or inside.startswith("../"):
            raise _dangerous(archive, "a symlink that points outside", f"{name} -> {to}")
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.symlink_to(to)
    # Through another symlink the text can be harmless and the way lead out all the same.
    base = os.path.realpath(target)
    for name, to in links:
        real = os.path.realpath(target / name)
        if real != base and not real.startswith(base + os.sep):
            raise _dangerous(archive, "a symlink that leads outside", f"{name} -> {to}")


def _set_folder_modes(entries: Sequence[zipfile.ZipInfo], target: Path) -> None:
    for entry in entries:
        mode = stat.S_IMODE(entry.external_attr >> 16) & 0o777
        if entry.is_dir() and mode:
            # Always usable by the owner, so that it can be removed again.
            (target / entry.filename).chmod(mode | 0o700)


def _damaged(archive: Path, why: str) -> FileError:
    return FileError(
        f"{archive.name} is damaged",
        evidence=f"{archive}: {why}",
        hints=["delete it and download it again"],
    )


def _dangerous(archive: Path, why: str, evidence: str) -> FileError:
    return FileError(
        f"{archive.name} is refused: it contains {why}",
        evidence=f"{archive}: {evidence}",
        hints=["this is not an archive as its makers publish them: find out where it comes from"],
    )


def _escape(prefix: str) -> str:
    return re.sub(r"([*?[])", r"[\1]", prefix)
