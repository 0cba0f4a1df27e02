"""The stream of `logcat -B`: heads of all releases, any cutting, rubbish in between."""

from __future__ import annotations

import struct

from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.logcat import BinaryParser
from devkit.logcat.counts import Counts
from devkit.logcat.events import parse_tags
from devkit.logcat.record import Record
from tests.support.log_entries import HEAD, entry, texts


def parsed(data: bytes, step: int = 0) -> tuple[list[Record], int]:
    parser = BinaryParser()
    records: list[Record] = []
    for at in range(0, len(data), step or max(1, len(data))):
        records += parser.feed(data[at : at + (step or len(data))])
    records += parser.finish()
    return records, parser.skipped_bytes


def test_an_entry_of_android_7_and_later() -> None:
    found, skipped = parsed(entry(b"two\nlines \xff\0 and a zero", tag=b"My: Tag", uid=10123, buffer="crash"))
    assert skipped == 0
    (record,) = found
    assert record == Record(
        1778754150_101233456, "crash", 10123, 100, 101, 4, b"My: Tag", b"two\nlines \xff\0 and a zero"
    )


def test_heads_of_older_releases() -> None:
    payload = b"\x05tag\0text\0"
    android_6 = struct.pack("<HHiIIII", len(payload), 24, 7, 8, 9, 10, 4) + payload
    android_4 = struct.pack("<HHiIII", len(payload), 0, 7, 8, 9, 10) + payload
    found, skipped = parsed(android_6 + android_4 + android_6)
    assert skipped == 0
    assert [record.buffer for record in found] == ["crash", "main", "crash"]
    assert {(r.uid, r.pid, r.tid, r.time_ns, r.message) for r in found} == {
        (None, 7, 8, 9 * 10**9 + 10, b"text")
    }


def test_a_short_entry_at_the_very_end() -> None:
    payload = b"\x04\0\0"
    short = struct.pack("<HHiIIII", len(payload), 24, 7, 8, 9, 10, 0) + payload
    found, skipped = parsed(short)
    assert len(found) == 1 and skipped == 0 and found[0].message == b""


def test_text_in_the_stream_is_skipped_and_counted() -> None:
    noise = b"read: unexpected EOF!\n"
    found, skipped = parsed(entry(b"a") + noise + entry(b"b") + entry(b"c")[:-3])
    assert texts(found) == [b"a", b"b"]
    assert skipped == len(noise) + len(entry(b"c")) - 3


def test_events() -> None:
    values = (
        b"\x03\x03" + b"\x00" + struct.pack("<i", -5) + b"\x02" + struct.pack("<I", 2) + b"ab" + b"\x01"
        + struct.pack("<q", 1 << 40)
    )  # fmt: skip
    payload = struct.pack("<I", 30014) + values
    head = HEAD.pack(len(payload), 28, 1, 2, 3, 4, 2, 1000)
    (record,), _ = parsed(head + payload)
    assert (record.buffer, record.tag, record.message) == ("events", b"30014", b"[-5,ab,1099511627776]")


def test_event_tags_have_names_and_dropped_messages_count() -> None:
    names = parse_tags(
        b"# comment\n1006 liblog (dropped|1)\n\n30014\tam_proc_start (User|1|5),(PID|1|5)\nx y\n"
    )
    assert names == {1006: b"liblog", 30014: b"am_proc_start"}
    payload = struct.pack("<IBi", 1006, 0, 17)
    data = HEAD.pack(len(payload), 28, 1, 2, 3, 4, 2, 1000) + payload
    (record,) = BinaryParser(names).feed(data)
    assert (record.tag, record.message) == (b"liblog", b"17")
    counts = Counts()
    counts.add([record, *BinaryParser().feed(data), *BinaryParser().feed(entry(b"5", tag=b"liblog"))])
    assert counts.dropped == 34


def test_a_broken_event_keeps_its_bytes() -> None:
    payload = struct.pack("<I", 5) + b"\x03\xff\x02\xff\xff\xff\xff"
    (record,), skipped = parsed(HEAD.pack(len(payload), 28, 1, 2, 3, 4, 2, 1000) + payload)
    assert record.message == payload[4:] and skipped == 0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.binary(max_size=200), max_size=12), st.integers(1, 300))
def test_every_message_arrives_however_it_is_cut(messages: list[bytes], step: int) -> None:
    found, skipped = parsed(b"".join(entry(message) for message in messages), step)
    assert texts(found) == messages and skipped == 0


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=400))
def test_rubbish_never_stops_it(rubbish: bytes) -> None:
    found, skipped = parsed(rubbish + entry(b"x" * 50) * 40)
    # Entries may be taken for a part of what the rubbish announces: the rest is found again.
    assert found or skipped
