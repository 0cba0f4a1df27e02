"""The field cases of crash texts with their right values (tests/data/cases: I1, I3, I4, I6, I8, C5, K1)."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit.crashes import (
    Crash,
    Frame,
    KnownErrors,
    Reading,
    SymbolFolders,
    as_text,
    cause_of,
    own_frame,
    read_crashes,
    symbolize,
)
from devkit.crashes.model import KILLED, MATCH, MISMATCH, SIGNAL, UNKNOWN
from devkit.symbols import Symbolizer

CASES = Path(__file__).parents[2] / "data" / "cases"
SYMBOLS = CASES / "_symbols"


def expected(case: str) -> Any:
    return json.loads((CASES / case / "expected.json").read_text())


def read(*parts: str) -> Reading:
    return read_crashes(CASES.joinpath(*parts).read_text().splitlines())


@pytest.fixture(scope="module")
def folders() -> Iterator[SymbolFolders]:
    with SymbolFolders([SYMBOLS]) as found:
        yield found


def shown(frame: Frame) -> list[dict[str, str | None]]:
    return [{"function": location.function, "location": location.place} for location in frame.locations]


def check_lines(crash: Crash, symbols: dict[str, Any]) -> None:
    """Every frame whose pc the case lists has exactly its lines."""
    seen = set()
    for stack in crash.stacks:
        for frame in stack.frames:
            assert frame.pc is not None
            if frame.library == "libllm.so" and hex(frame.pc) in symbols:
                assert shown(frame) == symbols[hex(frame.pc)]
                seen.add(hex(frame.pc))
    assert seen == set(symbols)


def test_i1_a_tombstone_in_the_log(folders: SymbolFolders) -> None:
    right = expected("I1")
    reading = read("I1", "logcat.txt")
    (crash,) = reading.crashes
    assert f"{crash.signal} {crash.code}" == right["signal"]
    assert crash.fault_address == right["fault_addr"]
    assert crash.printed_cause == right["cause"]
    assert (crash.process, crash.pid, crash.tid, crash.thread) == ("./llm_demo", 12345, 12361, "llm_demo")
    assert crash.tombstone == right["tombstone"]
    assert len(crash.frames) == right["frames"]
    symbolize([crash], folders, Symbolizer())
    check_lines(crash, right["symbols"])
    assert [frame.verdict for frame in crash.frames] == [MATCH, MATCH, MATCH, UNKNOWN, UNKNOWN]
    # What has no file here stays as printed.
    assert [frame.function for frame in crash.frames[3:]] == ["main", "__libc_init"]
    assert not crash.frames[3].locations and not crash.frames[4].locations
    found = own_frame(crash)
    assert found is not None and found[1] is not None
    assert found[1].function == "kit::take(int*, int)"
    text = as_text(reading, [], [])
    first = text.splitlines()[0]
    assert first == "SIGSEGV (SEGV_MAPERR) at 0x0 in ./llm_demo, thread llm_demo (pid 12345, tid 12361)"
    assert "kit::take(int*, int) at /home/src/fixture.cpp:7:12 (inlined into kit::prefill" in text
    assert "/data/tombstones/tombstone_07" in text


def test_i3_libraries_inside_an_apk() -> None:
    right = expected("I3")
    (crash,) = read("I3", "logcat.txt").crashes
    with SymbolFolders([SYMBOLS, CASES / "I3" / "base.apk"]) as folders:
        symbolize([crash], folders, Symbolizer())
    names = [
        None if text is None else text.split()[0].removesuffix(",") for text in right["library_of_frame"]
    ]
    assert [frame.library for frame in crash.frames] == names
    check_lines(crash, right["symbols"])
    other = crash.frames[3]
    assert other.verdict == UNKNOWN and other.offset == int(right["apk"]["lib/arm64-v8a/libother.so"], 16)
    assert [location.function for location in other.locations] == [
        "kit::take(int*, int)",
        "kit::prefill(kit::Step*, int)",
    ]
    assert crash.frames[4].function == "art_quick_generic_jni_trampoline"
    assert crash.frames[5].function == "com.example.chat.Llm.run" and crash.frames[5].verdict is None
    assert crash.frames[7].module == "<unknown>"
    assert crash.frames[8].module == "/memfd:jit-cache (deleted)" and crash.frames[8].offset == 0x2000000


def test_i3_without_the_apk_build_ids_are_enough(folders: SymbolFolders) -> None:
    (crash,) = read("I3", "logcat.txt").crashes
    symbolize([crash], folders, Symbolizer())
    assert [bool(frame.locations) for frame in crash.frames[:4]] == [True, True, True, False]
    assert crash.frames[3].note == "which library of the APK it is, only the APK tells"


@pytest.mark.parametrize("name", ["console_new.txt", "console_old.txt", "wrap_sh_logcat.txt"])
def test_i4_reports_of_asan(name: str, folders: SymbolFolders) -> None:
    right = expected("I4")
    (crash,) = read("I4", name).crashes
    assert (crash.what, crash.access, crash.pid) == (right["kind"], right["access"], 12345)
    assert crash.fault_address == "0x4a10c20120"
    symbolize([crash], folders, Symbolizer())
    if name == "console_old.txt":
        # Addresses of old reports are return addresses minus one, and no build-id proves the file.
        assert [frame.pc for frame in crash.frames[:3]] == [0x4CF, 0x517, 0x563]
        lines = list(right["symbols"].values())
        assert [shown(frame) for frame in crash.frames[:3]] == lines
        assert {frame.verdict for frame in crash.frames} == {UNKNOWN}
        return
    assert [stack.title for stack in crash.stacks] == right["stacks"]
    assert [len(stack.frames) for stack in crash.stacks] == [3, 2]
    check_lines(crash, right["symbols"])
    # The allocation's frames print the build-id that the access's may lack.
    assert {frame.verdict for frame in crash.frames} == {MATCH}
    assert shown(crash.stacks[1].frames[1]) == right["symbols"]["0x560"]
    assert crash.details == [
        "0x004a10c20120 is located 40 bytes after 40-byte region [0x004a10c200d0,0x004a10c200f8)"
    ]


def test_i6_abort_messages(folders: SymbolFolders) -> None:
    right = expected("I6")
    crashes = read("I6", "logcat.txt").crashes
    assert len(crashes) == right["crashes"]
    assert [crash.abort_message for crash in crashes] == right["abort_messages"]
    assert [cause_of(crash).kind for crash in crashes] == right["class"]
    symbolize(crashes, folders, Symbolizer())
    for crash in crashes:
        found = own_frame(crash)
        assert found is not None and found[1] is not None and found[1].function == "kit::decode(kit::Step*)"


def test_i6_the_reason_is_under_another_tag_when_the_dump_is_not_there() -> None:
    lines = (CASES / "I6" / "logcat.txt").read_text().splitlines()
    crashes = read_crashes(line for line in lines if " DEBUG " not in line).crashes
    assert [crash.abort_message for crash in crashes] == expected("I6")["abort_messages"]


def test_i8_the_fatal_line_alone() -> None:
    reading = read("I8", "only_fatal_line.txt")
    (crash,) = reading.crashes
    assert (crash.signal, crash.code, crash.fault_address) == ("SIGSEGV", "SEGV_MAPERR", "0x10")
    assert (crash.process, crash.pid, crash.thread, crash.tid) == (
        "mple.chat",
        12345,
        "HeapTaskDaemon",
        12361,
    )
    assert crash.stacks == []
    text = as_text(reading, [], [])
    for words in ("/data/tombstones", "root", "adb bugreport", "logcat -d -b crash"):
        assert words in text


def test_i8_killed_for_memory_is_no_crash() -> None:
    reading = read("I8", "oom.txt")
    (crash,) = reading.crashes
    assert (crash.kind, crash.pid, crash.what) == (KILLED, 12345, "5.0 GiB")
    assert cause_of(crash).kind == "killed by the low-memory killer"
    assert crash.others == ["com.example.storage (pid 10280), 40 MiB"]
    assert "com.example.storage" in as_text(reading, [], [])


def test_i8_killed_says_the_console() -> None:
    reading = read("I8", "console_killed.txt")
    (crash,) = reading.crashes
    assert (crash.kind, crash.signal) == (KILLED, "SIGKILL")
    assert "137" in as_text(reading, [], []) and "lowmemorykiller" in as_text(reading, [], [])


def test_i8_two_dumps_at_a_time(folders: SymbolFolders) -> None:
    crashes = read("I8", "two_crashes_interleaved.txt").crashes
    assert [crash.dumper for crash in crashes] == [12370, 12380]
    assert [(crash.pid, crash.process) for crash in crashes] == [(12345, "./llm_demo"), (22345, "./other")]
    symbolize(crashes, folders, Symbolizer())
    names = [[frame.locations[-1].function for frame in crash.frames] for crash in crashes]
    assert names[1] == ["kit_run", "kit::decode(kit::Step*)", "kit::prefill(kit::Step*, int)"]
    assert names[0] == names[1][::-1]


def test_c5_messages_of_the_linker() -> None:
    known = KnownErrors()
    reading = read_crashes((CASES / "C5" / "linker.txt").read_text().splitlines(), known.take)
    assert reading.crashes == []
    right = expected("C5")
    found = known.found()
    assert [finding.kind for finding in found] == [entry["kind"] for entry in right]
    text = as_text(reading, found, [])
    assert "no crash in 6 lines" in text and "devkit deploy APP" in text and "{" not in text
    for finding, entry in zip(found, right, strict=True):
        for name in ("library", "user", "symbol"):
            if name in entry:
                assert finding.values[name] == entry[name]


def test_k1_the_first_error_is_the_cause() -> None:
    known = KnownErrors()
    read_crashes((CASES / "K1" / "run.log").read_text().splitlines(), known.take)
    first = known.found()[0]
    assert first.kind == "qnn-mixed-versions" and first.values["expected"].startswith("v2.42.0.")


def test_a_file_of_another_build_gives_no_line() -> None:
    text = (CASES / "I1" / "logcat.txt").read_text().replace("f98650f6560e12a2bf", "a" * 18)
    (crash,) = read_crashes(text.splitlines()).crashes
    with SymbolFolders([SYMBOLS]) as folders:
        symbolize([crash], folders, Symbolizer())
    assert all(not frame.locations for frame in crash.frames)
    assert [frame.verdict for frame in crash.frames[:3]] == [MISMATCH] * 3
    assert "f98650f6560e12a2bf" in (crash.frames[0].note or "")
    shown_text = as_text(Reading([crash]), [], [])
    assert "BUILD-ID MISMATCH" in shown_text and "devkit deploy APP" in shown_text


def test_the_stripped_file_alone_names_exported_functions() -> None:
    (crash,) = read("I1", "logcat.txt").crashes
    with SymbolFolders([SYMBOLS / "libllm.stripped.so"]) as folders:
        symbolize([crash], folders, Symbolizer())
    assert [frame.verdict for frame in crash.frames[:3]] == [MATCH] * 3
    assert crash.frames[2].locations[0].function == "kit_run" and crash.frames[2].locations[0].line is None
    assert crash.kind == SIGNAL


def test_names_that_lldb_shows_without_a_line_are_found(folders: SymbolFolders) -> None:
    """Above the first frame LLDB shows return addresses, as it shows registers: the call is before them."""
    lines = [
        "* thread #3, name = 'worker', stop reason = signal SIGSEGV: address not mapped to object",
        "  * frame #0: 0x0000007a12345514 libllm.so`kit::decode(kit::Step*) + 48",
        "    frame #1: 0x0000007a12345564 libllm.so`kit_run + 16",
        "    frame #2: 0x0000007b12345000 libc.so`__libc_init + 104",
    ]
    (crash,) = read_crashes(lines).crashes
    assert (crash.signal, crash.thread) == ("SIGSEGV", "worker")
    symbolize([crash], folders, Symbolizer())
    right = expected("I1")["symbols"]
    assert [shown(frame) for frame in crash.frames[:2]] == [right["0x514"], right["0x560"]]
    assert [frame.verdict for frame in crash.frames[:2]] == [UNKNOWN, UNKNOWN]
