"""logcat on a phone: streams, a network phone that its adb server has forgotten, refusals to clear."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from devkit.device import ShellResult
from devkit.device.failures import DeviceNotReady
from devkit.errors import DeviceError, OperationTimeout
from devkit.logcat.follow import PhoneLook
from devkit.logcat.source import PhoneLog, clear, is_one


class Phone:
    """Answers `shell` with what it is given, in turn."""

    api_level = 34
    features = frozenset({"shell_v2"})

    def __init__(self, *answers: Any, serial: str = "192.0.2.7:5555", origin: str = "default") -> None:
        self.serial = serial
        self.server = SimpleNamespace(origin=origin)
        self.answers = list(answers)
        self.lines: list[str] = []

    def shell(self, command: Any, **_: Any) -> ShellResult:
        self.lines.append(command if isinstance(command, str) else " ".join(command))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ShellResult("", *answer)

    def open_shell(self, line: str, **_: Any) -> Any:
        self.lines.append(line)
        return self.answers.pop(0)


def gone() -> DeviceNotReady:
    error = DeviceNotReady("the phone is not connected")
    error.state = "not found"
    return error


LOOK = (0, b"6f1c-boot\n1700000000000\n\n1778754150\n", b"")


def test_boot_and_clock() -> None:
    look = PhoneLog(Phone(LOOK)).look()  # type: ignore[arg-type]
    assert look == PhoneLook("6f1c-boot 1700000000000", 1778754150 * 10**9)
    assert PhoneLog(Phone((0, b"", b""))).look() == PhoneLook("", 0)  # type: ignore[arg-type]


def test_a_network_phone_is_connected_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []
    monkeypatch.setattr(
        "devkit.device.network.bring_online", lambda server, address: connected.append(address)
    )
    assert PhoneLog(Phone(gone(), LOOK)).look().now_ns  # type: ignore[arg-type]
    assert connected == ["192.0.2.7:5555"]
    for other in (Phone(gone(), serial="ABC123"), Phone(gone(), origin="sim")):
        with pytest.raises(DeviceNotReady):
            PhoneLog(other).look()  # type: ignore[arg-type]
    assert len(connected) == 1


def test_names_of_events_are_asked_for_once_and_only_when_needed() -> None:
    phone = Phone(Stream(), Stream(), Stream())
    phone.read_bytes = lambda path: phone.lines.append(path) or b"30014 am_proc_start (User|1|5)"  # type: ignore[attr-defined,func-returns-value]
    log = PhoneLog(phone, ["events"])  # type: ignore[arg-type]
    log.open(None)
    log.open(None)
    assert log.event_tags == {30014: b"am_proc_start"}
    assert phone.lines.count("/system/etc/event-log-tags") == 1
    PhoneLog(phone, ["main"]).open(None)  # type: ignore[arg-type]
    assert phone.lines.count("/system/etc/event-log-tags") == 1


class Stream:
    def __init__(self, *chunks: Any) -> None:
        self.chunks = list(chunks)
        self.closed = False

    def close_stdin(self) -> None:
        pass

    def read(self, timeout_s: float) -> Any:
        chunk = self.chunks.pop(0)
        if isinstance(chunk, Exception):
            raise chunk
        return chunk

    def read_ready(self, timeout_s: float) -> Any:
        return [self.read(timeout_s)]

    def close(self) -> None:
        self.closed = True


def test_a_stream_tells_why_it_ended() -> None:
    stream = Stream(
        ("stdout", b"ab"), OperationTimeout("late"), ("stderr", b"logcat: "), ("stderr", b"no\n"), ("exit", 1)
    )
    phone = Phone(stream)
    log = PhoneLog(phone, ["main"]).open(1778754150 * 10**9)  # type: ignore[arg-type]
    assert phone.lines == ["export TZ=UTC; exec logcat -B -b main -T 1778754150.000000000"]
    assert [log.read(1) for _ in range(5)] == [b"ab", b"", b"", b"", None]
    assert (log.exit_code, log.complaint) == (1, "logcat: no")


def test_phones_without_shell_v2_keep_complaints_out_of_the_stream() -> None:
    phone = Phone(Stream())
    phone.features = frozenset()
    PhoneLog(phone, ["main"], ends=True).open(None)  # type: ignore[arg-type]
    assert phone.lines == ["export TZ=UTC; exec logcat -B -b main -d 2>/dev/null"]


@pytest.mark.parametrize(
    "answer", [(0, b"", b"failed to clear the 'radio' log\n"), (1, b"", b""), (0, b"failed\n", b"")]
)
def test_a_refusal_to_clear_is_said(answer: tuple[int, bytes, bytes]) -> None:
    with pytest.raises(DeviceError):
        clear(Phone(answer), ["radio"])  # type: ignore[arg-type]


def test_clearing() -> None:
    phone = Phone((0, b"", b""))
    clear(phone, ["main", "crash"])  # type: ignore[arg-type]
    assert phone.lines == ["logcat -b main -b crash -c"]


def test_names_of_one_buffer() -> None:
    assert is_one(["main"]) and is_one(["crash"])
    assert not is_one(["main", "system"]) and not is_one(["default"]) and not is_one(["all"])


def test_a_fast_log_is_given_time_to_gather(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []
    monkeypatch.setattr("devkit.logcat.source.time.sleep", waited.append)

    def waits(*sizes: int, ends: bool = False) -> list[bool]:
        """Before which pieces it waited."""
        stream = Stream(*(("stdout", b"x" * size) if size else OperationTimeout("late") for size in sizes))
        log = PhoneLog(Phone(stream), ["main"], ends=ends).open(None)  # type: ignore[arg-type]
        found = []
        for _ in sizes:
            waited.clear()
            log.read(1)
            found.append(bool(waited))
        return found

    small, some, large = 100, 10_000, 200_000
    assert waits(small, small, small) == [False] * 3
    assert waits(some, some, small, some) == [False, True, True, False]
    # Held up by its socket: the next large piece is there at once, and the one after that.
    assert waits(large, large, large) == [False] * 3
    # It was not: some more pieces are waited for before that is tried again.
    assert waits(large, some, *[large] * 21) == [False, False, True, *[True] * 19, False]
    assert waits(large, 0, large, large) == [False, False, False, True]
    assert waits(some, large, some, ends=True) == [False] * 3
