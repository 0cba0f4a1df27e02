"""The phone's clock when it has jumped: what tells programs of it, and what time it is on the phone.

In the folder that the supervisor shows to the phone, PAGE_FILE holds the jump as 8 bytes, which programs map
(native/clock.c); PRELOAD_FILE is there while the clock is wrong, and ld.so loads what it names into every
program that starts; TEXT_FILE is for `date` where that cannot be.
"""

from __future__ import annotations

import os
import struct
import time
from pathlib import Path

from devkit import paths
from devkit.sim.places import control_folder

LIBRARY = "libdevkit_clock.so"
PAGE_FILE = "clock.page"
TEXT_FILE = "clock"
PRELOAD_FILE = "preload"
# The functions that clock.c calls are there since then.
_FIRST_GLIBC = (2, 30)
_SECONDS = struct.Struct("<q")


def set_jump(folder: Path, seconds: int | None, *, preload: str | None) -> None:
    """Have the clock be wrong by so many seconds, None for right.

    Args:
        folder: what the supervisor shows to the phone.
        preload: the library's path on the phone, None where it cannot be loaded.

    Raises:
        OSError: the folder cannot be written.
    """
    fd = os.open(folder / PAGE_FILE, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        # In place: programs have mapped it.
        os.pwrite(fd, _SECONDS.pack(seconds or 0), 0)
    finally:
        os.close(fd)
    for name, text in ((TEXT_FILE, str(seconds)), (PRELOAD_FILE, preload)):
        if seconds is None or text is None:
            (folder / name).unlink(missing_ok=True)
        else:
            paths.write_atomically(folder / name, text + "\n")


def jump_s() -> int:
    """How many seconds the phone's clock is ahead. To be asked on the phone."""
    try:
        with open(control_folder() / PAGE_FILE, "rb") as file:
            return int(_SECONDS.unpack(file.read(_SECONDS.size))[0])
    except (OSError, struct.error):
        return 0


def now_ns() -> int:
    """The time on the phone, nanoseconds since 1970."""
    return time.time_ns() + jump_s() * 10**9


def can_preload() -> bool:
    """Whether this machine's C library has what the library calls."""
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        major, minor = (int(part) for part in version.split(".")[:2])
    except (OSError, ValueError):
        return False
    return name == "glibc" and (major, minor) >= _FIRST_GLIBC
