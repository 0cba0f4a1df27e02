"""What the end-to-end tests share besides fixtures."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import adbutils
import pytest

from devkit.device import AdbServer, Device
from devkit.sim import Phone, start_phone

REPO = Path(__file__).parents[2]
# The wheel's own, whatever adb this machine has on its PATH.
WHEEL_ADB = Path(adbutils.__file__).parent / "binaries" / "adb"


@dataclass(frozen=True)
class Sim:
    """A running virtual phone, and the state folder in which devkit finds it as sim:NAME."""

    phone: Phone
    state_home: Path

    @property
    def name(self) -> str:
        return self.phone.record.name

    def device(self) -> Device:
        """A fresh Device: nothing is cached from another test."""
        record = self.phone.record
        assert record.adb_host is not None and record.adb_port is not None
        return Device(record.serial, AdbServer(record.adb_host, record.adb_port, "sim", record.name))


def start_sim(name: str, base: Path, adb: Path, **options: Any) -> Sim:
    """Start a phone whose state is below `base`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(base))
        return Sim(start_phone(name, adb=adb, lifeline=True, **options), base)


@dataclass(frozen=True)
class TinyApp:
    """A program and a library of its own, built with the host's compiler."""

    folder: Path
    program: Path
    library: Path


@dataclass(frozen=True)
class Ran:
    """How a devkit command line ended."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


Cli = Callable[..., Ran]


def eventually(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Whether the condition becomes true in time."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


# How the shell text of a look at the phone begins (devkit/device/survey.py).
LOOK = "report() {"


def left_on_phone(device: Device, *names: str) -> list[str]:
    """Processes on the phone whose command line holds one of the names.

    Not the shell of a look at the phone: mksh sleeps a second before it ends when nobody listens any more.
    """
    lines = [" ".join(entry.cmdline) for entry in device.list_processes()]
    return [
        line
        for line in lines
        if any(name in line for name in names) and "/proc/" not in line and LOOK not in line
    ]
