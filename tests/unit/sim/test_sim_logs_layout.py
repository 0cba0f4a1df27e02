"""logcat's layouts and modifiers against a table, byte for byte; filters; how packets are taken apart."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

import pytest

from devkit.sim.logs import wire
from devkit.sim.logs.entry import Entry, parse_packet
from devkit.sim.logs.filters import Filters
from devkit.sim.logs.layout import LAYOUTS, Layout, printable

# 2026-05-14 10:22:30.101233456 UTC
SECOND, NANO = 1778754150, 101233456
PLAIN = Entry(wire.MAIN, 2000, 12345, 12361, SECOND, NANO, wire.INFO, b"MNNJNI", b"The device supports: 1")
LINES = PLAIN._replace(
    uid=10123, tag=b"averyveryverylongtagname", message=b"one\n\ntwo\n", priority=wire.ERROR
)
EMPTY = PLAIN._replace(uid=0, tag=b"", message=b"", priority=wire.FATAL, pid=1234567, tid=7)


@pytest.fixture(autouse=True)
def utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "UTC0")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def shown(words: str, entry: Entry) -> bytes:
    layout = Layout()
    assert layout.add(words) is None
    if not layout.name:
        layout.name = "threadtime"
    return layout.formatter()(entry)


STAMP = b"05-14 10:22:30.101"
TABLE = [
    ("brief", b"I/MNNJNI  (12345): The device supports: 1\n"),
    ("long", b"[ 05-14 10:22:30.101 12345:12361 I/MNNJNI   ]\nThe device supports: 1\n\n"),
    ("process", b"I(12345) The device supports: 1  (MNNJNI)\n"),
    ("raw", b"The device supports: 1\n"),
    ("tag", b"I/MNNJNI  : The device supports: 1\n"),
    ("thread", b"I(12345:12361) The device supports: 1\n"),
    ("threadtime", STAMP + b" 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("time", STAMP + b" I/MNNJNI  (12345): The device supports: 1\n"),
    ("color", b"\x1b[32m" + STAMP + b" 12345 12361 I MNNJNI  : The device supports: 1\x1b[0m\n"),
    ("color,long", b"\x1b[32m[ " + STAMP + b" 12345:12361 I/MNNJNI   ]\nThe device supports: 1\x1b[0m\n\n"),
    ("epoch", b"         1778754150.101 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("usec", b"05-14 10:22:30.101233 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("nsec", b"05-14 10:22:30.101233456 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("year", b"2026-05-14 10:22:30.101 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("zone", b"05-14 10:22:30.101 +0000 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("UTC,usec,year", b"2026-05-14 10:22:30.101233 +0000 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("uid", STAMP + b" shell 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("brief,uid", b"I/MNNJNI  (shell:12345): The device supports: 1\n"),
    ("process,uid", b"I(shell:12345) The device supports: 1  (MNNJNI)\n"),
    ("thread,uid", b"I(shell:12345:12361) The device supports: 1\n"),
    ("time uid", STAMP + b" I/MNNJNI  (shell:12345): The device supports: 1\n"),
    ("long,uid", b"[ 05-14 10:22:30.101 shell:12345:12361 I/MNNJNI   ]\nThe device supports: 1\n\n"),
    ("printable", STAMP + b" 12345 12361 I MNNJNI  : The device supports: 1\n"),
    ("descriptive", STAMP + b" 12345 12361 I MNNJNI  : The device supports: 1\n"),
]


@pytest.mark.parametrize(("words", "expected"), TABLE, ids=[words for words, _ in TABLE])
def test_every_layout(words: str, expected: bytes) -> None:
    assert shown(words, PLAIN) == expected


def test_the_table_covers_every_layout() -> None:
    assert set(LAYOUTS) <= {words for words, _ in TABLE}


def test_each_line_of_a_message_has_the_header_but_in_long() -> None:
    head = STAMP + b" 12345 12361 E averyveryverylongtagname: "
    assert shown("threadtime", LINES) == head + b"one\n" + head + b"\n" + head + b"two\n"
    assert shown("brief", LINES).count(b"E/averyveryverylongtagname(12345): ") == 3
    assert shown("long", LINES).endswith(b"]\none\n\ntwo\n\n\n")
    assert shown("raw", LINES) == b"one\n\ntwo\n"
    assert shown("uid", LINES).startswith(STAMP + b" 10123 12345")


def test_empty_tag_and_message_and_a_large_pid() -> None:
    assert shown("threadtime", EMPTY) == STAMP + b" 1234567     7 F         : \n"
    assert shown("uid", EMPTY) == STAMP + b"  root 1234567     7 F         : \n"
    assert shown("process", EMPTY) == b"F(1234567)   ()\n"


def test_a_header_longer_than_its_buffer_is_cut() -> None:
    entry = PLAIN._replace(tag=b"t" * 300)
    for words in ("threadtime", "threadtime,usec"):
        assert shown(words, entry).index(b"The device") == 127
    assert shown("process", entry).endswith(b"t\n") and len(shown("process", entry)) < 200


def test_monotonic_counts_from_the_boot() -> None:
    now = time.time_ns()
    entry = PLAIN._replace(sec=now // 10**9, nsec=now % 10**9)
    seconds = float(shown("monotonic", entry).split()[0])
    assert abs(seconds - time.monotonic()) < 1.0
    assert shown("monotonic", entry)[:6].lstrip().isdigit()


def test_unknown_words_are_named() -> None:
    assert Layout().add("brief,nonsense") == "nonsense"
    layout = Layout()
    layout.add("zone")
    layout.add("zone")
    assert "zone" not in layout.modifiers


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"a\tb\\c", b"a\tb\\\\c"),
        (b"\x1b[31m\x07", b"\\x1B[31m\\a"),
        (b"\r\x7f\x00", b"\\r\\x7F\\x00"),
        ("中 é 😀".encode(), "中 é 😀".encode()),
        (b"\xff\xc3", b"\\xFF\\xC3"),
        (b"\xe4\xb8", b"\\xE4\\xB8"),
    ],
)
def test_printable(text: bytes, expected: bytes) -> None:
    assert printable(text) == expected


# ---- packets


def packet(payload: bytes, log_id: int = wire.MAIN) -> bytes:
    return wire.encode_entry(log_id, 2000, 5, 6, 7, 8, payload)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        (b"\x04tag\0text\0", (wire.INFO, b"tag", b"text")),
        (b"\x04tag\0te\0xt\0", (wire.INFO, b"tag", b"te")),
        (b"\x04\0\0", (wire.INFO, b"", b"")),
        (b"\x06My Tag\0value: 3\0", (wire.ERROR, b"My Tag", b"value: 3")),
        # Not terminated: liblog overwrites the last byte.
        (b"\x04tag\0text", (wire.INFO, b"tag", b"tex")),
        # No NUL at all: the tag ends where none can go on.
        (b"\x04tag: text!", (wire.INFO, b"tag", b" text")),
        (b"\x04abcdef", (wire.INFO, b"abcde", b"")),
    ],
)
def test_text_packets(payload: bytes, expected: tuple[int, bytes, bytes]) -> None:
    entry = parse_packet(packet(payload))
    assert entry is not None
    assert (entry.priority, entry.tag, entry.message) == expected
    assert (entry.uid, entry.pid, entry.tid, entry.sec, entry.nsec) == (2000, 5, 6, 7, 8)


def test_packets_that_are_no_messages() -> None:
    assert parse_packet(packet(b"\x04\0")) is None
    assert parse_packet(packet(b"\x01\x02", wire.EVENTS)) is None
    assert parse_packet(packet(struct.pack("<I", 1) + b"\x63", wire.EVENTS)) is None


def test_events_are_shown_by_number() -> None:
    values = b"\x03\x03" + b"\x00" + struct.pack("<i", -3) + b"\x02" + struct.pack("<I", 2) + b"hi"
    values += b"\x01" + struct.pack("<q", 1 << 40)
    entry = parse_packet(packet(struct.pack("<I", 2722) + values, wire.EVENTS))
    assert entry is not None
    assert (entry.tag, entry.message) == (b"[2722]", b"[-3,hi,1099511627776]")


# ---- filters


@pytest.mark.parametrize(
    ("expressions", "shown_pairs", "hidden_pairs"),
    [
        ("", ["a:2", "b:7"], []),
        ("*:S", [], ["a:2", "a:7"]),
        ("*", ["a:3"], ["a:2"]),
        ("*:e", ["a:6", "b:7"], ["a:5"]),
        ("*:S a", ["a:2"], ["b:7"]),
        ("*:S a:w", ["a:5"], ["a:4", "b:7"]),
        ("a:S", ["b:2"], ["a:7"]),
        ("a:w,a:v", ["a:2"], []),
        ("a:v a:w", ["a:5"], ["a:4"]),
        ("a:* *:e", ["a:2"], ["b:5"]),
        ("a:3", ["a:3"], ["a:2"]),
        ("a:9", ["a:2"], []),
        ("a:Wxyz", ["a:5"], ["a:4"]),
    ],
)
def test_filter_expressions(expressions: str, shown_pairs: list[str], hidden_pairs: list[str]) -> None:
    filters = Filters()
    assert filters.add(expressions)
    for pair in shown_pairs + hidden_pairs:
        tag, _, priority = pair.partition(":")
        assert filters.shows(int(priority), tag.encode()) == (pair in shown_pairs), pair


@pytest.mark.parametrize("wrong", [":v", "a:", "a:x", "b a:q"])
def test_wrong_expressions(wrong: str) -> None:
    assert not Filters().add(wrong)
