"""What `sync:` does to files of the phone, with adbd's words for what fails."""

from __future__ import annotations

import os
import stat

from devkit.sim.clock import jump_s, now_ns


class SyncFailure(Exception):
    """A request cannot be fulfilled; its text goes to the client, which ends the session."""


def failure(what: str, error: OSError) -> SyncFailure:
    """`what: strerror`, as adbd words it."""
    return SyncFailure(f"{what}: {os.strerror(error.errno or 0)}")


def is_replaceable(path: bytes, *, link: bool) -> bool:
    """Whether what is there gives way before a file is written (devices and folders do not)."""
    try:
        facts = os.lstat(path)
    except OSError:
        return True
    return stat.S_ISREG(facts.st_mode) or (stat.S_ISLNK(facts.st_mode) and not link)


def unlink(path: bytes) -> None:
    """Remove a file if there is one that can be removed."""
    try:
        os.unlink(path)
    except OSError:
        pass


def create(path: bytes, mode: int) -> int:
    """Open a file for writing, with its folders; an existing one (a device) is written into.

    Raises:
        SyncFailure: it cannot be made or opened.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        try:
            fd = os.open(path, flags, mode)
        except FileNotFoundError:
            _make_folders(os.path.dirname(path), "secure_mkdirs() failed")
            fd = os.open(path, flags, mode)
        except FileExistsError:
            fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    except OSError as error:
        raise failure("couldn't create file", error) from None
    try:
        os.fchmod(fd, mode)
    except OSError:
        pass  # Not every file system has modes.
    return fd


def renew_folder(of: bytes) -> None:
    """The folder of what has just been made is as new as the phone's clock says: the kernel has its own."""
    if jump_s():
        now = now_ns()
        try:
            os.utime(os.path.dirname(of), ns=(now, now))
        except OSError:
            pass  # It may be another's.


def make_link(target: bytes, path: bytes) -> None:
    """Make a symbolic link, with its folders, in place of what is there.

    Raises:
        SyncFailure: it cannot be made.
    """
    try:
        if os.path.islink(path) and os.readlink(path) == target:
            return
        unlink(path)
        try:
            os.symlink(target, path)  # noqa: PTH211 (bytes)
        except FileNotFoundError:
            _make_folders(os.path.dirname(path), "secure_mkdirs failed")
            os.symlink(target, path)  # noqa: PTH211 (bytes)
    except OSError as error:
        raise failure("symlink failed", error) from None


def write_all(fd: int, data: memoryview) -> None:
    """Write all of `data`.

    Raises:
        SyncFailure: the disk is full, or the like.
    """
    try:
        while data:
            data = data[os.write(fd, data) :]
    except OSError as error:
        raise failure("write failed", error) from None


def _make_folders(path: bytes, what: str) -> None:
    parent = b"/"
    made = []
    for name in path.split(b"/"):
        parent = os.path.join(parent, name)
        try:
            os.mkdir(parent, 0o775)
            made.append(parent)
        except FileExistsError:
            continue
        except OSError as error:
            raise failure(what, error) from None
    for folder in made:
        renew_folder(folder)
