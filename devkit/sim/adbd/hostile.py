"""Things on the phone that careless tools stumble over, and a disk without room."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

FILE_NAMES = (
    b"new\nline",
    b"carriage\rreturn",
    b"\x1b[31mred\x1b[0m",
    b"\x1b]0;title\x07",
    b"broken \xff\xfe \xc3( utf-8",
    "right\u202eto\u202cleft".encode(),
    b"-rf",
    b" blanks at the ends ",
    b"quotes ' \" ` $(id) $HOME \\",
    b"glob*?[a]",
    b"x" * 255,
)
PROPERTIES = {
    "ro.product.model": b"Virtual\x1b[31m_Phone\x1b[0m\x1b]0;title\x07",
    "debug.devkit.hostile": b"back\x08space \xff\xfe ]: [ro.fake]: [1",
}
PROCESS_NAME = b"\x1b[31mevil\x1b[0m\n\xff name"
CONTENT = b"hostile\n"
_LONGEST_S = b"2147483647"


class HostileThings:
    """Files, properties and a process that are there or not."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._there = False

    def appear(self, wanted: bool, data: Path, properties: Path) -> None:
        """Make all of it, or take all of it away.

        Raises:
            OSError: something of it cannot be made.
        """
        if wanted == self._there:
            return
        self._there = wanted
        if wanted:
            for name in FILE_NAMES:
                with open(os.path.join(os.fsencode(data), name), "wb") as file:
                    file.write(CONTENT)
            for key, value in PROPERTIES.items():
                (properties / key).write_bytes(value + b"\n")
            self._process = subprocess.Popen(
                [PROCESS_NAME, _LONGEST_S], executable=_sleep(), stdin=subprocess.DEVNULL, cwd="/"
            )
            return
        for path in [os.path.join(os.fsencode(data), name) for name in FILE_NAMES]:
            _remove(path)
        for key in PROPERTIES:
            _remove(os.fsencode(properties / key))
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


class Ballast:
    """A file without a name that takes what is left of a phone's storage."""

    def __init__(self) -> None:
        self._fd: int | None = None
        self._left: int | None = None

    def fill(self, folder: Path, leave_bytes: int | None) -> None:
        """Leave only so many bytes; None gives all of it back.

        Raises:
            OSError: the storage has no limit of its own, or the file cannot be made.
        """
        if leave_bytes == self._left:
            return
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._left = None
        if leave_bytes is None:
            return
        if not _has_own_limit(folder):
            raise OSError(
                f"{folder} is a folder of this machine's disk; start the phone with --storage, as in"
                " devkit sim start --storage 256mb"
            )
        self._fd = os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
        self._left = leave_bytes
        size = 0
        while True:
            facts = os.statvfs(folder)
            more = facts.f_bavail * facts.f_frsize - leave_bytes
            if more < facts.f_frsize:
                return
            try:
                os.posix_fallocate(self._fd, size, more)
            except OSError:
                # The memory is not there although the limit allows it; half of it may be.
                more //= 2
                if more < facts.f_frsize:
                    raise
                os.posix_fallocate(self._fd, size, more)
            size += more


def _has_own_limit(folder: Path) -> bool:
    """Whether the folder is memory that is mounted there."""
    with open("/proc/self/mounts", encoding="utf-8", errors="surrogateescape") as mounts:
        return any(line.split()[1:3] == [str(folder), "tmpfs"] for line in mounts)


def _sleep() -> str:
    return next(
        path for path in ("/system/bin/sleep", "/bin/sleep", "/usr/bin/sleep") if os.path.exists(path)
    )


def _remove(path: bytes) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
