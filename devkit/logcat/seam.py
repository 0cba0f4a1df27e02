"""Where two readings of the same log meet: what comes twice is dropped, what is missing is told.

The second reading starts a little before the end of the first, because entries of several buffers and threads
are not in the order of their stamps. A record is dropped as often as the first reading had it, so that true
repeats stay.
"""

from __future__ import annotations

from array import array
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass

from devkit.logcat.record import Record

# How far out of order stamps may be.
SLACK_NS = 2_000_000_000
# 8 bytes each. Where more than this is logged in the slack, the older half could come twice.
MAX_REMEMBERED = 500_000


@dataclass(frozen=True)
class Gap:
    """Records that are, or may be, missing.

    Args:
        buffer: the log buffer, "" for all.
        from_ns, to_ns: stamps of the last record before and the first after; None: not known.
        why: as "the buffer was overwritten while the phone was away".
    """

    buffer: str
    from_ns: int | None
    to_ns: int | None
    why: str

    @property
    def text(self) -> str:
        """The gap in words."""
        what = f"lines of the buffer {self.buffer} may be missing" if self.buffer else "lines may be missing"
        if self.from_ns is not None and self.to_ns is not None and self.to_ns >= self.from_ns:
            what += f" ({(self.to_ns - self.from_ns) / 1e9:.3f} s)"
        return f"{what}: {self.why}"


class Seam:
    """Remembers the end of what was read, and joins the next reading to it."""

    def __init__(self, *, slack_ns: int = SLACK_NS, max_remembered: int = MAX_REMEMBERED) -> None:
        self._slack = slack_ns
        self._max = max_remembered
        self._recent: deque[tuple[int, array[int]]] = deque()
        self._count = 0
        self._newest = 0
        self._last: dict[str, tuple[int, int]] = {}
        self._twice: Counter[int] = Counter()
        self._until = 0
        self._awaited: dict[str, tuple[int, int]] = {}
        self.dropped = 0

    @property
    def newest_ns(self) -> int | None:
        """The latest stamp so far."""
        return self._newest or None

    def resume_ns(self) -> int | None:
        """From which stamp on to read again; None: from the beginning."""
        return max(0, self._newest - self._slack) if self._newest else None

    @property
    def joined(self) -> bool:
        """Whether all that may come twice has come: the new reading is past its overlap."""
        return not self._twice and not self._awaited

    def remember(self, records: Sequence[Record]) -> None:
        """Take records of an unbroken reading."""
        if not records:
            return
        hashes = array("q", [_key(r) for r in records])
        newest = max((r[0] or 0 for r in records), default=0)
        for buffer, index in {record[1]: index for index, record in enumerate(records)}.items():
            self._last[buffer] = (records[index][0] or 0, hashes[index])
        self._newest = max(self._newest, newest)
        self._recent.append((newest, hashes))
        self._count += len(hashes)
        while self._recent and (
            self._recent[0][0] < self._newest - 2 * self._slack
            or (self._count > self._max and len(self._recent) > 1)
        ):
            self._count -= len(self._recent.popleft()[1])

    def begin(self, start_ns: int | None) -> None:
        """A new reading begins, from that stamp on."""
        self._twice = Counter()
        for _, hashes in self._recent:
            self._twice.update(hashes)
        self._until = self._newest + self._slack
        start = start_ns or 0
        # Of a buffer that was quiet for longer than the slack, nothing is sent again: it proves nothing.
        self._awaited = {b: last for b, last in self._last.items() if last[0] >= start} if start_ns else {}

    def forget(self) -> None:
        """The next reading has nothing in common with what was read."""
        self._recent.clear()
        self._count = 0
        self._last.clear()
        self._newest = 0
        self._twice.clear()
        self._awaited = {}

    def join(self, records: Sequence[Record]) -> tuple[Sequence[Record], list[Gap]]:
        """Records of the new reading without those that were there before, and gaps that show."""
        if self.joined:
            self.remember(records)
            return records, []
        fresh: list[Record] = []
        gaps: list[Gap] = []
        twice, awaited = self._twice, self._awaited
        for record in records:
            key = _key(record)
            count = twice.get(key, 0)
            if count:
                self.dropped += 1
                if count == 1:
                    del twice[key]
                else:
                    twice[key] = count - 1
                last = awaited.get(record[1])
                if last is not None and last[1] == key:
                    del awaited[record[1]]
                continue
            moment = record[0] or 0
            last = awaited.pop(record[1], None)
            if last is not None and moment >= last[0]:
                gaps.append(Gap(record[1], last[0], moment, "the phone had overwritten or dropped them"))
            elif last is not None:
                awaited[record[1]] = last
            fresh.append(record)
            if moment > self._until:
                twice.clear()
                awaited.clear()
        self.remember(fresh)
        return fresh, gaps


def _key(record: Record) -> int:
    # Not the buffer and the user: text logs do not always tell them.
    return hash((record[0], record[3], record[4], record[5], record[6], record[7]))
