"""Crashes in what is still being written: each is handed on when it is whole, and no line waits for it.

Whoever shows the lines gives them here too. Nearly all are nothing, which a look for a few words tells; from
the first suspicious one on a thread reads them. Only then is the reader loaded.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from devkit.logcat.record import Record as Entry

if TYPE_CHECKING:
    from devkit.crashes.headers import Record
    from devkit.crashes.model import Crash
    from devkit.crashes.reader import CrashReader

# A crash is whole when nothing more has come of it for so long. Where only its announcement is there, the
# dump is waited for: debuggerd stops all threads of a big process first.
QUIET_S = 1.0
DUMP_WITHIN_S = 8.0
# What begins a crash, in whatever is read; last words before it are among the lines that are kept for it.
_BEGINNINGS = (
    b"*** ***", b"Fatal signal", b"Sanitizer: ", b"runtime error: ", b">>> ", b"ill '", b"Killed process",
    b"#00 pc ", b"#0 0x", b"#00 0x", b"frame #0: ", b"[0x",
)  # fmt: skip
_KEPT_BYTES = 64 << 10
_MOST_LINE_BYTES = 16 << 10
_MOST_TOLD = 4096


def crashes_in(entries: Iterable[Entry]) -> list[Crash]:
    """The crashes in records of the log that are all there."""
    from devkit.crashes.reader import CrashReader

    reader = CrashReader()
    for number, record in enumerate(_records(entries), 1):
        reader.take(record._replace(number=number))
    return reader.finish().crashes


def last_words_in(text: str) -> str | None:
    """What a program printed about its own abort, or None; of several the last."""
    from devkit.crashes.headers import Record
    from devkit.crashes.reader import CrashReader

    reader = CrashReader()
    for number, line in enumerate(text.splitlines(), 1):
        reader.take(Record(number, line))
    return reader.last_words()


class _Lines(NamedTuple):
    lane: _Lane
    records: Sequence[Record]


class CrashWatch:
    """Finds crashes in a program's output and in the log.

    Args:
        told: is given each crash once, in a thread of this watch.
    """

    def __init__(self, told: Callable[[Crash], None], *, quiet_s: float = QUIET_S) -> None:
        self._told = told
        self._quiet_s = quiet_s
        self._queue: queue.SimpleQueue[_Lines | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._lanes: dict[str, _Lane] = {}
        self._known: dict[object, None] = {}

    def text(self, data: bytes, stream: str) -> None:
        """Take the next bytes of one of the streams that a program writes; each is read by itself."""
        lane = self._lane(stream)
        self._look(lane, lane.lines(data))

    def records(self, entries: Sequence[Entry]) -> None:
        """Take the next records of the phone's log."""
        lane = self._lane("")
        if lane.is_open or _is_suspicious(b"\n".join(entry.message for entry in entries)):
            self._hand_on(lane, [*lane.kept_records(), *_records(entries)])
        else:
            lane.keep_entries(entries)

    def close(self) -> None:
        """The end: what is not whole yet is told as far as it came. Returns when all has been told."""
        for lane in self._lanes.values():
            self._look(lane, lane.lines(b"\n"))
        if self._thread is not None:
            self._queue.put(None)
            self._thread.join()
            self._thread = None

    def _lane(self, name: str) -> _Lane:
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = _Lane()
        return lane

    def _look(self, lane: _Lane, data: bytes) -> None:
        if not data:
            return
        if lane.is_open or _is_suspicious(data):
            from devkit.crashes.headers import read_records

            text = (lane.kept_bytes() + data).decode("utf-8", "replace")
            self._hand_on(lane, list(read_records(text.splitlines())))
        else:
            lane.keep_bytes(data)

    def _hand_on(self, lane: _Lane, records: Sequence[Record]) -> None:
        lane.is_open = True
        self._queue.put(_Lines(lane, records))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="devkit crashes", daemon=True)
            self._thread.start()

    def _run(self) -> None:
        ended = False
        while not ended:
            is_open = any(lane.is_open for lane in self._lanes.values())
            try:
                item = self._queue.get(timeout=self._quiet_s / 4 if is_open else None)
            except queue.Empty:
                item = _Lines(_Lane(), ())
            ended = item is None
            if item is not None:
                item.lane.take(item.records)
            for lane in list(self._lanes.values()):
                if ended or lane.is_whole(self._quiet_s):
                    for crash in lane.finish():
                        self._tell(crash)

    def _tell(self, crash: Crash) -> None:
        # The same one in the program's output and in the log, or in two buffers of it; where no process is
        # named, the same place again.
        key: object = (crash.kind, crash.pid, crash.tid, crash.signal, crash.what, crash.fault_address)
        if crash.pid is None:
            key = (key, tuple((f.module, f.pc, f.address, f.locations) for f in crash.frames))
        if key in self._known:
            return
        if len(self._known) >= _MOST_TOLD:
            del self._known[next(iter(self._known))]
        self._known[key] = None
        self._told(crash)


class _Lane:
    """One stream: what came before a crash, and the reader while one is open."""

    def __init__(self) -> None:
        self.is_open = False
        self._begun = b""
        self._kept: deque[bytes | Sequence[Entry]] = deque()
        self._kept_bytes = 0
        self._reader: CrashReader | None = None
        self._number = 0
        self._touched_at = 0.0

    def lines(self, data: bytes) -> bytes:
        """Whole lines only: a word that begins a crash may come in two pieces."""
        data = self._begun + data
        end = data.rfind(b"\n") + 1
        if not end and len(data) > _MOST_LINE_BYTES:
            end = len(data)
        self._begun = data[end:]
        return data[:end]

    def keep_bytes(self, data: bytes) -> None:
        data = data[-_KEPT_BYTES:]
        self._keep(data, len(data))

    def keep_entries(self, entries: Sequence[Entry]) -> None:
        self._keep(entries, sum(len(entry.message) + 64 for entry in entries))

    def _keep(self, piece: bytes | Sequence[Entry], size: int) -> None:
        self._kept.append(piece)
        self._kept_bytes += size
        while self._kept_bytes > _KEPT_BYTES and len(self._kept) > 1:
            gone = self._kept.popleft()
            self._kept_bytes -= (
                len(gone) if isinstance(gone, bytes) else sum(len(e.message) + 64 for e in gone)
            )

    def kept_bytes(self) -> bytes:
        """What came before, and no more of it."""
        found = b"".join(piece for piece in self._kept if isinstance(piece, bytes))
        self._kept.clear()
        self._kept_bytes = 0
        return found

    def kept_records(self) -> list[Record]:
        found = [r for piece in self._kept if not isinstance(piece, bytes) for r in _records(piece)]
        self._kept.clear()
        self._kept_bytes = 0
        return found

    def take(self, records: Iterable[Record]) -> None:
        """In the watch's thread, as what follows."""
        if self._reader is None:
            from devkit.crashes.reader import CrashReader

            self._reader = CrashReader()
            self._touched_at = time.monotonic()
        for record in records:
            self._number += 1
            if self._reader.take(record._replace(number=self._number)):
                self._touched_at = time.monotonic()

    def is_whole(self, quiet_s: float) -> bool:
        """Whether nothing more is to be expected of what has been read."""
        from devkit.crashes.model import SIGNAL

        if self._reader is None:
            return False
        waits = any(crash.kind == SIGNAL and not crash.frames for crash in self._reader.found)
        return time.monotonic() - self._touched_at > (max(DUMP_WITHIN_S, quiet_s) if waits else quiet_s)

    def finish(self) -> list[Crash]:
        """The crashes that were read; the next line begins anew."""
        from devkit.crashes.model import KILLED, SIGNAL

        reader, self._reader, self.is_open = self._reader, None, False
        if reader is None:
            return []
        return [
            c
            for c in reader.finish(others_too=False).crashes
            if c.frames or c.kind in (SIGNAL, KILLED) or c.tool
        ]


def _is_suspicious(data: bytes) -> bool:
    return any(word in data for word in _BEGINNINGS)


def _records(entries: Iterable[Entry]) -> list[Record]:
    """Records of the log as the crash reader takes them, each line one."""
    from devkit.crashes.headers import Record

    found: list[Record] = []
    for entry in entries:
        when = None
        if entry.time_ns is not None:
            second, rest = divmod(entry.time_ns, 1_000_000_000)
            when = f"{time.strftime('%m-%d %H:%M:%S', time.localtime(second))}.{rest // 1_000_000:03d}"
        tag = entry.tag.decode("utf-8", "replace")
        found += [
            Record(0, line, entry.pid, entry.tid, entry.letter, tag, when, entry.process)
            for line in entry.message.decode("utf-8", "replace").split("\n")
        ]
    return found
