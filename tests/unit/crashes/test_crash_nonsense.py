"""Parsers meet anything: no exception, no lost line, and twice the text takes twice the time."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.crashes import Crash, KnownErrors, as_dict, as_text, read_crashes, read_records
from devkit.crashes.frames import parse_frame
from devkit.crashes.live import CrashWatch
from devkit.crashes.page import as_html

# Pieces of real lines in any order reach further into the parsers than random characters do.
PIECES = st.sampled_from(
    [
        "05-14 10:22:31.402 12370 12370 F DEBUG   : ", "2026-05-14 10:22:31.402 7-7/? A/",
        "F/DEBUG   (12370): ", "[ 05-14 10:22:31.402 7:7 F/DEBUG ]", "*** " * 16, "--- " * 16,
        "pid: 1, tid: 2, name: x  >>> y <<<", "signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr ",
        "0x", "--------", "backtrace:", "      #00 pc ", "00000000000004cc", "  /d/l.so", " (offset 0x",
        ")", " (f+", " (BuildId: ", "Abort message: '", "'", "Cause: ", "==1==ERROR: AddressSanitizer: ",
        "READ of size 4 at ", "allocated by thread T0 here:", "freed by thread 7:", "    #0 0x7a ",
        "(/d/l.so+0x", "in f ", "/a.c:1:2", ": runtime error: ", "Fatal signal 11 (SIGSEGV)", ", pid 7 (",
        " in tid ", "Kill 'x' (7), uid 2000", "Out of memory: Killed process 1 (", "Killed", "\n", " ", "(",
        "* thread #1, stop reason = signal ", "frame #0: 0x1 a`b + 1 at c:2", "./p(+0x1) [0x1]", "\x1b[0m",
        "\0", "٣", "WRITE of size 8 at 0x1 thread T3 (pool)", "Thread T3 (pool) created by T0 here:",
        "0x1 is located 7 bytes to the right of 456-byte region [0x1,0x2)", "thread T0", "==1==ABORTING",
        "Address 0x1 is located in stack of ", "[32, 96) 'w' (line 4) <== Memory access at",
        "  Previous read of size 4 at ", "Event: cpu-cycles:u (type 0, config 0)\n", "1%,/d/l.so,l.so[+4cc]",
        "Overhead,Shared Object,Symbol\n", "Overhead  Shared Object  Symbol\n", "sample 1:\n",
        "callchain:",
        "  vaddr_in_file: 4cc\n", "  symbol: f\n", "  what():  ",
        "terminate called after throwing an instance of 'x'\n",
    ]
)  # fmt: skip
TEXTS = st.lists(PIECES | st.text(max_size=12), max_size=60).map("".join)


def everything(text: str) -> None:
    known = KnownErrors()
    lines = text.split("\n")
    reading = read_crashes(lines, known.take)
    assert reading.lines <= len(lines)
    as_text(reading, known.found(), [])
    as_dict(reading, known.found(), [])


@settings(max_examples=300, deadline=None)
@given(TEXTS)
def test_pieces_of_reports_in_any_order(text: str) -> None:
    everything(text)


@settings(max_examples=50, deadline=None)
@given(TEXTS)
def test_as_a_page(text: str) -> None:
    page = as_html(read_crashes(text.split("\n")), [], [])
    assert page.count("<script") == 0 and page.endswith("</html>\n")


@settings(max_examples=100, deadline=None)
@given(TEXTS, st.integers(1, 200))
def test_in_pieces_while_it_is_written(text: str, size: int) -> None:
    """What is told is what reading it at the end finds; nothing twice."""
    told: list[Crash] = []
    watch = CrashWatch(told.append, quiet_s=60)
    data = text.encode("utf-8", "replace")
    for at in range(0, len(data), size):
        watch.text(data[at : at + size], "stderr")
    watch.close()
    lines = data.decode("utf-8", "replace").splitlines()
    whole = {(c.kind, c.line, c.signal, c.what) for c in read_crashes(lines).crashes}
    assert {(c.kind, c.line, c.signal, c.what) for c in told} <= whole


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=2000))
def test_random_bytes(data: bytes) -> None:
    everything(data.decode("utf-8", "replace"))


@settings(max_examples=200, deadline=None)
@given(st.lists(st.text(alphabet=st.characters(blacklist_characters="\n\r\0\x1b"), max_size=80), max_size=30))
def test_no_line_is_lost(lines: list[str]) -> None:
    """Each line is a record of its number, a header of its own, or the blank line that ends one."""
    kept = {record.number: record for record in read_records(lines)}
    for number, line in enumerate(lines, 1):
        if number not in kept:
            assert line == "" or line.startswith("[ ")
        elif kept[number].marker is None:
            assert kept[number].text in line


EVIL: list[Callable[[int], str]] = [
    lambda n: " " * n,
    lambda n: "a" * n,
    lambda n: "(" * n,
    lambda n: "#00 pc 10  /l.so " + " (" * (n // 2),
    lambda n: "#00 pc 10  /l.so" + " (offset 0x" * (n // 11),
    lambda n: "#0 0x1 in " + "f (" * (n // 3) + "+0x1)",
    lambda n: "#0 0x1 in " + " /a:1" * (n // 5),
    lambda n: "==1==ERROR: AddressSanitizer: " + " on " * (n // 4),
    lambda n: "05-14 10:22:31.402 7 7 F " + "x " * (n // 2),
    lambda n: "2026-05-14 10:22:31.402 7-7 " + "x " * (n // 2),
    lambda n: "pid: 1, tid: 2, name: " + " >>> " * (n // 5),
    lambda n: "Fatal signal 11 (SIGSEGV) in tid 1 (" + ")," * (n // 2),
    lambda n: "./a(" * (n // 4) + "[0x",
    lambda n: "frame #0: 0x1 " + "`at " * (n // 4),
    lambda n: "Kill 'x'" * (n // 8) + " ill",
    lambda n: "Out of memory " * (n // 14),
    lambda n: ': assertion "' * (n // 13),
    lambda n: "-" * n + " PROCESS ENDED ",
    lambda n: "uid=1 chatty " * (n // 13),
    lambda n: "V/" + "( " * (n // 2),
    lambda n: "allocated by thread T1 (" + "here" * (n // 4),
    lambda n: "READ of size 4 at 0x1" + " thread T1 (" * (n // 12),
    lambda n: "Thread T1 " + "created by T0 " * (n // 14),
    lambda n: "0x1 is located 1 bytes after static variable " + "of size " * (n // 8),
    lambda n: "==1==ERROR: AddressSanitizer: x" + " T1 (" * (n // 5),
    lambda n: "Event: x (type 0, config 0)" + "(type" * (n // 5),
]


def best_of_three(work: Callable[[], object]) -> float:
    """Processor seconds. In some a garbage collection takes ten times as long as what is measured."""
    times = []
    for _ in range(3):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("number", range(len(EVIL)))
def test_a_long_line_takes_no_more_than_linear_time(number: int) -> None:
    def seconds(size: int) -> float:
        line = EVIL[number](size)
        texts = [line, f"05-14 10:22:31.402 7 7 F DEBUG   : {line}"]

        def read() -> None:
            for text in texts:
                read_crashes([text])
                parse_frame(text[:8192])

        return best_of_three(read)

    # A quadratic one takes seconds for a line of a million characters.
    assert seconds(1_000_000) < 0.25


def test_a_table_of_a_profile_takes_linear_time() -> None:
    def seconds(count: int) -> float:
        head = ["Event: x (type 0, config 0)", "Overhead  Shared Object  Symbol"]
        lines = [*head, *["1.00%     /d/l.so        f(" + "a, " * 200] * count]
        return best_of_three(lambda: read_crashes(lines))

    assert seconds(4000) < 14 * max(seconds(500), 0.01)


def test_a_log_of_many_crashes_takes_linear_time() -> None:
    block = [
        "05-14 10:22:31.104 {0} {0} F libc    : Fatal signal 11 (SIGSEGV), code 1 (SEGV_MAPERR), fault addr"
        " 0x0 in tid {0} (p), pid {0} (p)",
        "05-14 10:22:31.402 {1} {1} F DEBUG   : pid: {0}, tid: {0}, name: p  >>> ./p <<<",
        "05-14 10:22:31.402 {1} {1} F DEBUG   : backtrace:",
        *["05-14 10:22:31.402 {1} {1} F DEBUG   :       #00 pc 00000000000004cc  /d/l.so (f+8)"] * 8,
    ]

    def seconds(count: int) -> float:
        lines = [line.format(1000 + n, 100_000 + n) for n in range(count) for line in block]
        assert len(read_crashes(lines).crashes) == count
        return best_of_three(lambda: read_crashes(lines))

    assert seconds(4000) < 14 * max(seconds(500), 0.01)
