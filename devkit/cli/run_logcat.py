"""`--logcat`: what a program writes to the phone's log, shown beside its output while it runs."""

from __future__ import annotations

import secrets
import sys
import threading
from collections import deque
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.logcat.record import Record
    from devkit.logcat.show import Columns

# How long the last lines are waited for when the program has ended.
_LAST_LINES_S = 3.0
# What is kept for the readers of results: the end, where statistics stand.
_KEPT_BYTES = 1 << 20
_TAG = b"devkit"


class LogBeside:
    """Reads the log in a thread, from the program's start to its end.

    Which process it is, the log itself tells: `first`, run by the shell that then becomes the program, writes
    a line with its pid. So lines of programs that end at once are not missed, and old ones not taken for its.
    """

    def __init__(self, device: Device) -> None:
        self._device = device
        self._token = secrets.token_hex(6)
        self._began = f"run {self._token} ".encode()
        self._ended = f"end {self._token}".encode()
        self._end_seen = threading.Event()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read, name="devkit logcat", daemon=True)
        self._lines: deque[bytes] = deque()
        self._kept = 0
        self._gaps = 0
        self._seen_begin = False
        self._failed: DevkitError | None = None

    @property
    def first(self) -> str:
        """Shell text that runs before the program, in the shell that becomes it."""
        return f'log -t devkit "run {self._token} $$" 2>/dev/null; '

    def __enter__(self) -> LogBeside:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None and self._thread.is_alive():
                # When this line has come, everything before it has.
                self._device.shell(["log", "-t", "devkit", self._ended.decode()], timeout_s=_LAST_LINES_S)
                self._end_seen.wait(_LAST_LINES_S)
        except DevkitError:
            pass
        self._stop.set()
        self._thread.join(_LAST_LINES_S)
        if kind is None:
            self._say_what_is_missing()

    def written(self) -> bytes:
        """The program's messages as lines, for the readers of results; call it after the end."""
        return b"".join(b"\n" + line for line in self._lines) + b"\n" if self._lines else b""

    def _say_what_is_missing(self) -> None:
        sink = output.current()
        if self._failed is not None:
            sink.warn(f"the log of the phone could not be read: {self._failed.what}")
        elif not self._seen_begin:
            sink.warn("the program's start was not found in the phone's log; none of its lines were shown")
        elif self._gaps:
            sink.warn("the link broke while the program ran: lines of the log may be missing")

    def _read(self) -> None:
        from devkit.logcat.follow import Follower
        from devkit.logcat.processes import ProcessFilter
        from devkit.logcat.reading import Entries
        from devkit.logcat.show import Columns
        from devkit.logcat.source import PhoneLog

        sink = output.current()
        columns = Columns(color=sink.style("x", "red") != "x")
        processes: ProcessFilter | None = None
        try:
            source = PhoneLog(self._device)
            now_ns = source.look().now_ns
            follower = Follower(source, Entries(), since_ns=now_ns or None)
            for records, notices in follower.batches():
                self._gaps += sum(notice.kind == "gap" for notice in notices)
                if processes is None:
                    records, pid = self._from_begin(records)
                    processes = ProcessFilter(pids=[pid]) if pid else None
                if processes is not None:
                    self._show(processes.pick(records), columns)
                if any(r.tag == _TAG and r.message == self._ended for r in records):
                    self._end_seen.set()
                    return
                if self._stop.is_set():
                    return
        except DevkitError as error:
            self._failed = error

    def _from_begin(self, records: Sequence[Record]) -> tuple[Sequence[Record], int | None]:
        for index, record in enumerate(records):
            if record.tag == _TAG and record.message.startswith(self._began):
                pid = record.message[len(self._began) :]
                if pid.isdigit():
                    self._seen_begin = True
                    return records[index + 1 :], int(pid)
        return records, None

    def _show(self, records: Sequence[Record], columns: Columns) -> None:
        if not records:
            return
        for record in records:
            self._lines.append(record.message)
            self._kept += len(record.message)
            while self._kept > _KEPT_BYTES:
                self._kept -= len(self._lines.popleft())
        text = "".join(map(columns.text, records))
        if sys.stderr.isatty():
            text = text.replace("\n", "\r\n")  # the program may have the terminal in raw mode
        output.current().raw(text.encode("utf-8", "replace"), stderr=True)
