"""Readers of the log: what each wants, and what has not been sent to it yet."""

from __future__ import annotations

import collections
import re
import socket
from dataclasses import dataclass

from devkit.sim.logs.wire import BUFFER_NAMES

# A reader so slow that this much waits for it is dropped, as logd does ("unexpected EOF").
MIN_BACKLOG_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True)
class ReadRequest:
    """What a reader wrote to logdr: `stream lids=0,3 tail=10 start=1.5 pid=7`.

    Args:
        ends: it wants what is there and then the end (`dumpAndClose`).
        mask: bit N is set for buffer N.
        tail: only the last entries, 0 for all.
        start: nanoseconds since 1970, 0 for the beginning.
        pid: 0 for all processes.
    """

    ends: bool
    mask: int
    tail: int
    start: int
    pid: int


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
        text.startswith("dumpAndClose"), mask, _number(text, "tail"), start_ns, _number(text, "pid")
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
        waiting, send = self._waiting, self.socket.send
        try:
            while waiting:
                send(waiting[0])
                self._waiting_bytes -= len(waiting.popleft())
        except BlockingIOError:
            return False
        return True


def _number(text: str, name: str) -> int:
    found = re.search(rf" {name}=(\d+)", text)
    return int(found[1]) if found else 0
