"""What is shown: levels, expressions, times, processes across restarts, crash reports; defaults."""

from __future__ import annotations

import time
from collections.abc import Sequence

import pytest

from devkit.errors import UsageError
from devkit.logcat.filters import Filters, compile_regex, parse_level, parse_specs
from devkit.logcat.processes import ProcessFilter, names_script, packages_script, parse_names, parse_packages
from devkit.logcat.record import ERROR, FATAL, INFO, SILENT, VERBOSE, WARN, Record
from devkit.logcat.source import logcat_words
from devkit.logcat.tags import default_tags
from devkit.logcat.times import parse_duration, parse_moment


def record(
    message: bytes = b"x", *, tag: bytes = b"t", level: int = INFO, pid: int = 1, at: int | None = 0
) -> Record:
    return Record(at, "main", 2000, pid, pid, level, tag, message)


def test_specs() -> None:
    assert parse_specs(["MNNJNI:i", "libc", "*:W"]) == ({b"MNNJNI": INFO, b"libc": VERBOSE}, WARN)
    assert parse_specs(["a:E,b:S", "*"]) == ({b"a": ERROR, b"b": SILENT}, VERBOSE)
    assert parse_specs(["My Tag:x:E", "a:E b:W"])[0] == {b"My Tag:x": ERROR, b"a": ERROR, b"b": WARN}
    for wrong in ("a:Q", ":E", "a:"):
        if wrong == "a:":
            assert parse_specs([wrong])[0] == {b"a": VERBOSE}
            continue
        with pytest.raises(UsageError):
            parse_specs([wrong])
    assert parse_level("e") == ERROR
    with pytest.raises(UsageError):
        parse_level("S")


def test_all_conditions_at_once() -> None:
    shows = Filters(
        {b"t": WARN}, SILENT, compile_regex("QNN", "-e"), compile_regex("noise", "--exclude"), 100, 200
    ).compiled()
    good = record(b"QNN error", level=ERROR, at=150)
    assert shows(good) and shows(good._replace(time_ns=None))
    for bad in (
        good._replace(level=INFO), good._replace(tag=b"u"), good._replace(message=b"x"),
        good._replace(message=b"QNN noise"), good._replace(time_ns=99), good._replace(time_ns=201),
    ):  # fmt: skip
        assert not shows(bad)
    with pytest.raises(UsageError):
        compile_regex("(", "--regex")


def test_the_engines_tags() -> None:
    tags, others = default_tags("mnn")
    assert {b"MNNJNI", b"adsprpc", b"fastrpc", b"QnnDsp", b"DEBUG", b"libc", b"linker"} <= set(tags)
    assert others == FATAL
    assert b"MNNJNI" not in default_tags("cmake")[0] and b"MNNJNI" in default_tags(None)[0]


def test_a_program_is_followed_across_restarts() -> None:
    running = {10: "/data/local/tmp/devkit/llm_demo", 11: "/system/bin/logd"}
    asked: list[list[int]] = []

    def ask(pids: Sequence[int]) -> dict[int, str]:
        asked.append(list(pids))
        return {pid: running[pid] for pid in pids if pid in running}

    picks = ProcessFilter(names=["llm_demo"], ask=ask)
    assert picks.pick([record(b"a", pid=10), record(b"b", pid=11), record(b"c", pid=12)]) == [
        record(b"a", pid=10)
    ]
    assert picks.pick([record(b"d", pid=10)]) == [record(b"d", pid=10)]
    assert asked == [[10, 11, 12]]  # nobody is asked twice
    running = {20: "./llm_demo"}
    assert picks.pick([record(b"e", pid=20), record(b"f", pid=11)]) == [record(b"e", pid=20)]
    assert asked[1:] == [[20]]
    assert picks.current == {10, 20}


def test_an_app_is_known_by_what_starts_it() -> None:
    picks = ProcessFilter(names=["com.example.chat"])
    start = record(
        b"Start proc 500:com.example.chat:remote/u0a123 for service {x}", tag=b"ActivityManager", pid=7
    )
    assert picks.pick([start, record(b"a", pid=500), record(b"b", pid=501)]) == [record(b"a", pid=500)]


def test_the_crash_report_of_a_process_comes_along() -> None:
    picks = ProcessFilter(pids=[10])

    def report(dumper: int, pid: int) -> list[Record]:
        lines = [
            b"*** *** ***", b"ABI: 'arm64'",
            b"pid: %d, tid: %d, name: llm_demo  >>> ./llm_demo <<<" % (pid, pid),
            b"signal 11 (SIGSEGV)", b"    #00 pc 0000000000001234  /x/libMNN.so",
        ]  # fmt: skip
        return [record(line, tag=b"DEBUG", pid=dumper, level=FATAL) for line in lines]

    mine, other = report(900, 10), report(901, 11)
    mixed = [line for pair in zip(mine, other, strict=True) for line in pair]
    assert picks.pick(mixed[:3]) == []
    assert picks.pick(mixed[3:]) == mine
    by_name = ProcessFilter(names=["llm_demo"])
    assert by_name.pick(mixed) == [*mine[:2], mine[2], *other[:2], other[2], *mixed[6:]]


def test_an_app_is_known_by_its_user() -> None:
    said = "package:com.example.chat uid:10123\npackage:com.example.chat.beta uid:10124\n"
    assert parse_packages(said, ["com.example.chat"]) == {10123}
    assert parse_packages("package:a.b uid:10123,1010123\n", ["a.b"]) == {10123, 1010123}
    assert packages_script(["a.b"]) == "pm list packages -U a.b 2>/dev/null"
    picks = ProcessFilter(names=["com.example.chat"], uids={10123}, ask=lambda pids: {})
    mine = record(pid=77)._replace(uid=10123)
    assert picks.pick([mine, record(pid=78)]) == [mine]


def test_names_of_processes() -> None:
    said = (
        b"==> /proc/10/cmdline <==\n./llm_demo\0config.json\0\n==> /proc/11/cmdline <==\n\n"
        b"==> /proc/12/cmdline <==\ncom.example.chat\0\0\0\n==> /dev/null <==\n"
    )
    assert parse_names(said.partition(b"\n==> /dev/null")[0]) == {10: "./llm_demo", 12: "com.example.chat"}
    assert parse_names(said)[12] == "com.example.chat"
    assert parse_names(b"") == {} and parse_names(b"\n==> /dev/null <==\n") == {}  # all have ended
    assert "/proc/10/cmdline /proc/11/cmdline /dev/null" in names_script([10, 11])
    assert len(names_script(range(5000))) < 200


def test_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()
    now = time.time()
    assert abs(parse_moment("10m") / 1e9 - (now - 600)) < 5
    assert parse_moment("2026-05-14 10:22:30.5") == 1778754150_500000000
    assert parse_moment("2026-05-14") == 1778716800 * 10**9
    assert parse_moment("1778754150.25") == 1778754150_250000000
    assert 0 <= now - parse_moment("10:22") / 1e9 < 86_400
    assert 0 <= now - parse_moment("12-31 23:59:59") / 1e9 < 366 * 86_400
    for wrong in ("yesterday", "", "25:00", "10"):
        with pytest.raises(UsageError):
            parse_moment(wrong)
    assert parse_duration("30", option="-x") == 30 and parse_duration("1.5m", option="-x") == 90
    with pytest.raises(UsageError):
        parse_duration("soon", option="--duration")
    monkeypatch.undo()
    time.tzset()


def test_the_phones_command_line() -> None:
    start = 1778754150_101233456
    assert logcat_words(["main", "crash"], api_level=34, start_ns=start) == [
        "logcat", "-B", "-b", "main", "-b", "crash", "-T", "1778754150.101233456",
    ]  # fmt: skip
    assert logcat_words(["all"], api_level=23, start_ns=start, ends=True) == [
        "logcat", "-B", "-b", "all", "-d", "-T", "05-14 10:22:30.101233456",
    ]  # fmt: skip
