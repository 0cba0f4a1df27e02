"""What a phone's log is read as: binary entries, or the lines of a text log; each joins its readings.

Entries are exact, and each one costs a few microseconds. Lines are what logcat prints: they pass in blocks
that nobody looks into, but for the few seconds after a link has come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from devkit.logcat.binary import BinaryParser
from devkit.logcat.record import Record
from devkit.logcat.seam import SLACK_NS, Gap, Seam
from devkit.logcat.times import Clock

Batch = TypeVar("Batch", covariant=True)

# What is kept for the next seam: at 50,000 lines a second the last seven seconds.
_MAX_KEPT_BYTES = 32 << 20
# A longer line is none: logd's entries end at 4 KiB.
_MAX_REST_BYTES = 1 << 20
_DIVIDER = b"\n--------- "
# Of `-v threadtime -v year -v nsec -v zone`: "2026-05-14 10:22:30.101233456 +0800".
_STAMP_BYTES = 35


class Reading(Protocol, Generic[Batch]):
    """Turns the bytes of one reading after the other into one log."""

    skipped_bytes: int

    @property
    def repeated(self) -> int:
        """How much came twice and was dropped."""

    @property
    def newest_ns(self) -> int | None:
        """The latest stamp so far."""

    def resume_ns(self) -> int | None:
        """From which stamp on to read again; None: from the beginning."""

    def opened(self, event_tags: Mapping[int, bytes]) -> None:
        """A new stream begins."""

    def begin(self, start_ns: int | None) -> None:
        """It will repeat what was logged from that stamp on; None: everything."""

    def forget(self) -> None:
        """It has nothing in common with what was read."""

    def take(self, data: bytes) -> tuple[Batch, list[Gap]]:
        """What is new in these bytes, and gaps that show before it."""

    def finish(self) -> tuple[Batch, list[Gap]]:
        """What remains at the end of a stream."""


class Entries:
    """`logcat -B`."""

    def __init__(self) -> None:
        self._parser = BinaryParser()
        self._seam = Seam()
        self.skipped_bytes = 0

    @property
    def repeated(self) -> int:
        return self._seam.dropped

    @property
    def newest_ns(self) -> int | None:
        return self._seam.newest_ns

    def resume_ns(self) -> int | None:
        return self._seam.resume_ns()

    def opened(self, event_tags: Mapping[int, bytes]) -> None:
        self._parser = BinaryParser(event_tags)

    def begin(self, start_ns: int | None) -> None:
        self._seam.begin(start_ns)

    def forget(self) -> None:
        self._seam.forget()

    def take(self, data: bytes) -> tuple[Sequence[Record], list[Gap]]:
        records = self._parser.feed(data) if data else []
        return self._seam.join(records) if records else (records, [])

    def finish(self) -> tuple[Sequence[Record], list[Gap]]:
        records = self._parser.finish()
        self.skipped_bytes += self._parser.skipped_bytes
        return self._seam.join(records)


class Lines:
    """Text of the layout above with dividers (`-D`).

    A batch is a line end and whole lines as they came: each of them stands between two line ends.

    Args:
        of_one: a divider is at the beginning only, as in the log of one buffer.

    Attributes:
        cut: the last batch ended within a line, so that the rest of its message may follow.
        has_dividers: not all of its lines are messages.
    """

    def __init__(self, *, of_one: bool = False) -> None:
        self._of_one = of_one
        self._has_begun = False
        self._rest = b""
        self._clock = Clock()
        # Blocks with the stamp of their last line and the buffer that is in force behind them; and the one
        # that was before the first.
        self._recent: deque[tuple[int, str, bytes]] = deque()
        self._recent_bytes = 0
        self._buffer = self._buffer_before = ""
        self._newest = 0
        # While the overlap of two readings passes.
        self._seam: Seam | None = None
        self._stream_buffer = ""
        self._written_buffer = ""
        self._repeated = 0
        self.skipped_bytes = 0
        self.cut = self.has_dividers = False

    @property
    def repeated(self) -> int:
        return self._repeated

    @property
    def newest_ns(self) -> int | None:
        return self._newest or None

    def resume_ns(self) -> int | None:
        return max(0, self._newest - SLACK_NS) if self._newest else None

    def opened(self, event_tags: Mapping[int, bytes]) -> None:
        self._rest = b""
        self._has_begun = False

    def begin(self, start_ns: int | None) -> None:
        if not self._recent:
            return
        seam = Seam()
        self._stream_buffer = self._buffer_before
        for _, _, block in self._recent:
            seam.remember(self._records(block))
        self._written_buffer = self._stream_buffer
        self._stream_buffer = ""
        seam.begin(start_ns)
        self._seam = seam

    def forget(self) -> None:
        self._recent.clear()
        self._recent_bytes = self._newest = 0
        self._seam = None

    def take(self, data: bytes) -> tuple[bytes, list[Gap]]:
        end = data.rfind(b"\n") + 1
        if end:
            block = b"".join((b"\n", self._rest, memoryview(data)[:end]))
            self._rest = data[end:]
        else:
            self._rest += data
            if len(self._rest) < _MAX_REST_BYTES:
                self.cut = bool(self._rest)
                return b"", []
            block, self._rest = b"\n" + self._rest + b"\n", b""
        self.cut = bool(self._rest)
        gaps: list[Gap] = []
        if self._seam is not None:
            block, gaps = self._joined(block, self._seam)
        if block:
            self._remember(block)
        return block, gaps

    def finish(self) -> tuple[bytes, list[Gap]]:
        # A line that the broken link has cut comes again.
        self._rest = b""
        self.cut = False
        return b"", []

    def _remember(self, block: bytes) -> None:
        stamp = self._stamp(block[block.rfind(b"\n", 0, -1) + 1 :])
        self._newest = max(self._newest, stamp or 0)
        at = 0 if self._of_one and self._has_begun else block.rfind(_DIVIDER) + 1
        self._has_begun = True
        self.has_dividers = at > 0
        if at:
            self._buffer = _buffer(block[at : block.find(b"\n", at)]) or self._buffer
        self._recent.append((stamp or self._newest, self._buffer, block))
        self._recent_bytes += len(block)
        while self._recent and (
            self._recent[0][0] < self._newest - 2 * SLACK_NS
            or (self._recent_bytes > _MAX_KEPT_BYTES and len(self._recent) > 1)
        ):
            _, self._buffer_before, old = self._recent.popleft()
            self._recent_bytes -= len(old)

    def _joined(self, block: bytes, seam: Seam) -> tuple[bytes, list[Gap]]:
        before = seam.dropped
        fresh, gaps = seam.join(self._records(block))
        self._repeated += seam.dropped - before
        parts: list[bytes] = [b""]
        for record in fresh:
            self._divide(record.buffer, parts)
            parts.append(record.message)
        if seam.joined:
            # From now on blocks pass as they come, in the buffer that their dividers have named.
            self._seam = None
            self._divide(self._stream_buffer, parts)
        return b"\n".join([*parts, b""]) if len(parts) > 1 else b"", gaps

    def _divide(self, buffer: str, parts: list[bytes]) -> None:
        if buffer and buffer != self._written_buffer:
            parts.append(_DIVIDER[1:] + b"switch to " + buffer.encode())
            self._written_buffer = buffer

    def _records(self, block: bytes) -> list[Record]:
        """Lines as records of which only the time, the buffer and the bytes are known."""
        records: list[Record] = []
        stamp = self._newest
        for line in block.split(b"\n")[1:-1]:
            if line.startswith(_DIVIDER[1:]) and (buffer := _buffer(line)):
                self._stream_buffer = buffer
                continue
            stamp = self._stamp(line) or stamp
            records.append(Record(stamp, self._stream_buffer, None, None, None, 0, b"", line))
        return records

    def _stamp(self, line: bytes) -> int | None:
        return read_stamp(self._clock, line[:_STAMP_BYTES])


def read_stamp(clock: Clock, stamp: bytes) -> int | None:
    """Nanoseconds since 1970; None where it is no stamp at all."""
    try:
        return clock.time_ns(stamp)
    except (ValueError, OverflowError):
        return None


def _buffer(line: bytes) -> str:
    """The name in a divider, "" where it is something else (devkit's own notices)."""
    words = line.split()
    known = len(words) == 4 and words[1] in (b"beginning", b"switch")
    return words[3].decode("ascii", "replace") if known else ""
