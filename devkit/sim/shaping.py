"""Holding bytes back: one direction of a link (rate, delay, a cut), and a connection's share of it."""

from __future__ import annotations

import collections
import socket

# What fits on the way beside the bytes that the delay itself holds: a router's queue.
QUEUE_BYTES = 256 * 1024
# A piece takes about this long on the wire, so that small messages do not wait for large ones.
PIECE_S = 0.002
_PIECE_MIN_BYTES = 1448
_PIECE_MAX_BYTES = 64 * 1024
_CAPACITY_MAX_BYTES = 256 * 1024 * 1024


class LinkCut(Exception):
    """The byte after which this direction breaks has passed."""


class Direction:
    """One direction of a link, shared by all connections over it.

    Times are those of `time.monotonic`, in seconds.
    """

    def __init__(self) -> None:
        self.delay_s = 0.0
        # Bytes that still pass before the link breaks; None: it does not.
        self.cut_after_bytes: int | None = None
        self._rate_bytes_s: float | None = None
        self._free_at = 0.0

    def set(self, rate_bits_s: float | None, delay_s: float) -> None:
        """Change rate and delay; what is on the way has to be scheduled again."""
        self._rate_bytes_s = rate_bits_s / 8 if rate_bits_s is not None else None
        self.delay_s = delay_s
        self._free_at = 0.0

    def schedule(self, count: int, now: float) -> float:
        """When the last of `count` bytes that are sent now arrives."""
        start = max(now, self._free_at)
        self._free_at = start + (count / self._rate_bytes_s if self._rate_bytes_s else 0.0)
        return self._free_at + self.delay_s

    @property
    def piece_bytes(self) -> int:
        """How much travels as one piece."""
        if self._rate_bytes_s is None:
            return _PIECE_MAX_BYTES
        return int(min(max(self._rate_bytes_s * PIECE_S, _PIECE_MIN_BYTES), _PIECE_MAX_BYTES))

    @property
    def capacity_bytes(self) -> int:
        """How much may be on the way before the sender has to wait."""
        # Without a rate the delay alone must not limit the throughput: 10 Gbit/s.
        rate = self._rate_bytes_s if self._rate_bytes_s is not None else 1.25e9
        return min(QUEUE_BYTES + int(self.delay_s * rate), _CAPACITY_MAX_BYTES)


class Lane:
    """Bytes of one connection in one direction, from a socket to another. Both are non-blocking."""

    def __init__(self, source: socket.socket, sink: socket.socket, direction: Direction) -> None:
        self.source = source
        self.sink = sink
        self.moved_bytes = 0
        self._direction = direction
        self._queue: collections.deque[tuple[float, memoryview]] = collections.deque()
        self._queued_bytes = 0
        self._ended = False

    @property
    def wants_read(self) -> bool:
        """Whether there is room for more."""
        return not self._ended and self._queued_bytes < self._direction.capacity_bytes

    @property
    def is_done(self) -> bool:
        """Whether the source has ended and everything has arrived."""
        return self._ended and not self._queue

    @property
    def due(self) -> float | None:
        """When the next piece arrives; None when nothing is on the way."""
        return self._queue[0][0] if self._queue else None

    def read(self, now: float) -> None:
        """Take what the source has.

        Raises:
            OSError: the connection broke.
        """
        while self.wants_read:
            try:
                data = self.source.recv(self._direction.piece_bytes)
            except BlockingIOError:
                return
            if not data:
                self._ended = True
                return
            self._queue.append((self._direction.schedule(len(data), now), memoryview(data)))
            self._queued_bytes += len(data)

    def write(self, now: float) -> None:
        """Hand over what has arrived by now, as far as the sink takes it.

        Raises:
            LinkCut: the direction's cut has been reached.
            OSError: the connection broke.
        """
        while self._queue and self._queue[0][0] <= now:
            due, data = self._queue[0]
            limit = self._direction.cut_after_bytes
            if limit is not None and limit < len(data):
                data = data[:limit]
            try:
                sent = self.sink.send(data) if data else 0
            except BlockingIOError:
                return
            self.moved_bytes += sent
            self._queued_bytes -= sent
            if limit is not None:
                self._direction.cut_after_bytes = limit - sent
                if limit == sent:
                    raise LinkCut
            whole = self._queue[0][1]
            if sent < len(whole):
                self._queue[0] = (due, whole[sent:])
            else:
                self._queue.popleft()

    def reschedule(self, now: float) -> None:
        """After a change of the direction: what is on the way travels under the new settings."""
        self._queue = collections.deque(
            (self._direction.schedule(len(data), now), data) for _, data in self._queue
        )
