"""Crashes of `devkit run`: in the program's output, and in the phone's log when a signal ended it."""

from __future__ import annotations

import contextlib
import posixpath
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from devkit import output
from devkit.cli.live_crashes import of_app
from devkit.crashes.model import KILLED, SIGNAL
from devkit.errors import DevkitError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.crashes import Crash
    from devkit.device import Device
    from devkit.logcat.record import Record
    from devkit.runtime import PreparedApp

# Linux' numbers: SIGILL TRAP ABRT BUS FPE SEGV SYS leave a dump; for memory it is SIGKILL.
_DUMPED = {128 + number for number in (4, 5, 6, 7, 8, 11, 31)}
_KILLED = 128 + 9
_DUMP_WITHIN_S = 3.0
_PAUSE_S = 0.3
_READ_WITHIN_S = 20.0
_LAST_BYTES = 4096
# The phone tells whole seconds, and its clock runs on while it is asked.
_SLACK_S = 3


class RunCrashes:
    """Watches one run, as a context; at its end everything that was found has been shown.

    Attributes:
        exit_code: set it when the program has ended; None: it was given up.
    """

    def __init__(self, config: Config, device: Device, prepared: PreparedApp) -> None:
        self._device = device
        self._program = posixpath.basename(prepared.plan.program)
        self._began = time.monotonic()
        self._live = of_app(config, prepared)
        self._last_lines = b""
        self.logged = self._live.logged
        self.exit_code: int | None = None

    def output(self, data: bytes, stderr: bool = False) -> None:
        """Bytes of the program."""
        self._live.output(data, stderr)
        # On a terminal both streams are one.
        self._last_lines = (self._last_lines + data)[-_LAST_BYTES:]

    def __enter__(self) -> RunCrashes:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._live.finish()
            told = any(crash.frames for crash in self._live.found)
            if self.exit_code in _DUMPED and not told:
                self._show_dump("crash", lambda found: any(c.frames for c in found))
            elif self.exit_code == _KILLED and not self._live.found:
                self._show_dump("main,system,crash", bool, within_s=0)
        except DevkitError as error:
            output.current().detail(f"the phone's log was not read: {error.what}")
        finally:
            self._live.close()

    def as_list(self) -> list[dict[str, Any]]:
        """All crashes, as `devkit symbolize --json` has them."""
        return self._live.as_list()

    def _show_dump(
        self, buffers: str, enough: Callable[[list[Crash]], bool], within_s: float = _DUMP_WITHIN_S
    ) -> None:
        """The dump may be written a moment after the program's end."""
        from devkit.crashes.live import crashes_in, last_words_in

        deadline = time.monotonic() + within_s
        while True:
            entries = self._read(buffers.split(","))
            found = [crash for crash in crashes_in(entries) if self._is_mine(crash)]
            if enough(found) or time.monotonic() >= deadline:
                break
            time.sleep(_PAUSE_S)
        for crash in found[-1:]:
            if crash.signal == "SIGABRT" and crash.abort_message is None:
                crash.abort_message = last_words_in(self._last_lines.decode("utf-8", "replace"))
            self._live.tell(crash)

    def _read(self, buffers: Sequence[str]) -> list[Record]:
        from devkit.logcat.follow import Follower
        from devkit.logcat.reading import Entries
        from devkit.logcat.source import PhoneLog

        source = PhoneLog(self._device, buffers, ends=True)
        now_ns = source.look().now_ns
        ran_s = time.monotonic() - self._began + _SLACK_S
        since_ns = now_ns - int(ran_s * 1e9) if now_ns else None
        follower = Follower(source, Entries(), since_ns=since_ns, ends=True)
        found: list[Record] = []
        deadline = time.monotonic() + _READ_WITHIN_S
        with contextlib.closing(follower.batches()) as batches:
            for records, _ in batches:
                found += records
                if follower.breaks or time.monotonic() > deadline:
                    break  # it would wait for a phone that has gone
        return found

    def _is_mine(self, crash: Crash) -> bool:
        if crash.kind not in (SIGNAL, KILLED):
            return False
        name = (crash.process or "").partition(" ")[0]
        return posixpath.basename(name)[:15] == self._program[:15]
