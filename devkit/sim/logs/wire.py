"""liblog's formats: what programs send to /dev/socket/logdw, what readers get from /dev/socket/logdr."""

from __future__ import annotations

import os
import socket
import struct

from devkit.sim.clock import now_ns
from devkit.sim.places import is_reduced, socket_path
from devkit.sim.users import ROOT_ID, SHELL_ID

LOGDW = "logdw"
LOGDR = "logdr"
LOGD = "logd"
# In front of a datagram: process and user it is written for, where the kernel lets no service say so.
AUTHOR = struct.Struct("<4siI")
AUTHOR_MAGIC = b"\xffDK\0"

# Commands of the logd socket that Android's has not: there the log of before a reboot is a file of pstore.
REBOOT, HAS_LAST, CLEAR_LAST = "devkitReboot", "devkitHasLast", "devkitClearLast"

MAIN, RADIO, EVENTS, SYSTEM, CRASH, STATS, SECURITY, KERNEL = range(8)
BUFFER_NAMES = ("main", "radio", "events", "system", "crash", "stats", "security", "kernel")
# Their payloads are values of an event log, not priority, tag and text.
BINARY_BUFFERS = frozenset({EVENTS, STATS, SECURITY})

UNKNOWN, DEFAULT, VERBOSE, DEBUG, INFO, WARN, ERROR, FATAL, SILENT = range(9)

MAX_PAYLOAD_BYTES = 4068
MAX_ENTRY_BYTES = 5 * 1024

# android_log_header_t: log id, thread, then log_time. Packed.
DATAGRAM = struct.Struct("<BHII")
# struct logger_entry: length, header size, process, thread, seconds, nanoseconds, log id, user.
ENTRY = struct.Struct("<HHiIIIII")
CREDENTIALS = struct.Struct("<iII")


def encode_text(priority: int, tag: bytes, message: bytes) -> bytes:
    """The payload of a text entry, cut to what liblog sends at most."""
    payload = bytes([priority]) + tag + b"\0" + message
    return payload[: MAX_PAYLOAD_BYTES - 1] + b"\0"


def encode_entry(log_id: int, uid: int, pid: int, tid: int, sec: int, nsec: int, payload: bytes) -> bytes:
    """An entry as readers get it."""
    return ENTRY.pack(len(payload), ENTRY.size, pid, tid, sec, nsec, log_id, uid) + payload


class LogWriter:
    """Writes to the log as liblog does; a message that logd has no room for waits for it.

    Args:
        tag: of every message.
    """

    def __init__(self, tag: str) -> None:
        self._tag = tag.encode()
        self._socket: socket.socket | None = None

    def write(
        self, priority: int, message: str, *, log_id: int = MAIN, author: tuple[int, int] | None = None
    ) -> None:
        """Write one message; nothing happens when there is no log.

        Args:
            author: process and thread to write it for, None for this one. Only root may name another.
        """
        self.write_raw(priority, self._tag, message.encode("utf-8", "surrogateescape"), log_id, author)

    def write_raw(
        self, priority: int, tag: bytes, message: bytes, log_id: int, author: tuple[int, int] | None
    ) -> None:
        """`write` with a tag and a message of bytes."""
        pid, tid = author or (os.getpid(), os.getpid())
        now = now_ns()
        head = DATAGRAM.pack(log_id, tid & 0xFFFF, now // 10**9, now % 10**9)
        credentials = (socket.SOL_SOCKET, socket.SCM_CREDENTIALS, CREDENTIALS.pack(pid, 0, 0))
        try:
            if self._socket is None:
                self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
                self._socket.connect(socket_path(LOGDW))
            data = [head, encode_text(priority, tag, message)]
            if author is not None and is_reduced():
                data.insert(0, AUTHOR.pack(AUTHOR_MAGIC, pid, ROOT_ID if log_id == KERNEL else SHELL_ID))
                author = None
            self._socket.sendmsg(data, [credentials] if author is not None else [])
        except OSError:
            if self._socket is not None:
                self._socket.close()
                self._socket = None
