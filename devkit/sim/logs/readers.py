"""Readers of the log: what each wants, and what has not been sent to it yet."""

from __future__ import annotations

import collections
import re
import socket
from dataclasses import dataclass

from devkit.sim.logs.wire import BUFFER_NAMES

# A reader so slow that this much waits for it is dropped, as logd does ("unexpected EOF").
MIN_BACKLOG_BYTES = 4 * 1024 * 1024
# Ends the request of a reader that takes several entries in one packet.
JOINED = " joined"
# In the request of a reader of what was logged before the reboot. Android's logcat reads pstore for that.
LAST = " last"
# A packet must fit into the kernel's usual buffer of 208 KiB, with room for another.
MAX_JOINED_BYTES = 64 * 1024


@dataclass(frozen=True)
class ReadRequest:
    """What a reader wrote to logdr: `stream lids=0,3 tail=10 start=1.5 pid=7`.

    Args:
        ends: it wants what is there and then the end (`dumpAndClose`).
        mask: bit N is set for buffer N.
        tail: only the last entries, 0 for all.
        start: nanoseconds since 1970, 0 for the beginning.
        pid: 0 for all processes.
        joined: it takes several entries in one packet. Only this phone's own logcat says so; Android's
            readers get each entry for itself.
        last: it wants what was logged before the reboot.
    """

    ends: bool
    mask: int
    tail: int
    start: int
    pid: int
    joined: bool
    last: bool = False


def parse_request(text: str) -> ReadRequest:
    """Understand a reader; what it does not say has logd's defaults."""
    lids = re.search(r" lids=([\d,]*)", text)
    mask = (1 << len(BUFFER_NAMES)) - 1
    if lids:
        numbers = [int(n) for n in lids[1].split(",") if n]
        mask = sum(1 << n for n in set(numbers) if n < len(BUFFER_NAMES))
    start = re.search(r" start=(\d+)(?:\.(\d{1,9}))?", text)
    start_ns = int(start[1]) * 10**9 + int((start[2] or "0").ljust(9, "0")) if start else 0
    return ReadRequest(
        ends=text.startswith("dumpAndClose"),
        mask=mask,
        tail=_number(text, "tail"),
        start=start_ns,
        pid=_number(text, "pid"),
        joined=text.endswith(JOINED),
        last=LAST in text,
    )


class Reader:
    """A connection to logdr."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self.request: ReadRequest | None = None
        self._waiting: collections.deque[bytes] = collections.deque()
        self._waiting_bytes = 0

    def add(self, packet: bytes) -> None:
        """Have an entry sent."""
        self._waiting.append(packet)
        self._waiting_bytes += len(packet)

    @property
    def backlog_bytes(self) -> int:
        """How much waits to be sent."""
        return self._waiting_bytes

    def flush(self) -> bool:
        """Send what there is room for; True when nothing waits any more.

        Raises:
            OSError: the reader is gone.
        """
        waiting = self._waiting
        try:
            while waiting:
                packet = waiting[0]
                if self.request is not None and self.request.joined and len(waiting) > 1:
                    packet = self._join()
                self.socket.send(packet)
                self._waiting_bytes -= len(waiting.popleft())
        except BlockingIOError:
            return False
        return True

    def _join(self) -> bytes:
        """Make one packet of the first that wait."""
        waiting = self._waiting
        parts: list[bytes] = []
        size = 0
        while waiting and (not parts or size + len(waiting[0]) <= MAX_JOINED_BYTES):
            size += len(waiting[0])
            parts.append(waiting.popleft())
        packet = b"".join(parts)
        waiting.appendleft(packet)
        return packet


def _number(text: str, name: str) -> int:
    found = re.search(rf" {name}=(\d+)", text)
    return int(found[1]) if found else 0
