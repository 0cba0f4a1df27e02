"""What a log says about an engine: real reports, neighbours of theirs, and logs that say nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.cli.main import run
from devkit.logcat.binary import BinaryParser
from devkit.logcat.record import ERROR, INFO, Record
from devkit.qnn.log_events import MAX_EVENTS, Event, EventReader

CASES = Path(__file__).parents[2] / "data" / "cases"
BEGAN_NS = 1778754150 * 10**9


def record(
    text: str, *, tag: str = "MNNJNI", pid: int = 100, at_s: float = 0.0, level: int = ERROR
) -> Record:
    return Record(BEGAN_NS + int(at_s * 10**9), "main", 2000, pid, pid, level, tag.encode(), text.encode())


def events(*records: Record) -> list[Event]:
    reader = EventReader()
    for one in records:
        reader.take(one)
    return reader.events()


Found = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def of_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Found:
    """What `devkit logcat --events --json --file` tells."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))

    def told(path: Path, *words: str) -> list[dict[str, Any]]:
        assert run(["logcat", "--events", "--json", "--file", str(path), *words]) == 0
        rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
        (found,) = [row["events"] for row in rows if "events" in row]
        assert isinstance(found, list)
        return found

    return told


def test_the_first_line_of_qnn_decides(of_file: Found) -> None:
    """Case K1."""
    expected = json.loads((CASES / "K1" / "expected.json").read_text())
    (event,) = of_file(CASES / "K1" / "run.log")
    stub, library = event["meaning"].split(", ", 1)
    assert stub.removeprefix("the ") in expected["cause"] and "2.42.0" in library
    assert event["kind"] == "qnn-mixed-versions" and event["severity"] == "failed"
    assert len(event["following"]) == 4 and "14001" in event["following"][-1]
    assert any("LD_LIBRARY_PATH" in cause["text"] for cause in event["causes"])


def test_failures_of_two_processes_and_of_two_times_are_told_apart() -> None:
    mismatch = "<E> Stub lib id mismatch: expected (v2.42.0.1), detected (v2.25.17.2)"
    found = events(
        record(mismatch, pid=1),
        record("<E> Skel failed: 0x80000406", pid=2),
        record("<E> Transport layer setup failed: 14001", pid=1),
        record("<E> Transport layer setup failed: 14001", pid=2),
        record(mismatch, pid=1, at_s=60),
    )
    assert [(e.kind, e.pid, len(e.following)) for e in found] == [
        ("qnn-mixed-versions", 1, 1),
        ("qnn-skel-unreadable", 2, 1),
        ("qnn-mixed-versions", 1, 0),
    ]


def test_the_cpu_in_place_of_a_backend() -> None:
    found = events(
        record("Can't Find type=5 backend, use 0 instead"), record("Can't Find type=5 backend, use 0 instead")
    )
    assert [(e.category, e.severity, e.count) for e in found] == [("cpu", "failed", 2)]
    assert "CPU" in found[0].meaning


def test_heat() -> None:
    found = events(
        record("TM Id 'SKIN' Sensor 'xo_therm' - alarm raised 2 at 47.5 degC", tag="ThermalEngine"),
        record("TM Id 'SKIN' Sensor 'xo_therm' - alarm cleared 0 at 40.0 degC", tag="ThermalEngine"),
        record("ACTION: CPU - Setting CPU[4] to 1134000", tag="ThermalEngine"),
        record("ACTION: CPU - Setting CPU[4] to 960000", tag="ThermalEngine"),
        record("ACTION: CPU - Setting CPU[4] to 960000", tag="SomethingElse"),
        record(
            "onTemp Temperature{mValue=45.1, mType=3, mName=skin, mStatus=3}", tag="ThermalManagerService"
        ),
        record("Temperature{mValue=25.1, mType=3, mName=skin, mStatus=0}", tag="ThermalManagerService"),
        record("Temperature{type: SKIN, name: s, value: 41.0, throttlingStatus: LIGHT}", tag="thermal"),
        record("thermal thermal_zone3: cpu-0: critical temperature reached, shutting down", tag=""),
    )
    assert [(e.kind, e.count) for e in found] == [
        ("thermal-alarm", 1), ("thermal-limit", 2), ("thermal-status", 1), ("thermal-status", 1),
        ("thermal-shutdown", 1),
    ]  # fmt: skip
    assert "47.5" in found[0].meaning and "CPU[4] to 1134000" in found[1].meaning
    assert "cpu-0" in found[4].meaning


def test_the_way_to_the_dsp() -> None:
    text = "fastrpc_apps_user.c:1830: Error 0x8000054f: remote_handle64_open failed (errno No error)"
    (event,) = events(record(text, tag="adsprpc"))
    assert event.category == "dsp" and event.severity == "warning" and "0x8000054f" in event.meaning
    assert "FastRPC" in event.cause
    assert not events(record("fastrpc_apps_user.c:1845: closed module libx.so", tag="adsprpc", level=INFO))
    # After a failure of QNN it only follows.
    (first,) = events(record("<E> Skel failed: 0x80000406", tag="QnnDsp"), record(text, tag="adsprpc"))
    assert first.kind == "qnn-skel-unreadable" and first.following == [text]


def test_kills_and_crashes_of_real_reports(of_file: Found) -> None:
    (kill,) = of_file(CASES / "I8" / "oom.txt")
    assert kill["category"] == "killed" and kill["process"] == "llm_demo" and kill["pid"] == 12345
    (fatal,) = of_file(CASES / "I8" / "only_fatal_line.txt")
    assert fatal["category"] == "crash" and "SIGSEGV" in fatal["meaning"] and fatal["time"]
    both = of_file(CASES / "I8" / "two_crashes_interleaved.txt")
    assert [event["pid"] for event in both] == [12345, 22345]
    (word,) = of_file(CASES / "I8" / "console_killed.txt")
    assert word["category"] == "killed"


def test_filters_choose_whose_events(of_file: Found) -> None:
    path = CASES / "I8" / "two_crashes_interleaved.txt"
    found = of_file(path, "--app", "llm_demo")
    assert [event["pid"] for event in found] == [12345]
    assert of_file(path, "--until", "2000-01-01 00:00:00") == []


def test_other_programs_libraries_are_no_events() -> None:
    missing = 'library "libfoo.so" not found'
    assert not events(record(f"dlopen failed: {missing}", tag="linker"))
    ours = record('dlopen failed: library "libQnnHtp.so" not found', tag="linker")
    assert [e.category for e in events(ours)] == ["load"]


def test_the_number_of_events_is_bounded() -> None:
    reader = EventReader()
    for pid in range(MAX_EVENTS + 10):
        reader.take(record("Can't Find type=5 backend, use 0 instead", pid=pid))
    assert len(reader.events()) == MAX_EVENTS and reader.left_out == 10


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=200),
            st.sampled_from(
                [
                    b"Temperature{",
                    b"Error 0x",
                    b"alarm raised",
                    b"Fatal signal 11",
                    b"Kill '",
                    b">>> <<<",
                    b"1008",
                ]
            ),
        ),
        max_size=12,
    )
)
def test_any_bytes(parts: list[bytes]) -> None:
    reader = EventReader()
    for tag in (b"adsprpc", b"ThermalEngine", b"DEBUG", b""):
        reader.take(Record(None, "", None, 1, 1, 6, tag, b" ".join(parts)))
        reader.take_line(b"".join(parts))
    json.dumps([event.as_dict() for event in reader.events()])


def test_long_lines_take_no_time() -> None:
    reader = EventReader()
    began = time.process_time()
    for text in (
        "Temperature{" * 400,
        "Error 0x" + "f" * 4000,
        "Sensor '" * 500 + "alarm raised",
        "x" * 4000,
    ):
        for tag in (b"adsprpc", b"ThermalEngine", b"linker"):
            reader.take(Record(BEGAN_NS, "main", 0, 1, 1, 6, tag, text.encode()))
    assert time.process_time() - began < 5


def test_a_binary_log_is_read_too(tmp_path: Path, of_file: Found) -> None:
    from tests.support.log_entries import entry

    data = entry(b"Can't Find type=5 backend, use 0 instead") + entry(b"nothing")
    assert len(BinaryParser().feed(data)) == 2
    (tmp_path / "log.bin").write_bytes(data)
    (event,) = of_file(tmp_path / "log.bin")
    assert event["category"] == "cpu" and event["tag"] == "MNNJNI"


@pytest.mark.parametrize("name", ["H1/threadtime.txt", "H3/studio_new.txt", "K7/ok.txt"])
def test_logs_that_say_nothing(name: str, of_file: Found) -> None:
    found = of_file(CASES / name)
    assert [event for event in found if event["category"] not in ("crash",)] == []
