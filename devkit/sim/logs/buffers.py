"""The log's ring buffers: what is kept, how much of it, and in which order it is read."""

from __future__ import annotations

import collections
import heapq
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from devkit.sim.logs.statistics import BufferUse
from devkit.sim.logs.wire import BUFFER_NAMES, ENTRY, KERNEL

# LOG_BUFFER_SIZE of a userdebug build, and the limits of setLogSize (logd/LogSize.h).
DEFAULT_BYTES = 1024 * 1024
MIN_BYTES = 64 * 1024
MAX_BYTES = 256 * 1024 * 1024
# What outlives a reboot: the size of pmsg in the pstore of many phones.
LAST_BYTES = 256 * 1024


class Stored(NamedTuple):
    """An entry in a buffer.

    Args:
        number: counts all entries of all buffers.
        packet: the entry as readers get it.
        stamp: its time, nanoseconds since 1970.
    """

    number: int
    log_id: int
    pid: int
    stamp: int
    packet: bytes


@dataclass
class _Ring:
    entries: collections.deque[Stored] = field(default_factory=collections.deque)
    used: int = 0
    limit: int = DEFAULT_BYTES
    total_bytes: int = 0
    total_count: int = 0
    oldest: int = field(default_factory=time.time_ns)
    newest: int = 0

    def drop_first(self) -> None:
        stored = self.entries.popleft()
        self.used -= len(stored.packet)
        # From here on the buffer is complete.
        self.oldest = max(self.oldest, stored.stamp)


class Buffers:
    """All buffers of a phone."""

    def __init__(self) -> None:
        self._rings = [_Ring() for _ in BUFFER_NAMES]
        self._count = 0
        self._last: list[Stored] | None = None

    def append(self, log_id: int, pid: int, stamp: int, packet: bytes) -> Stored:
        """Keep an entry, for which the oldest of its buffer may have to go."""
        self._count += 1
        stored = Stored(self._count, log_id, pid, stamp, packet)
        ring = self._rings[log_id]
        ring.entries.append(stored)
        ring.used += len(packet)
        ring.total_bytes += len(packet) - ENTRY.size
        ring.total_count += 1
        ring.newest = max(ring.newest, stamp)
        if ring.used > ring.limit:
            self._prune(ring)
        return stored

    def clear(self, log_id: int) -> None:
        """Forget what is in a buffer."""
        ring = self._rings[log_id]
        while ring.entries:
            ring.drop_first()

    def limit(self, log_id: int) -> int:
        """How many bytes a buffer holds at most."""
        return self._rings[log_id].limit

    def used(self, log_id: int) -> int:
        """How many bytes are in a buffer."""
        return self._rings[log_id].used

    def set_limit(self, log_id: int, count: int) -> bool:
        """Change a buffer's size; False when logd allows no such size."""
        if not MIN_BYTES <= count <= MAX_BYTES:
            return False
        ring = self._rings[log_id]
        ring.limit = count
        self._prune(ring)
        return True

    def use(self, log_id: int) -> BufferUse:
        """The numbers and entries of a buffer."""
        ring = self._rings[log_id]
        packets = [stored.packet for stored in ring.entries]
        return BufferUse(
            *(ring.total_bytes, ring.total_count, ring.oldest, ring.newest or ring.oldest, ring.used), packets
        )

    def reboot(self) -> None:
        """Keep the end of what is there for `select(last=True)`, and begin anew."""
        everything = (1 << len(BUFFER_NAMES)) - 1
        kept: collections.deque[Stored] = collections.deque(self._merged(everything & ~(1 << KERNEL)))
        size = sum(len(stored.packet) for stored in kept)
        while size > LAST_BYTES:
            size -= len(kept.popleft().packet)
        self._last = list(kept)
        self._rings = [_Ring(limit=ring.limit) for ring in self._rings]

    @property
    def has_last(self) -> bool:
        """Whether anything was logged before a reboot."""
        return self._last is not None

    def clear_last(self) -> bool:
        """Forget what was logged before the reboot; False when there is nothing of it."""
        existed, self._last = self._last is not None, None
        return existed

    def select(self, mask: int, pid: int, tail: int, start: int, *, last: bool = False) -> list[bytes] | None:
        """The packets a reader is to get of what is there, in the order they were logged.

        Args:
            mask: bit N is set for buffer N.
            pid: only this process's, 0 for all.
            tail: only the last ones, 0 for all.
            start: only those of this time or later, and everything logged after the first such.
            last: those of before the reboot; None if there was none.
        """
        if last and self._last is None:
            return None
        found = (stored for stored in self._last or () if mask >> stored.log_id & 1)
        chosen = [stored for stored in (found if last else self._merged(mask)) if pid in (0, stored.pid)]
        if start:
            first = next((i for i, stored in enumerate(chosen) if stored.stamp >= start), len(chosen))
            chosen = chosen[first:]
        return [stored.packet for stored in (chosen[-tail:] if tail else chosen)]

    def _merged(self, mask: int) -> Iterator[Stored]:
        wanted = [ring.entries for log_id, ring in enumerate(self._rings) if mask >> log_id & 1]
        return heapq.merge(*wanted, key=lambda stored: stored.number)

    @staticmethod
    def _prune(ring: _Ring) -> None:
        while ring.used > ring.limit:
            ring.drop_first()
