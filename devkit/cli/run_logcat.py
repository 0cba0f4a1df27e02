"""`--logcat` of run, debug and profile: what a program writes to the phone's log, beside its session."""

from __future__ import annotations

import secrets
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import DevkitError, FileError, UsageError

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.logcat.processes import ProcessFilter
    from devkit.logcat.record import Record
    from devkit.logcat.show import Columns

# How long the last lines are waited for when the program has ended.
_LAST_LINES_S = 3.0
# The program may have begun before the phone was asked for its time; the line with its pid is found anyway.
_STARTED_BEFORE_NS = 20 * 10**9
# What is kept for the readers of results: the end, where statistics stand.
_KEPT_BYTES = 1 << 20
_TAG = b"devkit"
# For `beside_session`.
STDERR = Path("-")


class LogBeside:
    """Reads the log in a thread, from the program's start to its end.

    Which process it is, the log itself tells: `first`, run by the shell that then becomes the program, writes
    a line with its pid. So lines of programs that end at once are not missed, and old ones not taken for its.

    Args:
        processes: whose lines these are, where nobody can run `first`: from now on.
        show: takes the lines as text; None: stderr.
    """

    def __init__(
        self,
        device: Device,
        *,
        processes: ProcessFilter | None = None,
        show: Callable[[str], None] | None = None,
    ) -> None:
        self._device = device
        self._processes = processes
        self._tell = show
        self._token = secrets.token_hex(6)
        self._began = f"run {self._token} ".encode()
        self._ended = f"end {self._token}".encode()
        self._reads = threading.Event()
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
        if self._processes is not None:
            self._reads.wait(_LAST_LINES_S)  # no line tells where they begin
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
        elif self._processes is None and not self._seen_begin:
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
        columns = Columns(color=self._tell is None and sink.style("x", "red") != "x")
        processes = self._processes
        try:
            source = PhoneLog(self._device)
            since_ns = source.look().now_ns
            self._reads.set()
            if since_ns and processes is None:
                since_ns -= _STARTED_BEFORE_NS
            follower = Follower(source, Entries(), since_ns=since_ns or None)
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
        finally:
            self._reads.set()

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
        if self._tell is not None:
            self._tell(text)
            return
        if sys.stderr.isatty():
            text = text.replace("\n", "\r\n")  # the program may have the terminal in raw mode
        output.current().raw(text.encode("utf-8", "replace"), stderr=True)


@contextmanager
def beside_session(
    device: Device, where: Path, *, names: Sequence[str] = (), pids: Sequence[int] = ()
) -> Iterator[None]:
    """The log of processes that somebody else starts (lldb-server, an editor, a profiler), into a file.

    Args:
        where: a file, which is continued; another terminal (/dev/pts/7); `-`: stderr.
        names: of programs or apps, also after they have been started again.

    Raises:
        FileError: it cannot be written.
    """
    from devkit.logcat.processes import ProcessFilter
    from devkit.logcat.session import app_users, ask_names

    def shell(script: str) -> bytes:
        return device.shell(script).stdout

    users = app_users(shell, names)
    processes = ProcessFilter(pids=pids, names=names, uids=users, ask=ask_names(shell))
    if where == STDERR:
        with LogBeside(device, processes=processes):
            yield
        return
    try:
        file = where.open("a", encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise FileError(f"--logcat {where} cannot be written", evidence=error.strerror) from None
    with file:
        newline = "\r\n" if file.isatty() else "\n"

        def show(text: str) -> None:
            file.write(text.replace("\n", newline))
            file.flush()

        with LogBeside(device, processes=processes, show=show):
            yield


def check_place(where: Path | None, *, prompt: bool) -> None:
    """Refuse what would be written into LLDB's prompt, or into a folder, before anything is built.

    Raises:
        UsageError: it is one of these.
    """
    if where == STDERR and prompt:
        raise UsageError(
            "--logcat - would write into LLDB's prompt",
            hints=[
                "--logcat FILE, and in another terminal: tail -f FILE",
                "--logcat /dev/pts/7: that terminal",
            ],
        )
    if where is not None and where.is_dir():
        raise UsageError(f"--logcat {where} is a folder", hints=["name a file in it"])
