"""Text logs: every layout of logcat and Android Studio's copies, hostile input, any cutting."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.logcat import Marker, Record, Stray, TextParser
from devkit.logcat.record import LEVELS, Item
from devkit.sim.logs import wire
from devkit.sim.logs.entry import Entry
from devkit.sim.logs.layout import Layout

CASES = Path(__file__).parents[2] / "data" / "cases"
# 2026-05-14 10:22:30.101233456 UTC
SECOND, NANO = 1778754150, 101233456


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def parsed(data: bytes, step: int = 0, year: int | None = 2026) -> list[Item]:
    parser = TextParser(year=year)
    items: list[Item] = []
    for at in range(0, len(data), step or max(1, len(data))):
        items += parser.feed(data[at : at + (step or len(data))])
    return items + parser.finish()


def records(items: list[Item]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def written(words: str, entry: Entry) -> bytes:
    layout = Layout()
    assert layout.add(words) is None
    layout.name = layout.name or "threadtime"
    return layout.formatter()(entry)


# What each layout tells.
TELLS = {
    "brief": {"pid", "tag"},
    "long": {"time_ns", "pid", "tid", "tag"},
    "process": {"pid", "tag"},
    "tag": {"tag"},
    "thread": {"pid", "tid"},
    "threadtime": {"time_ns", "pid", "tid", "tag"},
    "time": {"time_ns", "pid", "tag"},
}
MODIFIERS = [
    "",
    "color",
    "epoch",
    "usec",
    "nsec",
    "year",
    "zone",
    "UTC,usec,year",
    "uid",
    "color,uid,usec,year",
]


@pytest.mark.parametrize(("layout", "modifiers"), list(product(TELLS, MODIFIERS)))
def test_every_layout_is_read_back(layout: str, modifiers: str) -> None:
    entry = Entry(wire.MAIN, 2000, 345, 12361, SECOND, NANO, wire.ERROR, b"My Tag", b"value: 3 (x)")
    data = written(f"{layout},{modifiers}".rstrip(","), entry) * 2
    for step in (0, 1, 7):
        found = records(parsed(data, step))
        assert len(found) == 2 and found[0] == found[1]
        record = found[0]
        assert record.message == b"value: 3 (x)" and record.level == wire.ERROR
        tells = TELLS[layout]
        assert record.tag == (b"My Tag" if "tag" in tells else b"")
        assert record.pid == (345 if "pid" in tells else None)
        assert record.tid == (12361 if "tid" in tells else None)
        if "uid" in modifiers and layout != "tag":
            assert record.uid == "shell"
        if "time_ns" in tells:
            digits = 9 if "nsec" in modifiers else 6 if "usec" in modifiers else 3
            assert record.time_ns == SECOND * 10**9 + NANO // 10 ** (9 - digits) * 10 ** (9 - digits)
        else:
            assert record.time_ns is None


def test_monotonic_is_no_time_of_day() -> None:
    (record,) = records(parsed(b"  1234.567 12345 12361 I MNNJNI  : x\n"))
    assert record.time_ns is None and record.pid == 12345


def test_zones_count() -> None:
    lines = (
        b"2026-05-14 10:22:30.101 +0000 1 2 I t       : x\n2026-05-14 18:52:30.101 +0830 1 2 I t       : x\n"
    )
    first, second = records(parsed(lines))
    assert first.time_ns == second.time_ns == SECOND * 10**9 + 101_000_000


def test_a_stamp_without_year_is_never_in_the_future(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1767229200.0)  # 2026-01-01 01:00 UTC
    (record,) = records(parsed(b"12-31 23:59:59.000     1     2 I t       : x\n", year=None))
    assert record.time_ns == (1767229200 - 3601) * 10**9


def test_long_keeps_lines_that_look_like_records() -> None:
    entry = Entry(wire.CRASH, 2000, 1, 2, SECOND, NANO, wire.INFO, b"a", b"I/b: c\n\n  d\n-- x")
    found = records(parsed(written("long", entry) * 2))
    assert [record.message for record in found] == [b"I/b: c\n\n  d\n-- x"] * 2


def test_a_tag_without_message_whose_blank_an_editor_took() -> None:
    (record,) = records(parsed(b"05-14 10:22:30.104 12345 12361 I MNNJNI  :\r\n"))
    assert record.tag == b"MNNJNI" and record.message == b""


def test_bytes_stay() -> None:
    (record,) = records(parsed(b"05-14 10:22:30.104 12345 12361 I t\xff      : \xfe\x00\xc3\n"))
    assert (record.tag, record.message) == (b"t\xff", b"\xfe\x00\xc3")


# ---- cases


def case(name: str) -> tuple[list[Item], dict[str, object]]:
    folder, _, file = name.partition("/")
    expected = json.loads((CASES / folder / "expected.json").read_text())
    return parsed((CASES / name if file else CASES / folder).read_bytes()), expected


def test_h1() -> None:
    items, expected = case("H1/threadtime.txt")
    found = records(items)
    assert len(found) == expected["records"] == 12
    # Some rows of the case say in words what is meant.
    tags = [str(tag).split(" (")[0] for tag in expected["tags"]]  # type: ignore[attr-defined]
    assert [record.tag.decode() for record in found] == tags
    assert found[2].message == b"emu: main thread, ctx 0x7a"
    assert found[5].message == b"" and found[6].message == b"    indented text"
    assert found[8].pid == expected["pid_over_5_digits"]
    assert [item.text for item in items if isinstance(item, Marker)] == expected["markers"]
    assert not any(b"---" in record.message for record in found)
    assert [item for item in items if isinstance(item, Stray)] == [Stray(b"a line that is no record at all")]
    assert [record.buffer for record in found] == ["main"] * 7 + ["system"] + ["main"] * 4


def test_h3_old_studio() -> None:
    items, _ = case("H3/studio_old.txt")
    found = records(items)
    assert len(items) == len(found) == 5
    assert found[0].level == LEVELS["F"] and (found[0].pid, found[0].tid) == (12345, 12361)
    assert found[0].process == "com.example.chat" and found[1].process is None
    assert [record.tag for record in found] == [b"libc", b"DEBUG", b"DEBUG", b"WifiVendorHal", b"chatty"]


def test_h3_new_studio() -> None:
    items, _ = case("H3/studio_new.txt")
    found = records(items)
    assert len(found) == 5
    assert found[2].message == b"first line\nsecond line of the same record"
    assert [record.pid for record in found] == [12370, 12370, 12345, 495, 12345]
    assert [record.process for record in found] == [
        None, "crash_dump64", "com.example.chat", "lmkd", "com.example.chat",
    ]  # fmt: skip
    assert found[4].tag == b"com.example.chat" and found[3].message.startswith(b"Kill 'com.example.other'")
    (marker,) = [item for item in items if isinstance(item, Marker)]
    assert marker.text.startswith("PROCESS ENDED (12345)")


# ---- nothing is lost, and nothing takes long

PIECES = st.sampled_from(
    [b"05-14 10:22:30.104 12345 12361 I ", b"MNNJNI  : ", b"I/", b"E/a(  1): ", b"[ ", b" ]", b"(", b")  (x)",
     b"\n", b"\r\n", b"--------- beginning of main", b" ", b"    ", b"\xff\x00",
     b"2026-05-14 10:22:31.600 1-2 t   p   D  m",
     b"99-99 99:99:99.9 1 1 I x: ", b"\x1b[31m", b"text: "]
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(st.lists(PIECES | st.binary(max_size=20), max_size=60), st.integers(1, 40))
def test_no_line_is_lost_however_it_is_cut(pieces: list[bytes], step: int) -> None:
    data = b"".join(pieces)
    whole = parsed(data)
    assert parsed(data, step) == whole
    shown = b"".join(
        item.data
        if isinstance(item, Stray)
        else item.text.encode()
        if isinstance(item, Marker)
        else item.tag + b"/" + item.message
        for item in whole
    )
    # Every word that was written is somewhere, whatever its line was taken for.
    assert shown.count(b"MNNJNI") <= data.count(b"MNNJNI")
    lines = sum(bool(line.strip(b"\r")) for line in data.split(b"\n"))
    kept = sum(1 + (item.message.count(b"\n") if isinstance(item, Record) else 0) for item in whole)
    assert kept >= lines or any(b"\x1b" in piece for piece in pieces)


@pytest.mark.parametrize(
    "line",
    [
        b"(" * 400_000,
        b" " * 400_000,
        b"I(1) " + b"  (" * 200_000,
        b"2026-05-14 10:22:31.600 1-2 " + b"word " * 100_000,
        b"2026-05-14 10:22:31.600 1-2" + b" " * 400_000 + b"x",
        b"05-14 10:22:31.600 " + b"1 " * 200_000,
        b"I/" + b"(1(" * 200_000,
        b"[ " * 200_000,
        b"-" * 400_000,
    ],
    ids=range(9),
)
def test_no_line_takes_long(line: bytes) -> None:
    began = time.process_time()
    parsed(line + b"\n" + line)
    assert time.process_time() - began < 3.0


def test_memory_stays_bounded_in_a_line_without_end() -> None:
    parser = TextParser()
    total = sum(
        len(item.data) for _ in range(40) for item in parser.feed(b"x" * 100_000) if isinstance(item, Stray)
    )
    assert total >= 2_000_000  # handed out, not kept
