"""The phones behind the laptop's adb server, watched for as long as a tunnel is up."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from devkit.device.failures import ServerUnreachable
from devkit.device.listing import DeviceEntry, start_default_server
from devkit.device.servers import AdbServer
from devkit.device.tracking import Tracker
from devkit.errors import DevkitError

_PAUSE_S = 1.0
# Somebody who ends the adb server twice in a row may want it to stay ended for a moment.
_START_EVERY = 5


class PhoneWatch:
    """Follows an adb server in a thread of its own; use as a context manager.

    The server at the default address is started when nobody has, and says so; one at another address
    is waited for.

    Args:
        say: told what happens, a sentence each.
        changed: called after each change, from the thread.
    """

    def __init__(
        self,
        server: AdbServer,
        *,
        say: Callable[[str], None],
        changed: Callable[[], None],
        adb: Path | None = None,
        may_start: bool = True,
    ) -> None:
        self.server = server
        self.entries: tuple[DeviceEntry, ...] = ()
        self.problem: str | None = None
        self._say, self._changed, self._adb = say, changed, adb
        self._may_start = may_start
        self._seen: set[str] = set()
        self._tracker: Tracker | None = None
        self._ended = threading.Event()
        self._first = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True, name="phones")

    @property
    def is_up(self) -> bool:
        """Whether the adb server answers."""
        return self._tracker is not None and self.problem is None

    @property
    def serials(self) -> tuple[str, ...]:
        """The phones that can be used."""
        return tuple(entry.serial for entry in self.entries if entry.usable)

    def wait_first(self, timeout_s: float) -> bool:
        """Wait until the server has answered, or could not be reached."""
        return self._first.wait(timeout_s)

    def move(self, server: AdbServer) -> None:
        """Watch the server at another address from now on (the same one behind a new port)."""
        self.server = server
        tracker = self._tracker
        if tracker is not None:
            tracker.close()

    def __enter__(self) -> PhoneWatch:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ended.set()
        tracker = self._tracker
        if tracker is not None:
            tracker.close()
        self._thread.join(5)

    def _follow(self) -> None:
        attempt = 0
        while not self._ended.is_set():
            try:
                tracker = Tracker(self.server)
            except DevkitError as error:
                self._lost(error.what)
                self._start(error, attempt)
                self._first.set()
                attempt += 1
                self._ended.wait(_PAUSE_S)
                continue
            attempt = 0
            self._tracker = tracker
            if self.problem is not None:
                self._say(f"the adb server at {self.server.address} answers again")
            self.problem = None
            if self._ended.is_set():
                break
            for entries in tracker.reports():
                self._take(entries)
            tracker.close()
            if not self._ended.is_set():
                self._lost(f"the adb server at {self.server.address} went away")
        self._first.set()

    def _take(self, entries: list[DeviceEntry]) -> None:
        before = {entry.serial: entry.state for entry in self.entries}
        now = {entry.serial: entry.state for entry in entries}
        self.entries = tuple(entries)
        for serial in sorted(before.keys() | now.keys()):
            if serial not in now:
                self._say(f"the phone {serial} is gone (unplugged, or disconnected)")
            elif before.get(serial) != now[serial] and (serial in before or self._first.is_set()):
                here = "back" if serial in self._seen else "here"
                self._say(f"the phone {serial} is {here if now[serial] == 'device' else now[serial]}")
        self._seen |= {serial for serial, state in now.items() if state == "device"}
        self._first.set()
        self._changed()

    def _lost(self, problem: str) -> None:
        if self.problem is None and (self._first.is_set() or self._tracker):
            self._say(problem)
        self.problem = problem
        self.entries = ()
        self._changed()

    def _start(self, error: DevkitError, attempt: int) -> None:
        refused = isinstance(error, ServerUnreachable) and error.refused
        if not (refused and self.server.is_default and self._may_start and attempt % _START_EVERY == 0):
            return
        try:
            start_default_server(self.server, self._adb)
        except DevkitError as failure:
            self.problem = f"{failure.what} ({failure.evidence or 'no evidence'})"
            self._changed()
