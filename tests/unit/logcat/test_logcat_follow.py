"""One log out of broken readings: a phone that keeps a log, and a link that is cut at chosen places."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.errors import DeviceError
from devkit.logcat import Follower, Record, TextParser
from devkit.logcat.counts import Counts
from devkit.logcat.follow import PROBE_AFTER_S, Notice, PhoneLook
from devkit.logcat.reading import Entries
from devkit.logcat.seam import Seam
from tests.support.log_entries import entry, texts
from tests.support.log_phone import BASE_NS, Entry, Phone, Stream

CASES = Path(__file__).parents[2] / "data" / "cases"


def followed(phone: Phone, since_ns: int | None = None) -> tuple[list[Record], list[Notice], Follower]:
    follower = Follower(phone, Entries(), since_ns=since_ns, ends=True, pause=lambda _: None)
    records: list[Record] = []
    notices: list[Notice] = []
    for batch, said in follower.batches():
        notices += said
        records += batch
    return records, notices, follower


def entries(count: int, step_ns: int = 50_000_000) -> list[Entry]:
    return [(BASE_NS + i * step_ns, b"line %d" % i) for i in range(count)]


SIZE = len(entry(b"line 10"))


@pytest.mark.parametrize("cut", [1, SIZE - 1, SIZE, 5 * SIZE + 3, 60 * SIZE, 89 * SIZE + 5])
def test_cut_anywhere_nothing_is_lost_or_doubled(cut: int) -> None:
    phone = Phone(entries(100), [cut, None])
    records, notices, follower = followed(phone)
    assert texts(records) == [message for _, message in entries(100)]
    assert [notice.kind for notice in notices] == ["lost", "back"]
    assert not follower.gaps and follower.breaks == 1 and follower.skipped_bytes < SIZE


def test_cut_again_and_again() -> None:
    phone = Phone(entries(100), [10 * SIZE] * 3 + [45 * SIZE] * 4 + [None])
    records, _, follower = followed(phone)
    assert texts(records) == [message for _, message in entries(100)]
    assert follower.breaks == 7 and not follower.gaps


def test_true_repeats_stay() -> None:
    kept = [(BASE_NS, b"a"), (BASE_NS, b"a"), (BASE_NS, b"a"), (BASE_NS + 1, b"b"), (BASE_NS + 1, b"b")]
    records, _, follower = followed(Phone(kept, [2 * len(entry(b"a")), None]))
    assert texts(records) == [b"a", b"a", b"a", b"b", b"b"]
    assert follower.repeated == 2


def test_it_asks_only_for_the_end_again() -> None:
    phone = Phone(entries(200), [150 * SIZE, None])
    records, _, _ = followed(phone)
    last = max(time for time, message in entries(200) if message <= b"line 140")
    assert phone.starts[0] is None and phone.starts[1] is not None
    assert BASE_NS + 4 * 10**9 < phone.starts[1] < last + 10**9
    assert len(records) == 200


def test_stamps_out_of_order_are_kept() -> None:
    kept = [(BASE_NS + 10**9, b"late"), (BASE_NS + 5 * 10**8, b"early"), (BASE_NS + 11 * 10**8, b"end")]
    records, _, _ = followed(Phone(kept, [len(entry(b"late")), None]))
    assert texts(records) == [b"late", b"early", b"end"]


def test_what_was_overwritten_is_a_gap() -> None:
    phone = Phone(entries(100), [50 * SIZE, None])

    def overwrite() -> None:
        phone.kept = [(BASE_NS + 60 * 10**9 + i, b"new %d" % i) for i in range(10)]

    phone.before_reopening = overwrite
    records, notices, follower = followed(phone)
    (gap,) = follower.gaps
    assert gap.buffer == "main" and gap.to_ns == BASE_NS + 60 * 10**9
    assert gap.from_ns == records[-11].time_ns
    assert "gap" in [notice.kind for notice in notices] and "missing" in gap.text
    assert texts(records)[-10:] == [b"new %d" % i for i in range(10)]


def test_a_restarted_phone_is_read_from_its_beginning() -> None:
    phone = Phone(entries(100), [50 * SIZE, None])

    def restart() -> None:
        # Its clock stands in 1970 until it is set.
        phone.kept = [(i * 10**9, b"boot %d" % i) for i in range(5)]

    phone.before_reopening = restart
    phone.boot = "boot 1"
    follower = Follower(phone, Entries(), ends=True, pause=lambda _: setattr(phone, "boot", "boot 2"))
    records = [record for batch, _ in follower.batches() for record in batch]
    assert phone.starts == [None, None]
    assert texts(records)[-5:] == [b"boot %d" % i for i in range(5)]
    (gap,) = follower.gaps
    assert "restarted" in gap.why


def test_a_clock_that_was_set_back_hides_nothing() -> None:
    phone = Phone(entries(100), [50 * SIZE, None])

    def set_back() -> None:
        phone.kept += [(BASE_NS - 3600 * 10**9, b"after the change")]

    phone.before_reopening = set_back
    phone.now_ns = BASE_NS - 3600 * 10**9
    records, notices, _ = followed(phone)
    assert b"after the change" in texts(records) and "skipped" in [notice.kind for notice in notices]


def test_the_phone_is_awaited_patiently() -> None:
    phone = Phone(entries(20), [10 * SIZE, None])
    phone.unreachable = 0
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        phone.unreachable = 1 if len(pauses) < 8 else 0

    follower = Follower(phone, Entries(), ends=True, pause=pause)
    records = [record for batch, _ in follower.batches() for record in batch]
    assert len(records) == 20 and len(pauses) == 8
    assert pauses == sorted(pauses) and pauses[0] < 0.5 and pauses[-1] <= 3.0


def test_unexpected_eof_goes_on() -> None:
    phone = Phone(entries(20), [10 * SIZE, None])
    phone.end_code, phone.complaint = 1, (CASES / "H5" / "stderr1.txt").read_text()
    records, notices, _ = followed(phone)
    assert len(records) == 20 and "nexpected EOF" in notices[0].text


def test_a_refusal_is_an_error() -> None:
    phone = Phone(entries(20), [0])
    phone.end_code, phone.complaint = 1, "logcat: Unable to open log device 'security'"
    with pytest.raises(DeviceError) as raised:
        followed(phone)
    assert "Unable to open" in str(raised.value.evidence)


def test_a_logcat_that_always_ends_at_once_is_given_up_after_a_while() -> None:
    phone = Phone(entries(5), [0] * 9)
    phone.end_code, phone.complaint = 1, "read: unexpected EOF!"
    pauses: list[float] = []
    with pytest.raises(DeviceError):
        list(Follower(phone, Entries(), ends=True, pause=pauses.append).batches())
    assert pauses == [0.5, 1.0, 2.0, 3.0]


def test_a_silent_stream_is_looked_after() -> None:
    phone = Phone([], [None])
    now = [0.0]

    class Silent(Stream):
        def read(self, timeout_s: float) -> bytes | None:
            now[0] += timeout_s
            return b""

    phone.open = lambda start_ns: Silent(phone, b"", None)  # type: ignore[method-assign,assignment]
    asked: list[float] = []

    def look() -> PhoneLook:
        asked.append(now[0])
        if len(asked) == 3:
            raise KeyboardInterrupt
        return PhoneLook("boot", 0)

    phone.look = look  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        list(Follower(phone, Entries(), clock=lambda: now[0]).batches())
    assert asked[0] == 0 and PROBE_AFTER_S <= asked[1] <= PROBE_AFTER_S + 1


STEPS = st.lists(
    st.tuples(st.integers(-300_000_000, 900_000_000), st.integers(0, 3)), min_size=1, max_size=80
)


@settings(max_examples=200, deadline=None)
@given(STEPS, st.lists(st.integers(1, 60 * SIZE), max_size=6), st.integers(0, 80))
def test_whatever_is_cut_and_overwritten_nothing_is_lost_unsaid(
    steps: list[tuple[int, int]], cuts: list[int], kept: int
) -> None:
    """Stamps go back up to 0.3 s, messages repeat; at the first break the phone may have lost its oldest."""
    at_ns, logged = BASE_NS + 10**9, []
    for step, message in steps:
        # Stamps that go back and a lost beginning at once cannot be told from a whole log: not together here.
        at_ns += abs(step) if kept else step
        # True repeats, to the nanosecond, cannot be told from what was overwritten: there are none then.
        while kept and at_ns in {stamp for stamp, _ in logged}:
            at_ns += 1
        logged.append((at_ns, b"line %02d" % message))
    phone = Phone(logged, [*cuts, None])

    def overwrite() -> None:
        phone.kept = phone.kept[-kept:] if kept else phone.kept

    phone.before_reopening = overwrite
    records, _, follower = followed(phone)
    shown = [(record.time_ns, record.message) for record in records]
    missing = Counter(logged) - Counter(shown)
    # Nothing twice, nothing out of the phone's order.
    assert not Counter(shown) - Counter(logged)
    if not missing:
        assert shown == logged
    else:
        # Who had read nothing before the break cannot know what there was.
        assert phone.kept != logged and (follower.gaps or cuts[0] < SIZE)


# ---- H5


def read_case(name: str) -> list[Record]:
    parser = TextParser(year=2026)
    items = parser.feed((CASES / "H5" / name).read_bytes()) + parser.finish()
    return [item for item in items if isinstance(item, Record)]


def test_h5_merge() -> None:
    expected = json.loads((CASES / "H5" / "expected.json").read_text())
    seam = Seam()
    first, _ = seam.join(read_case("part1.txt"))
    seam.begin(seam.resume_ns())
    second, gaps = seam.join(read_case("part2.txt"))
    assert [record.message.decode() for record in [*first, *second]] == expected["merge"]
    assert not gaps


def test_h5_chatty() -> None:
    expected = json.loads((CASES / "H5" / "expected.json").read_text())["chatty"]
    counts = Counts()
    counts.add(read_case("chatty.txt"))
    assert counts.identical == expected["suppressed_identical"] and counts.expired == expected["expired"]
    assert "27 identical" in counts.text and "12 lines expired" in counts.text


def test_memory_of_the_seam_is_bounded() -> None:
    seam = Seam(max_remembered=1000)
    for i in range(100):
        seam.remember([Record(BASE_NS + i, "main", 1, 1, 1, 4, b"t", b"%d" % i)] * 100)
    assert seam._count <= 1000 + 100
    seam.remember([Record(BASE_NS + 60 * 10**9, "main", 1, 1, 1, 4, b"t", b"x")])
    assert seam._count == 1
