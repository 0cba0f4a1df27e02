"""One log out of many readings: when the link breaks the phone is awaited, and reading goes on."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from devkit.errors import PHONE, DeviceError, OperationTimeout
from devkit.logcat.reading import Reading
from devkit.logcat.seam import SLACK_NS, Gap

Batch = TypeVar("Batch")

# How often who reads gets a chance to do something else.
TICK_S = 0.5
# A silent stream may be one whose link is dead: then the phone is asked.
PROBE_AFTER_S = 15.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.25, 3.0
# logcat that ends at once so many times in a row will not do better.
_MAX_EMPTY_READINGS = 5


@dataclass(frozen=True)
class PhoneLook:
    """What tells one boot of the phone from the next, and the phone's clock."""

    boot: str
    now_ns: int


class LogStream(Protocol):
    """A logcat that runs on the phone."""

    exit_code: int | None
    complaint: str

    def read(self, timeout_s: float) -> bytes | None:
        """Bytes; b"" when none came in time; None at the end. Raises DeviceError when the link breaks."""

    def close(self) -> None:
        """End it."""


class LogSource(Protocol):
    """Where the log comes from. `event_tags`: names of event tags, known once it was opened."""

    name: str
    event_tags: Mapping[int, bytes]

    def open(self, start_ns: int | None) -> LogStream:
        """Start reading at a stamp, None: at the beginning. Raises DeviceError."""

    def look(self) -> PhoneLook:
        """Raises DeviceError when the phone cannot be reached."""


@dataclass(frozen=True)
class Notice:
    """What the reader of a log must know. `kind`: lost, back, gap, reboot, skipped."""

    kind: str
    text: str
    gap: Gap | None = None


class Follower(Generic[Batch]):
    """Reads a source, across as many breaks of the link as there are.

    Args:
        since_ns: the stamp to start at, None: everything that the phone has kept.
        ends: stop when the phone has told what it has (`logcat -d`).
        pause, clock: for tests.

    Attributes:
        gaps: all that were noticed.
        breaks: how often reading had to begin anew.
    """

    def __init__(
        self,
        source: LogSource,
        reading: Reading[Batch],
        *,
        since_ns: int | None = None,
        ends: bool = False,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._source = source
        self._since = since_ns
        self._ends = ends
        self._pause = pause
        self._clock = clock
        self._reading = reading
        self._boot: str | None = None
        self.gaps: list[Gap] = []
        self.breaks = 0

    @property
    def repeated(self) -> int:
        """How many records came twice and were dropped."""
        return self._reading.repeated

    @property
    def skipped_bytes(self) -> int:
        """How many bytes were no entry."""
        return self._reading.skipped_bytes

    def batches(self) -> Generator[tuple[Batch, list[Notice]], None, None]:
        """Records as they come, and what is to be said before them; both may be empty (a tick).

        Raises:
            DeviceError: the phone cannot be reached at the start, or refuses to show its log.
        """
        stream = self._source.open(self._since)
        try:
            self._boot = self._source.look().boot
        except (DeviceError, OperationTimeout):
            self._boot = None
        empty_readings = 0
        while True:
            got, why = False, ""
            self._reading.opened(self._source.event_tags)
            pieces = _Pieces(stream, self._source, self._clock)
            try:
                for data in pieces:
                    fresh, gaps = self._reading.take(data)
                    got = got or bool(fresh)
                    yield fresh, [self._gap(gap) for gap in gaps]
                if self._ends and stream.exit_code in (0, None):
                    yield self._last()
                    return
                why = f"logcat ended: {stream.complaint}" if stream.complaint else "logcat ended on the phone"
            except (DeviceError, OperationTimeout) as error:
                why = error.evidence or error.what
            finally:
                stream.close()
            yield self._last()
            empty_readings = 0 if got else empty_readings + 1
            if stream.exit_code and empty_readings and not _may_come_back(stream.complaint):
                raise self._refused(stream)
            if empty_readings >= _MAX_EMPTY_READINGS and stream.exit_code is not None:
                raise self._refused(stream)
            self.breaks += 1
            yield self._nothing(), [Notice("lost", f"{why}; waiting for the phone {self._source.name}")]
            began = self._clock()
            for again, notices in self._opened_again(began, FIRST_PAUSE_S * 2**empty_readings):
                yield self._nothing(), notices
                if again is not None:
                    stream = again

    def _opened_again(self, began: float, wait: float) -> Iterator[tuple[LogStream | None, list[Notice]]]:
        while True:
            self._pause(min(wait, LONGEST_PAUSE_S))
            wait = min(wait * 2, LONGEST_PAUSE_S)
            try:
                look = self._source.look()
                start, notices = self._resume(look)
                stream = self._source.open(start)
            except (DeviceError, OperationTimeout):
                yield None, []
                continue
            self._boot = look.boot
            text = f"the phone is back after {self._clock() - began:.1f} s"
            yield stream, [Notice("back", text), *notices]
            return

    def _resume(self, look: PhoneLook) -> tuple[int | None, list[Notice]]:
        """Where to go on, and what that means for the reader."""
        newest = self._reading.newest_ns
        if self._boot is not None and look.boot != self._boot:
            # Its clock may stand anywhere until it has been set: no stamp means anything.
            self._reading.forget()
            gap = Gap("", newest, None, "the phone was restarted, which empties its log")
            return None, [Notice("reboot", "the phone was restarted"), self._gap(gap)]
        if newest is None:
            self._reading.begin(None)
            return self._since, []
        if look.now_ns and look.now_ns < newest - SLACK_NS:
            self._reading.begin(None)
            return None, [Notice("skipped", "the phone's clock was set back: older lines may come twice")]
        start = self._reading.resume_ns()
        if self._since is not None and start is not None:
            start = max(start, self._since)
        self._reading.begin(start)
        return start, []

    def _last(self) -> tuple[Batch, list[Notice]]:
        batch, gaps = self._reading.finish()
        return batch, [self._gap(gap) for gap in gaps]

    def _nothing(self) -> Batch:
        return self._reading.take(b"")[0]

    def _gap(self, gap: Gap) -> Notice:
        self.gaps.append(gap)
        return Notice("gap", gap.text, gap)

    def _refused(self, stream: LogStream) -> DeviceError:
        return DeviceError(
            f"the phone {self._source.name} does not show its log",
            where=PHONE,
            evidence=f"logcat ended with exit code {stream.exit_code}: {stream.complaint}",
            hints=["devkit device shell -- logcat -g"],
        )


class _Pieces:
    """The pieces of one stream; asks the phone when nothing comes for long."""

    def __init__(self, stream: LogStream, source: LogSource, clock: Callable[[], float]) -> None:
        self._stream, self._source, self._clock = stream, source, clock

    def __iter__(self) -> Iterator[bytes]:
        heard = self._clock()
        while True:
            data = self._stream.read(TICK_S)
            if data is None:
                return
            if data:
                heard = self._clock()
            elif self._clock() - heard > PROBE_AFTER_S:
                self._source.look()
                heard = self._clock()
            yield data


def _may_come_back(complaint: str) -> bool:
    """Whether logcat ended because logd did, or because it read too slowly."""
    lowered = complaint.lower()
    return "eof" in lowered or "read failure" in lowered or "connection" in lowered
