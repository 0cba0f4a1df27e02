"""Faults that happen in adbd, as the supervisor's file says: refused and hanging services, wrong bytes.

The file is read when adbd starts and whenever the link says that it has changed.
"""

from __future__ import annotations

import json
import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Protocol

from devkit.sim.adbd.control import POWER_PROPERTY, set_property
from devkit.sim.adbd.hostile import Ballast, HostileThings
from devkit.sim.adbd.log import log

FAULTS_FILE = "faults.json"
ENDLESS_LINE = "and so on"
_WATCH_PAUSE_S = 0.1
_REBOOT_PAUSE_S = 0.1

Buffer = bytes | bytearray | memoryview


@dataclass(frozen=True)
class Places:
    """Where things are on this phone.

    Args:
        control: the folder with FAULTS_FILE.
        data: the folder that programs may write.
        properties: the folder of changed properties.
        clock_library: what programs preload while the clock is wrong, None where ld.so knows by itself.
    """

    control: Path = Path("/dev/.devkit")
    data: Path = Path("/data/local/tmp")
    properties: Path = Path("/dev/__properties__/changed")
    clock_library: Path | None = None


class Sender(Protocol):
    """What a fault needs of a stream."""

    service: str

    @property
    def closed(self) -> bool:
        """Whether the peer has closed."""

    def send_now(self, data: Buffer) -> None:
        """Send a part of what is being written."""


class FaultBoard:
    """The faults in force. Asking it costs one look at an attribute when there are none."""

    def __init__(self, places: Places | None) -> None:
        self._places = places
        self._lock = threading.Condition()
        self._hang: Mapping[str, Any] | None = None
        self._corrupt: Mapping[str, Any] | None = None
        self._refuse: str | None = None
        self._endless: str | None = None
        self._extra_bytes = 0
        self._preload: Path | None = None
        self._sent: weakref.WeakKeyDictionary[Sender, int] = weakref.WeakKeyDictionary()
        self._passed = {"up": 0, "down": 0}
        self._ballast = Ballast()
        self._hostile = HostileThings()
        self.spoils_output = False
        self.spoils_input = False

    def refresh(self) -> str | None:
        """Read the file and do what it says; tells what could not be done."""
        if self._places is None:
            return None
        try:
            faults: dict[str, Any] = json.loads((self._places.control / FAULTS_FILE).read_bytes())
        except FileNotFoundError:
            faults = {}
        log(f"faults: {faults}")
        with self._lock:
            if faults.get("hang") != self._hang:
                self._sent.clear()
            if faults.get("corrupt") != self._corrupt:
                self._passed = {"up": 0, "down": 0}
            self._hang, self._corrupt = faults.get("hang"), faults.get("corrupt")
            self._refuse = faults.get("refuse", {}).get("service")
            self._endless = faults.get("endless", {}).get("service")
            self._preload = self._places.clock_library if "clock" in faults else None
            self._extra_bytes = faults.get("sizes", {}).get("by", 0)
            directions = (self._corrupt or {}).get("direction", "")
            self.spoils_output = self._hang is not None or directions in ("down", "both")
            self.spoils_input = directions in ("up", "both")
            self._lock.notify_all()
        try:
            self._hostile.appear("hostile" in faults, self._places.data, self._places.properties)
            self._ballast.fill(self._places.data, faults.get("disk-full", {}).get("leave"))
        except OSError as error:
            return str(error)
        if "reboot" in faults:
            # Not before the answer is out.
            threading.Timer(_REBOOT_PAUSE_S, _reboot, [faults["reboot"]["value"]]).start()
        return None

    def environment(self, usual: Mapping[str, str]) -> dict[str, str]:
        """What a program gets that is started now."""
        if self._preload is None:
            return dict(usual)
        libraries = [*filter(None, [usual.get("LD_PRELOAD")]), str(self._preload)]
        return {**usual, "LD_PRELOAD": ":".join(libraries)}

    def refuses(self, service: str) -> bool:
        """Whether this service is refused."""
        return self._refuse is not None and fnmatchcase(service, self._refuse)

    def changed(self, service: str) -> str:
        """The service that is really started: a program's may be one that never ends."""
        if self._endless is None or not fnmatchcase(service, self._endless):
            return service
        head, _, command = service.partition(":")
        if head.partition(",")[0] not in ("shell", "exec") or not command:
            return service
        # In a shell of its own: it may end with `exec` or `exit`.
        return f"{head}:({command}\n)\nexec yes '{ENDLESS_LINE}'"

    def sized(self, facts: os.stat_result) -> os.stat_result:
        """A file's facts with the size that is told of it."""
        if not self._extra_bytes or (facts.st_mode & 0o170000) != 0o100000:
            return facts
        fields = list(facts[:10])
        fields[6] = max(0, facts.st_size + self._extra_bytes)
        return os.stat_result(fields)

    def outgoing(self, stream: Sender, data: Buffer) -> Buffer:
        """What is sent in place of `data`; may take for ever."""
        data = self._hold(stream, data)
        corrupt = self._corrupt
        if corrupt is None or corrupt["direction"] == "up":
            return data
        return self._spoil(data, "down", corrupt["every"])

    def incoming(self, data: memoryview) -> memoryview:
        """What arrives in place of `data`."""
        corrupt = self._corrupt
        if corrupt is None or corrupt["direction"] == "down":
            return data
        return memoryview(self._spoil(data, "up", corrupt["every"]))

    def _spoil(self, data: Buffer, direction: str, every: int) -> Buffer:
        with self._lock:
            before = self._passed[direction]
            self._passed[direction] = before + len(data)
        first = every - 1 - before % every
        if first >= len(data):
            return data
        spoiled = bytearray(data)
        for position in range(first, len(spoiled), every):
            spoiled[position] ^= 0xFF
        return spoiled

    def _hold(self, stream: Sender, data: Buffer) -> Buffer:
        hang = self._hang
        if hang is None or not fnmatchcase(stream.service, hang["service"]):
            return data
        sent = self._sent.get(stream, 0)
        room = max(0, hang["after"] - sent)
        self._sent[stream] = sent + len(data)
        if len(data) <= room:
            return data
        if room:
            stream.send_now(data[:room])
        log(f"{stream.service[:200]!r} hangs after {sent + room} bytes")
        with self._lock:
            while self._hang is hang and not stream.closed:
                self._lock.wait(_WATCH_PAUSE_S)
        return data[room:]


def _reboot(value: str) -> None:
    set_property(POWER_PROPERTY, value)
    os._exit(0)
