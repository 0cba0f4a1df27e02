"""The reports that the virtual phone writes, file and log, are read back: another hand wrote that writer."""

from __future__ import annotations

import dataclasses

import pytest

from devkit.crashes import Crash, cause_of, read_crashes
from devkit.sim.crashes import report
from devkit.sim.crashes.registers import AARCH64
from devkit.sim.crashes.signals import SignalInfo
from devkit.sim.crashes.unwind import Frame

LIBRARY = "/data/local/tmp/dev kit/libllm.so"
FRAMES = [
    Frame(0x4CC, LIBRARY, "kit::prefill(kit::Step*, int)", 8, "f98650f6560e12a2"),
    Frame(0x514, LIBRARY, "kit::decode(kit::Step*)", 48, ""),
    Frame(0x10, "<anonymous:7f00>", "", 0, ""),
]
SEGV = SignalInfo(11, 1, 0x18, None, 0)
HEADER = "05-14 10:22:31.402 12345 12361 F libc    : "
WRITTEN = report.Crash(
    api_level=34,
    fingerprint="example/phone_a/phone_a:14/AAAA.240101.001/1:user/release-keys",
    revision="0",
    processor=AARCH64,
    timestamp="2026-05-14 10:22:31.171234567+0800",
    uptime_s=3,
    command_line=["./llm_demo", "config.json"],
    pid=12345,
    uid=2000,
    signal=SEGV,
    abort_message="",
    threads=[
        report.ThreadReport(12361, "pool (2)", {0: 1}, FRAMES),
        report.ThreadReport(12345, "main", {}, FRAMES[1:]),
    ],
    cause="null pointer dereference",
    maps=[report.MapLine(0x1000, 0x3000, "r-x", 0x2000, LIBRARY, "f98650f6560e12a2", 0)],
    open_files={3: "/data/local/tmp/x"},
)


def read(lines: list[str]) -> Crash:
    (crash,) = read_crashes(lines).crashes
    return crash


@pytest.mark.parametrize("api_level", [23, 26, 28, 30, 33, 34, 35])
@pytest.mark.parametrize("where", ["file", "log"])
def test_each_release(api_level: int, where: str) -> None:
    written = dataclasses.replace(WRITTEN, api_level=api_level)
    fatal = HEADER + report.fatal_line(SEGV, 12345, 12361, ("pool (2)", "llm_demo"))
    if where == "log":
        head = "05-14 10:22:31.500 12400 12400 F DEBUG   : "
        crash = read([fatal, *(head + line for line, logged in report.lines_of(written) if logged)])
        assert crash.dumper == 12400
    else:
        # The tombstone ends with the log, which has the line that announced it.
        written = dataclasses.replace(written, logs={"main": [fatal]})
        crash = read([line for line, _ in report.lines_of(written)])
        assert [stack.title for stack in crash.stacks] == ["backtrace", "thread 12345 (main)"]
        assert len(crash.stacks[1].frames) == 2
    assert (crash.pid, crash.tid, crash.thread, crash.process) == (12345, 12361, "pool (2)", "./llm_demo")
    assert (crash.signal, crash.code, crash.fault_address) == ("SIGSEGV", "SEGV_MAPERR", "0x18")
    assert crash.abi == "arm64" and cause_of(crash).kind == "null pointer"
    assert [(f.pc, f.module, f.function) for f in crash.frames] == [
        (frame.pc, frame.file, frame.function or None) for frame in FRAMES
    ]
    assert crash.frames[0].function_offset == 8


def test_an_abort_with_a_message_of_two_lines() -> None:
    abort = SignalInfo(6, -6, None, None, 0)
    written = dataclasses.replace(WRITTEN, signal=abort, abort_message="it's\nover", cause="")
    crash = read([line for line, _ in report.lines_of(written)])
    assert (crash.signal, crash.fault_address, crash.abort_message) == ("SIGABRT", None, "it's\nover")
    assert len(crash.frames) == 3


def test_a_signal_that_another_process_sent() -> None:
    sent = SignalInfo(11, 0, None, (777, 2000), 0)
    fatal = HEADER + report.fatal_line(sent, 12345, 12361, ("pool (2)", "llm_demo"))
    crash = read([fatal])
    assert (crash.signal, crash.pid, crash.tid, crash.process) == ("SIGSEGV", 12345, 12361, "llm_demo")
