"""A log that is saved whole: its text passes in blocks, and shows what its entries would have shown."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.logcat.binary import BinaryParser
from devkit.logcat.capture import Capture
from devkit.logcat.filters import Filters, compile_regex, parse_specs
from devkit.logcat.follow import Follower
from devkit.logcat.reading import Lines
from devkit.logcat.record import SILENT, Record
from devkit.logcat.save import TextForm, Writer
from devkit.logcat.session import View
from devkit.logcat.source import posix_zone
from tests.support.log_entries import entry
from tests.support.log_phone import BASE_NS, Entry, Phone

TAGS = (b"MNNJNI", b"MNNJNI2", b"MNN", b"libc", b"A tag with blanks", b"", b"chatty", b"averyveryverylongtag")
messages = st.lists(
    st.sampled_from([b"", b"a", b"QNN error", b"  two", b"E MNNJNI  : a copy", b"\xff\xfe", b"x" * 300]),
    min_size=1, max_size=3,
).map(b"\n".join)  # fmt: skip
entries = st.lists(
    st.builds(
        entry,
        messages,
        tag=st.sampled_from(TAGS),
        level=st.integers(2, 7),
        pid=st.sampled_from([1, 12345, 1234567]),
        buffer=st.sampled_from(["main", "main", "system", "crash"]),
    ),
    max_size=30,
)


class Seen(View):
    """Keeps what it is told to print."""

    def _print(self, records: Sequence[Record]) -> None:
        self.__dict__.setdefault("seen", []).extend(records)

    @property
    def told(self) -> list[tuple[object, ...]]:
        return [
            (r.time_ns, r.pid, r.tid, r.level, r.tag, r.message.removesuffix(b"\n"))
            for r in self.__dict__.get("seen", [])
        ]


def distinct(found: Sequence[bytes]) -> bytes:
    """Entries with stamps of their own, as a phone writes them."""
    parser = BinaryParser()
    records = parser.feed(b"".join(found)) + parser.finish()
    return b"".join(
        entry(r.message, tag=r.tag, at_ns=BASE_NS + i * 1000, pid=r.pid or 0, level=r.level, buffer=r.buffer)
        for i, r in enumerate(records)
    )


@settings(max_examples=150, deadline=None)
@given(
    entries,
    st.sampled_from(["MNNJNI:E", "MNNJNI:V *:F", "*:S", "*:V", "*:W MNNJNI:S", "libc:W MNN:I *:E"]),
    st.sampled_from([None, "error|four", "^a", "a$"]),
    st.lists(st.integers(1, 700), min_size=1, max_size=4),
)
def test_it_shows_what_the_entries_would_show(
    found: list[bytes], specs: str, regex: str | None, steps: list[int]
) -> None:
    data = distinct(found)
    tags, others = parse_specs([specs])
    filters = Filters(tags, SILENT if others is None else others, compile_regex(regex, "--regex"))
    parser = BinaryParser()
    exact = Seen(filters)
    records = parser.feed(data) + parser.finish()
    exact.take(records)
    text = TextForm().lines(records)
    lines, view = Lines(), Seen(filters)
    capture = Capture(view, lines)
    written, at = b"", 0
    while at < len(text):
        step = steps[at % len(steps)]
        if text[at + step - 1 : at + step] == b"\n":
            step += 1  # a message cut at the end of one of its lines is shown as two
        block, gaps = lines.take(text[at : at + step])
        assert not gaps
        written += block[1:]
        if block:
            capture.take(block)
        at += step
    assert written == text
    assert view.told == exact.told
    assert view.counts.expired == exact.counts.expired
    lines_of_text = [line for line in text.split(b"\n") if line and not line.startswith(b"-----")]
    assert view.counts.read == len(lines_of_text)


def blocks_shown(*text: bytes) -> list[tuple[object, ...]]:
    lines, view = Lines(), Seen(Filters({b"MNNJNI": 6}, SILENT))
    capture = Capture(view, lines)
    for piece in text:
        block, _ = lines.take(piece)
        if block:
            capture.take(block)
    return view.told


def test_lines_that_are_no_messages_hide_none() -> None:
    message = expected([(BASE_NS, b"real")]).replace(b" I ", b" E ").partition(b"\n")[2]
    assert len(blocks_shown(message)) == 1
    for size in range(60):
        assert blocks_shown(b"x" * size + b"\n" + message) == blocks_shown(message)
    # What looks like one from the level on, and is none.
    false = b" " * 48 + b"E MNNJNI  : false\n"
    short = b"\n" + b"x" * 47 + b"E MNNJNI  : false\n"
    wide = b"2026-05-14 10:22:30.101233456 +0800 " + b"1" * 5000 + b" 1 E MNNJNI  : false\n"
    for other in (false, short, wide):
        assert blocks_shown(other + message + other) == blocks_shown(message)


def test_long_runs_of_blanks_take_linear_time() -> None:
    head = b"2026-05-14 10:22:30.101233456 +0800  1234  1234 "
    for line in (
        b"E x" + b" " * 200_000 + b"x",
        b"E MNNJNI" + b" " * 200_000 + b"x",
        b" " * 200_000 + b"E x",
    ):
        lines, view = Lines(), Seen(Filters({b"MNNJNI": 2}, 2))
        block, _ = lines.take(head + line + b": text\n" + head + line + b"\n")
        began = time.process_time()
        Capture(view, lines).take(block)
        assert time.process_time() - began < 0.5


def captured(phone: Phone) -> tuple[bytes, list[str], Follower[bytes]]:
    follower = Follower(phone, Lines(), ends=True, pause=lambda _: None)
    text, notices = b"", []
    for block, said in follower.batches():
        notices += [notice.kind for notice in said]
        text += block[1:]
    return text, notices, follower


def kept(count: int, step_ns: int = 50_000_000) -> list[Entry]:
    return [(BASE_NS + i * step_ns, b"line %d" % i) for i in range(count)]


def expected(log: Sequence[Entry]) -> bytes:
    return TextForm().lines(BinaryParser().feed(b"".join(entry(m, at_ns=t) for t, m in log)))


SIZE = len(expected(kept(11))) // 11


@pytest.mark.parametrize(
    "cuts", [[1], [SIZE], [5 * SIZE + 3], [40 * SIZE] * 2, [90 * SIZE, 3 * SIZE, 41 * SIZE]]
)
def test_cut_anywhere_nothing_is_lost_or_doubled(cuts: list[int]) -> None:
    text, notices, follower = captured(Phone(kept(100), [*cuts, None], text=True))
    assert text == expected(kept(100))
    assert notices == ["lost", "back"] * len(cuts) and not follower.gaps


def test_true_repeats_and_lines_of_one_message_stay() -> None:
    log = [(BASE_NS, b"a"), (BASE_NS, b"a"), (BASE_NS, b"a"), (BASE_NS + 1, b"b\nb\nc"), (BASE_NS + 1, b"b")]
    whole = expected(log)
    for cut in range(1, len(whole)):
        text, _, follower = captured(Phone(log, [cut, None], text=True))
        assert text == whole and not follower.gaps, cut


def test_what_was_overwritten_is_a_gap() -> None:
    phone = Phone(kept(100), [50 * SIZE, None], text=True)
    new = [(BASE_NS + 60 * 10**9 + i, b"new %d" % i) for i in range(10)]
    phone.before_reopening = lambda: setattr(phone, "kept", new)
    text, notices, follower = captured(phone)
    (gap,) = follower.gaps
    assert gap.buffer == "main" and gap.to_ns == BASE_NS + 60 * 10**9 and "gap" in notices
    assert text.endswith(b"".join(expected(new).partition(b"\n")[2:]))


def test_a_restarted_phone_is_read_from_its_beginning() -> None:
    phone = Phone(kept(20), [10 * SIZE, None], text=True)
    phone.before_reopening = lambda: setattr(phone, "kept", kept(3))
    follower = Follower(phone, Lines(), ends=True, pause=lambda _: setattr(phone, "boot", "boot 2"))
    text = b"".join(block[1:] for block, _ in follower.batches())
    assert text.count(b": line 1\n") == 2 and len(follower.gaps) == 1


def test_the_buffer_is_named_again_where_readings_meet() -> None:
    def lines(*named: tuple[str, int]) -> bytes:
        form, parser = TextForm(), BinaryParser()
        return form.lines(
            parser.feed(b"".join(entry(b"%d" % i, at_ns=BASE_NS + i * 10**9, buffer=b) for b, i in named))
        )

    reading = Lines()
    first = reading.take(lines(("main", 1), ("system", 2), ("main", 3)))[0]
    reading.begin(reading.resume_ns())
    second, gaps = reading.take(lines(("main", 1), ("system", 2), ("main", 3), ("system", 4), ("main", 9)))
    assert not gaps and reading.repeated == 3
    assert (first[1:] + second[1:]) == lines(
        ("main", 1), ("system", 2), ("main", 3), ("system", 4), ("main", 9)
    )


def test_of_one_buffer_only_the_beginning_is_looked_at_for_a_divider() -> None:
    text = expected(kept(4))
    at = len(text) - 2 * SIZE
    reading = Lines(of_one=True)
    reading.opened({})
    assert reading.take(text[:at])[0] and reading.has_dividers
    assert reading.take(text[at:])[0] and not reading.has_dividers
    reading.begin(reading.resume_ns())
    reading.opened({})
    block, gaps = reading.take(text + expected(kept(5))[len(text) :])
    assert (block.count(b"line"), reading.repeated, gaps) == (1, 4, [])


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devkit.logcat.reading._MAX_KEPT_BYTES", 100_000)
    reading = Lines()
    block = expected([(BASE_NS, b"x" * 90)] * 500)
    for _ in range(20):
        reading.take(block)
    assert reading._recent_bytes <= 100_000
    assert reading.take(b"no line end " * 10)[0] == b"" and reading.cut


def test_rotation_gets_whole_blocks(tmp_path: Path) -> None:
    reading, text = Lines(), expected(kept(200))
    with Writer(tmp_path / "log", rotate_bytes=1000, kept=100) as writer:
        for at in range(0, len(text), 777):
            block, _ = reading.take(text[at : at + 777])
            writer.write(block, start=1)
    names = sorted(tmp_path.iterdir(), key=lambda path: -int(path.suffix[1:] or 0))
    assert len(names) > 5 and b"".join(path.read_bytes() for path in names) == text


@pytest.mark.parametrize(
    ("offset_s", "zone"), [(0, "<+0000>-0:00"), (28800, "<+0800>-8:00"), (-12600, "<-0330>+3:30")]
)
def test_zones_as_posix_writes_them(offset_s: int, zone: str) -> None:
    assert posix_zone(offset_s) == zone
