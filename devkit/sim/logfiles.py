"""What a running phone's processes have written, in one order."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from devkit.sim import state

# Name → file in the phone's folder.
_FILES = {"supervisor": "supervisor.log", "adbd": "adbd.log", "adb-server": "android/adb-server.log"}
_STAMP = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d+)?")
_LOOK_EVERY_S = 0.2


@dataclass(frozen=True)
class LogEntry:
    """A line; `source` says whose. `stamp` is the time it begins with, or that of the line before."""

    source: str
    stamp: str
    text: str


def read_logs(name: str) -> list[LogEntry]:
    """All entries of a running phone, oldest first.

    Raises:
        SimError: there is no such phone.
    """
    readers = _readers(name)
    return _merge([entry for reader in readers for entry in reader.read()])


def follow_logs(name: str, last: int | None = None) -> Iterator[LogEntry]:
    """All entries, or only so many of the last ones, then new ones as they come, until the phone ends.

    Raises:
        SimError: there is no such phone.
    """
    readers = _readers(name)
    entries = _merge([entry for reader in readers for entry in reader.read()])
    yield from entries if last is None else entries[max(0, len(entries) - last) :]
    while True:
        alive = state.is_locked(name)
        yield from _merge([entry for reader in readers for entry in reader.read()])
        if not alive:
            return
        time.sleep(_LOOK_EVERY_S)


def _readers(name: str) -> list[_Reader]:
    state.check_name(name)
    if not state.is_locked(name):
        raise state.no_such_phone(name)
    folder = state.phone_dir(name)
    return [_Reader(source, folder / file) for source, file in _FILES.items()]


def _merge(entries: list[LogEntry]) -> list[LogEntry]:
    # Stable: lines without a stamp stay behind the one they belong to.
    return sorted(entries, key=lambda entry: entry.stamp)


class _Reader:
    """New lines of one file. It may not be there yet, and starts again when it has grown too long."""

    def __init__(self, source: str, path: Path) -> None:
        self._source = source
        self._path = path
        self._position = 0
        self._stamp = ""
        self._rest = b""

    def read(self) -> list[LogEntry]:
        try:
            with self._path.open("rb") as file:
                if file.seek(0, 2) < self._position:
                    self._position = 0
                file.seek(self._position)
                data = file.read()
                self._position = file.tell()
        except OSError:
            return []
        lines = (self._rest + data).split(b"\n")
        self._rest = lines.pop()
        entries = []
        for line in lines:
            text = line.decode("utf-8", "replace")
            # The adb server puts a letter for the severity and its name in front.
            match = _STAMP.search(text[:40])
            self._stamp = match[0] if match else self._stamp
            entries.append(LogEntry(self._source, self._stamp, text))
        return entries
