"""`devkit run --logcat`: the program's own lines, from its first to its last, whoever else writes."""

from __future__ import annotations

import queue
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from devkit.cli.run_logcat import LogBeside
from devkit.errors import DeviceError
from devkit.logcat.follow import PhoneLook
from tests.support.log_entries import entry

PID = 4242


class Phone:
    """A device whose log is a queue; `log -t devkit …` writes into it."""

    serial = "phone"

    def __init__(self, *, refuses: bool = False) -> None:
        self.log: queue.Queue[bytes] = queue.Queue()
        self.refuses = refuses

    def shell(self, command: Sequence[str], *, timeout_s: float) -> None:
        self.log.put(entry(command[-1].encode(), tag=b"devkit", pid=9))


class Source:
    def __init__(self, device: Phone, *_: Any, **__: Any) -> None:
        self._device = device
        self.name = device.serial

    def look(self) -> PhoneLook:
        if self._device.refuses:
            raise DeviceError("the phone is offline")
        return PhoneLook("boot", 0)

    def open(self, start_ns: int | None) -> Source:
        return self

    exit_code: int | None = None
    complaint = ""
    event_tags: Mapping[int, bytes] = {}

    def read(self, timeout_s: float) -> bytes | None:
        try:
            return self._device.log.get(timeout=0.05)
        except queue.Empty:
            return b""

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def source(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devkit.logcat.source.PhoneLog", Source)


def start(phone: Phone, beside: LogBeside) -> None:
    """What the shell does that becomes the program."""
    words = re.search(r'"(run .*)"', beside.first)
    assert words is not None
    phone.log.put(entry(words[1].replace("$$", str(PID)).encode(), tag=b"devkit", pid=PID))


def test_only_its_own_lines(capfd: pytest.CaptureFixture[str]) -> None:
    phone = Phone()
    with LogBeside(phone) as beside:  # type: ignore[arg-type]
        phone.log.put(entry(b"of an older process with this number", pid=PID))
        start(phone, beside)
        phone.log.put(entry(b"mine 1", pid=PID) + entry(b"another's", pid=7) + entry(b"mine 2", pid=PID))
        report = [b"*** ***", b"pid: %d, tid: 1, name: x  >>> ./x <<<" % PID, b"    #00 pc 01"]
        phone.log.put(b"".join(entry(line, tag=b"DEBUG", pid=8, level=7) for line in report))
    said = capfd.readouterr()
    assert [line.split("  ")[-1] for line in said.err.splitlines()][:2] == ["mine 1", "mine 2"]
    assert "#00 pc 01" in said.err and "another's" not in said.err and "older" not in said.err
    assert said.out == "" and "warning" not in said.err
    assert beside.written().startswith(b"\nmine 1\nmine 2\n")


def test_what_cannot_be_read_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    with LogBeside(Phone(refuses=True)) as beside:  # type: ignore[arg-type]
        beside._thread.join(5)
    assert "could not be read: the phone is offline" in capfd.readouterr().err
    with LogBeside(Phone()):  # type: ignore[arg-type]
        pass
    assert "start was not found" in capfd.readouterr().err


def test_what_is_kept_is_bounded_and_the_end() -> None:
    phone = Phone()
    with LogBeside(phone) as beside:  # type: ignore[arg-type]
        start(phone, beside)
        for i in range(600):
            phone.log.put(entry(b"%04d" % i + b"x" * 3996, pid=PID))
    written = beside.written()
    assert len(written) < 1 << 21 and b"\n0599x" in written and b"\n0000x" not in written
