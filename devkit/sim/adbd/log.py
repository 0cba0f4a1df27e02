"""The daemon's log: lines with a time stamp on stderr, which the supervisor points at adbd.log."""

from __future__ import annotations

import os
import time

MAX_LOG_BYTES = 8 * 1024 * 1024
_STDERR = 2


def log(text: str) -> None:
    """Write one line. The file starts again when it has grown over MAX_LOG_BYTES."""
    now = time.time()
    stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(now)) + f".{int(now * 1000) % 1000:03d}"
    line = f"{stamp} {os.getpid():5d} {text}\n"
    try:
        if os.write(_STDERR, line.encode("utf-8", "backslashreplace")) and _size() > MAX_LOG_BYTES:
            os.ftruncate(_STDERR, 0)
    except OSError:
        pass


def _size() -> int:
    return os.fstat(_STDERR).st_size
