"""A lock between processes that ends with its holder, however that ends."""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from devkit import output, paths

_POLL_S = 0.2


@contextlib.contextmanager
def exclusive(file: Path, doing: str) -> Iterator[bool]:
    """Hold the lock `file`; wait for another process that has it, and say so.

    The file stays: removing it would let two processes lock two files of one name.

    Args:
        doing: what the holder does, for the note of those who wait ("installing NDK r29").

    Yields:
        Whether another process had it first.

    Raises:
        OSError: the file cannot be made.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a+", encoding="utf-8") as held:
        waited, pause_s = False, _POLL_S / 20
        while not _try_lock(held):
            if not waited:
                holder = _holder(held)
                who = f" (process {holder})" if holder else ""
                output.current().note(f"another devkit is {doing}{who}; waiting for it")
                waited = True
            # A changed line is soon done, an NDK is not.
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, _POLL_S)
        held.truncate(0)
        # Only a note for those who wait: a full disk must not keep anybody from installing.
        with contextlib.suppress(OSError):
            os.write(held.fileno(), f"{os.getpid()}\n".encode())
        # Closing the file, and the end of the process, release the lock.
        yield waited
        held.truncate(0)


@contextlib.contextmanager
def changing(file: Path) -> Iterator[None]:
    """Keep other devkits from changing `file` too between reading and replacing it.

    The lock is among devkit's own files: nothing is left beside a dotfile. Where it cannot be made
    (a full disk, a read-only home) there is none, and the file itself says what is wrong.
    """
    real = os.path.realpath(file)
    digest = hashlib.sha256(os.fsencode(real)).hexdigest()[:16]
    lock = paths.state_dir() / "locks" / f"{file.name.lstrip('.')}-{digest}.lock"
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            held.enter_context(exclusive(lock, f"changing {file}"))
        yield


@contextlib.contextmanager
def if_free(file: Path) -> Iterator[bool]:
    """Hold the lock `file` if nobody else does, without waiting.

    Yields:
        Whether it is held now. A file that is not there is nobody's, and is not made.
    """
    try:
        held = file.open("r+", encoding="utf-8")
    except FileNotFoundError:
        yield True
        return
    except OSError:
        yield False
        return
    with held:
        yield _try_lock(held)


def _holder(held: IO[str]) -> str:
    """The process id in a lock that another has; "" if it does not get around to writing it."""
    until = time.monotonic() + _POLL_S
    while True:
        held.seek(0)
        text = held.read()
        # It has the lock a moment before its number stands there.
        if text.endswith("\n") or time.monotonic() > until:
            return text.strip()
        time.sleep(_POLL_S / 20)


def _try_lock(file: IO[str]) -> bool:
    try:
        import fcntl
    except ImportError:
        return _try_windows_lock(file)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _try_windows_lock(file: IO[str]) -> bool:
    import msvcrt

    try:
        # Windows locks bytes, also beyond the end: the content stays readable.
        file.seek(1 << 20)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined,unused-ignore]
    except OSError:
        return False
    finally:
        file.seek(0)
    return True
