"""The file of --save: bytes as they were, rotation that loses nothing, refusals."""

from __future__ import annotations

import os
import resource
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.errors import FileError, UsageError
from devkit.logcat import BinaryParser, Record, TextParser, Writer
from devkit.logcat.filters import Filters, parse_specs
from devkit.logcat.save import TextForm
from devkit.logcat.seam import Seam
from devkit.sim.logs import wire
from devkit.sim.logs.entry import Entry
from devkit.sim.logs.layout import Layout
from tests.support.log_entries import entry

MESSAGES = [b"plain", b"two\nlines", b"ends\n", b"", b"\xff\xfe\xc3 \x1b[31m", "中文 ✓".encode()]


@pytest.fixture(autouse=True)
def zone(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "IST-5:30")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_it_is_what_logcat_would_have_written() -> None:
    layout = Layout()
    assert layout.add("threadtime,year,nsec,zone") is None
    expected = b"--------- beginning of main\n" + b"".join(
        layout.formatter()(Entry(wire.MAIN, 2000, 100, 101, 1778754150, 101233456, 4, b"MNNJNI", message))
        for message in MESSAGES
    )
    records = BinaryParser().feed(b"".join(entry(message) for message in MESSAGES))
    assert TextForm().lines(records) == expected


def test_it_can_be_read_again() -> None:
    records = BinaryParser().feed(b"".join(entry(m, buffer=b) for m in MESSAGES for b in ("main", "crash")))
    parser = TextParser()
    again = [item for item in parser.feed(TextForm().lines(records)) if isinstance(item, Record)]
    lines = [line for m in MESSAGES for _ in range(2) for line in m.removesuffix(b"\n").split(b"\n")]
    assert [record.message for record in again] == lines
    assert {(r.buffer, r.pid, r.tid, r.time_ns) for r in again} == {
        ("main", 100, 101, 1778754150_101233456), ("crash", 100, 101, 1778754150_101233456),
    }  # fmt: skip


def test_rotation_cuts_no_line_and_loses_none(tmp_path: Path) -> None:
    path = tmp_path / "我的 log.txt"
    lines = [b"line %04d\n" % i for i in range(1000)]
    with Writer(path, rotate_bytes=1234, kept=100) as writer:
        for at in range(0, len(lines), 37):
            writer.write(b"".join(lines[at : at + 37]))
        assert writer.written == 10_000
    files = sorted(tmp_path.iterdir(), key=lambda f: -int(f.suffix[1:] if f.suffix != ".txt" else 0))
    assert len(files) == 9 and all(file.stat().st_size <= 1234 for file in files)
    assert b"".join(file.read_bytes() for file in files) == b"".join(lines)
    assert all(file.read_bytes().endswith(b"\n") for file in files)


def test_only_the_newest_files_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "log"
    with Writer(path, rotate_bytes=100, kept=2) as writer:
        for i in range(100):
            writer.write(b"line %04d\n" % i)
    assert sorted(f.name for f in tmp_path.iterdir()) == ["log", "log.1", "log.2"]
    assert path.read_bytes().endswith(b"line 0099\n")
    assert (tmp_path / "log.1").read_bytes().endswith(b"line 0089\n")


def test_a_line_longer_than_a_file(tmp_path: Path) -> None:
    with Writer(tmp_path / "log", rotate_bytes=10, kept=9) as writer:
        writer.write(b"x" * 50 + b"\nshort\n")
    assert (tmp_path / "log.1").read_bytes() == b"x" * 50 + b"\n" and (
        tmp_path / "log"
    ).read_bytes() == b"short\n"


def test_what_the_user_has_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("mine\n")
    with pytest.raises(UsageError):
        Writer(path)
    assert path.read_text() == "mine\n"
    with Writer(path, append=True) as writer:
        writer.write(b"more\n")
    assert path.read_text() == "mine\nmore\n"


def test_a_full_disk_is_said() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("no /dev/full here")
    writer = Writer(Path("/dev/full"), append=True, rotate_bytes=0)
    with pytest.raises(FileError) as raised:
        writer.write(b"x\n")
    assert "No space" in str(raised.value.evidence)


# The budget of benchmarks: 50,000 lines a second, of which this may be a slow or busy machine's share.
LINES_PER_CPU_SECOND = 50_000


def test_speed_and_memory(tmp_path: Path) -> None:
    """Parsed, joined, filtered and saved: faster than any phone logs, in memory that does not grow."""
    block = b"".join(
        entry(
            b"line %d of a text about as long as others are" % i, tag=b"MNNJNI" if i % 10 == 0 else b"Other"
        )
        for i in range(5_000)
    )
    parser, seam, form = BinaryParser(), Seam(), TextForm()
    shows = Filters(*_specs("MNNJNI:V", "*:S")).compiled()
    shown = 0
    with Writer(tmp_path / "log", rotate_bytes=2_000_000, kept=2) as writer:

        def pass_through(times: int) -> None:
            nonlocal shown
            for _ in range(times):
                for at in range(0, len(block), 65_536):
                    records, _ = seam.join(parser.feed(block[at : at + 65_536]))
                    writer.write(form.lines(records))
                    shown += sum(map(shows, records))

        pass_through(10)
        before_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        began = time.process_time()
        pass_through(40)
        spent_s = time.process_time() - began
        grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kib
    assert shown == 50 * 500
    assert 200_000 / spent_s > LINES_PER_CPU_SECOND, f"{200_000 / spent_s:.0f} lines/s"
    assert grown_kib < 8 * 1024, f"{grown_kib} KiB"


def _specs(*specs: str) -> tuple[dict[bytes, int], int]:
    tags, others = parse_specs(specs)
    assert others is not None
    return tags, others
