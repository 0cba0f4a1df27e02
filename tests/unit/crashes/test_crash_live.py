"""Crashes in what is still being written: found whole, told once, and no line waits."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devkit.crashes import Crash
from devkit.crashes.live import CrashWatch
from devkit.logcat.layouts import TextParser
from devkit.logcat.record import Record

CASES = Path(__file__).parents[2] / "data/cases"
LONG_S = 60.0
REPORT = b"""\
=================================================================
==77==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1 at pc 0x2 bp 0x3 sp 0x4
READ of size 4 at 0x1 thread T0
    #0 0x5566bee1738b  (/data/local/tmp/x/libMNN.so+0x238b)
    #1 0x5566bee173e4  (/data/local/tmp/x/libMNN.so+0x23e4)
==77==ABORTING
"""


def records(name: str) -> list[Record]:
    parser = TextParser()
    items = parser.feed((CASES / name).read_bytes())
    return [item for item in [*items, *parser.finish()] if isinstance(item, Record)]


def eventually(condition: Callable[[], object]) -> bool:
    deadline = time.monotonic() + LONG_S
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return bool(condition())


def test_a_report_in_pieces_of_any_size() -> None:
    for size in (1, 7, 64, 4096):
        told: list[Crash] = []
        watch = CrashWatch(told.append, quiet_s=LONG_S)
        data = b"before\n" + REPORT + b"after\n"
        for at in range(0, len(data), size):
            watch.text(data[at : at + size], "stderr")
        watch.close()
        [crash] = told
        assert (crash.pid, crash.what, len(crash.frames)) == (77, "heap-buffer-overflow", 2)


def test_it_is_told_while_the_program_goes_on() -> None:
    told: list[Crash] = []
    watch = CrashWatch(told.append, quiet_s=0.05)
    watch.text(REPORT, "stderr")
    assert eventually(lambda: told)
    watch.text(b"still here\n", "stdout")
    watch.text(REPORT.replace(b"77", b"78"), "stderr")
    assert eventually(lambda: len(told) == 2)
    watch.close()
    assert [crash.pid for crash in told] == [77, 78]


def test_lines_do_not_wait_for_who_is_told() -> None:
    told, go_on = threading.Event(), threading.Event()

    def slow(crash: Crash) -> None:
        told.set()
        assert go_on.wait(LONG_S)

    watch = CrashWatch(slow, quiet_s=0.01)
    watch.text(REPORT, "stderr")
    assert told.wait(LONG_S)
    for _ in range(1000):
        watch.text(b"a line\n", "stdout")  # returns though nobody has been told yet
    go_on.set()
    watch.close()


def test_the_log_of_two_crashes_and_the_same_again() -> None:
    told: list[Crash] = []
    watch = CrashWatch(told.append, quiet_s=LONG_S)
    entries = records("I8/two_crashes_interleaved.txt")
    for entry in entries:
        watch.records([entry])
    watch.close()
    assert [crash.dumper for crash in told] == [12370, 12380]
    again = CrashWatch(told.append, quiet_s=0.01)
    again.records(entries)
    assert eventually(lambda: len(told) == 4)
    again.records(entries)  # as another buffer has them
    again.close()
    assert len(told) == 4


def test_words_before_the_crash_are_known() -> None:
    told: list[Crash] = []
    watch = CrashWatch(told.append, quiet_s=LONG_S)
    entries = records("I6/logcat.txt")
    for entry in entries:
        watch.records([entry])
    watch.close()
    assert len(told) == 6 and all(crash.abort_message for crash in told)


def test_an_announcement_waits_for_its_dump(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[Crash] = []
    entries = records("I1/logcat.txt")
    watch = CrashWatch(told.append, quiet_s=0.01)
    fatal = next(i for i, entry in enumerate(entries) if b"Fatal signal" in entry.message) + 1
    watch.records(entries[:fatal])
    seen = threading.Event()
    assert not seen.wait(0.3) and not told  # longer than the quiet of a crash that is whole
    watch.records(entries[fatal:])
    watch.close()
    [crash] = told
    assert crash.signal == "SIGSEGV" and len(crash.frames) == 5 and crash.when is not None


def test_an_error_in_a_loop_is_told_once() -> None:
    told: list[Crash] = []
    watch = CrashWatch(told.append, quiet_s=LONG_S)
    for line in (7, 7, 8, 7):
        watch.text(b"/d/a.c:%d:3: runtime error: signed integer overflow: 1 + 2\n" % line, "stderr")
    watch.close()
    assert [crash.frames[0].locations[0].line for crash in told] == [7, 8]


def test_what_is_no_crash_starts_nothing() -> None:
    watch = CrashWatch(lambda crash: pytest.fail(f"told {crash}"))
    threads = threading.active_count()
    for number in range(5000):
        watch.text(b"%d: a line of no interest\n" % number, "stdout")
        watch.records([Record(number, "main", 0, 1, 1, 4, b"MNNJNI", b"nothing")])
    assert threading.active_count() == threads
    watch.text(b"a line without an end" * 100_000, "stdout")
    watch.close()
