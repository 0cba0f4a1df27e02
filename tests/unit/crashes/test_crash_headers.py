"""Headers of log lines: every layout of logcat, both of Android Studio, and their traps (H1, H3, H5)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devkit.crashes import Record, read_crashes, read_records

CASES = Path(__file__).parents[2] / "data" / "cases"
DUMP = [
    "*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***",
    "ABI: 'arm64'",
    "pid: 12345, tid: 12361, name: llm_demo  >>> ./llm_demo <<<",
    "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr 0x0000000000000010",
    "backtrace:",
    "      #00 pc 00000000000004cc  /data/local/tmp/devkit/libllm.so (kit::prefill(kit::Step*, int)+8)",
    "      #01 pc 0000000000000514  /data/local/tmp/devkit/libllm.so (kit::decode(kit::Step*)+48)",
]
OTHER = "noise: of (another) process"


def brief(level: str, tag: str, pid: int, text: str) -> str:
    return f"{level}/{tag:<8}({pid:>5}): {text}"


# How liblog prints a record (logprint.cpp), by the names of `logcat -v`; pids of two processes.
LAYOUTS = {
    "brief": brief,
    "time": lambda lv, tag, pid, text: f"05-14 10:22:31.402 {brief(lv, tag, pid, text)}",
    "threadtime": lambda lv, tag, pid, text: f"05-14 10:22:31.402 {pid:>5} {pid:>5} {lv} {tag:<8}: {text}",
    "threadtime,uid": lambda lv, tag, pid, text: (
        f"05-14 10:22:31.402  shell {pid:>5} {pid:>5} {lv} {tag:<8}: {text}"
    ),
    "threadtime,uid number": lambda lv, tag, pid, text: (
        f"05-14 10:22:31.402  2000 {pid:>5} {pid:>5} {lv} {tag:<8}: {text}"
    ),
    "threadtime,year,zone,usec": lambda lv, tag, pid, text: (
        f"2026-05-14 10:22:31.402123 +0800 {pid:>5} {pid:>5} {lv} {tag:<8}: {text}"
    ),
    "threadtime,epoch": lambda lv, tag, pid, text: (
        f"         1778725351.402 {pid:>5} {pid:>5} {lv} {tag:<8}: {text}"
    ),
    "threadtime,color": lambda lv, tag, pid, text: (
        f"\x1b[38;5;196m05-14 10:22:31.402 {pid:>5} {pid:>5} {lv} {tag:<8}: {text}\x1b[0m"
    ),
    "process": lambda lv, tag, pid, text: f"{lv}({pid:>5}) {text}  ({tag})",
    "long": lambda lv, tag, pid, text: f"[ 05-14 10:22:31.402 {pid:>5}:{pid:>5} {lv}/{tag:<8} ]\n{text}\n",
    "studio old": lambda lv, tag, pid, text: (
        f"2026-05-14 10:22:31.402 {pid}-{pid}/? {'A' if lv == 'F' else lv}/{tag}: {text}"
    ),
    "studio new": lambda lv, tag, pid, text: (
        f"2026-05-14 10:22:31.402 {pid:>5}-{pid:<5} {tag:<23} {f'pid-{pid}':<36} "
        f"{'A' if lv == 'F' else lv}  {text}"
    ),
}


def records(*parts: str) -> list[Record]:
    return list(read_records(CASES.joinpath(*parts).read_text().splitlines()))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_dump_in_every_layout(layout: str) -> None:
    write = LAYOUTS[layout]
    lines: list[str] = []
    for number, text in enumerate(DUMP):
        lines += write("F", "DEBUG", 12370, text).split("\n")
        if number % 2:
            lines += write("I", "My Tag", 790, OTHER).split("\n")
    read = list(read_records(lines))
    assert [r.text for r in read if r.tag == "DEBUG" and r.pid == 12370 and r.level == "F"] == DUMP
    assert {r.text for r in read if r.pid == 790 and r.tag == "My Tag"} == {OTHER}
    (crash,) = read_crashes(lines).crashes
    assert (crash.pid, crash.dumper, crash.signal, crash.abi) == (12345, 12370, "SIGSEGV", "arm64")
    assert [frame.function for frame in crash.frames] == [
        "kit::prefill(kit::Step*, int)",
        "kit::decode(kit::Step*)",
    ]


@pytest.mark.parametrize("layout", ["tag", "raw", "thread"])
def test_layouts_that_do_not_say_who(layout: str) -> None:
    head = {"tag": "F/DEBUG   : ", "raw": "", "thread": "F(12370:0x3052) "}[layout]
    (crash,) = read_crashes([head + text for text in DUMP]).crashes
    assert (crash.pid, crash.signal, len(crash.frames)) == (12345, "SIGSEGV", 2)


def test_h1_traps_of_threadtime() -> None:
    read = records("H1", "threadtime.txt")
    right = json.loads((CASES / "H1" / "expected.json").read_text())
    headed = [r for r in read if r.level is not None]
    assert len(headed) == right["records"]
    assert [r.tag for r in headed] == [text.split(" (")[0] for text in right["tags"]]
    assert headed[2].text == "emu: main thread, ctx 0x7a"
    assert headed[5].text == "" and headed[6].text == "    indented text"
    assert [r.marker for r in read if r.marker] == right["markers"]
    assert right["pid_over_5_digits"] in [r.pid for r in headed]
    # What is no record is kept as it is.
    assert [r.text for r in read if r.level is None and not r.marker] == ["a line that is no record at all"]


def test_h3_copies_from_android_studio() -> None:
    old = records("H3", "studio_old.txt")
    assert len(old) == 5 and {r.level for r in old[:3]} == {"F"}
    assert (old[0].pid, old[0].tid, old[0].package) == (12345, 12361, "com.example.chat")
    assert old[1].tag == "DEBUG" and old[4].text == "uid=1000(system) sensors@1.0-ser identical 2 lines"
    (crash,) = read_crashes((CASES / "H3" / "studio_old.txt").read_text().splitlines()).crashes
    assert (crash.thread, crash.fault_address) == ("AsyncTask #1", "0x24")
    new = records("H3", "studio_new.txt")
    below = new[3]
    assert below.text == "second line of the same record" and below.tag == "MNN_DEBUG" and below.pid == 12345
    headed = [r for r in new if r.level is not None and r is not below]
    assert [r.pid for r in headed] == [12370, 12370, 12345, 495, 12345]
    assert [r.tag for r in headed] == ["DEBUG", "DEBUG", "MNN_DEBUG", "lowmemorykiller", "com.example.chat"]
    assert headed[2].package == "com.example.chat" and headed[4].text == "level E, tag equals package"
    assert new[-1].marker == "PROCESS ENDED (12345) for package com.example.chat"


def test_h5_lines_that_logd_left_out_are_counted() -> None:
    reading = read_crashes((CASES / "H5" / "chatty.txt").read_text().splitlines())
    assert (reading.folded, reading.expired) == (27, 12)


@pytest.mark.parametrize(
    "line", ["I/O error: broken pipe", "E/", "D(x) y", "F", "12:30 lunch", "[ 5 ]", "V/a"]
)
def test_what_only_looks_like_a_header_is_text(line: str) -> None:
    (record,) = read_records([line])
    assert record.level is None and record.text == line
