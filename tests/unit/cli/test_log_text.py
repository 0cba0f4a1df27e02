"""What people give `devkit symbolize`: compressed logs, bug reports, and things that are no text."""

from __future__ import annotations

import gzip
import zipfile
from pathlib import Path

import pytest

from devkit.cli.log_text import lines_of
from devkit.crashes import read_crashes
from devkit.errors import DevkitError, FileError, UsageError

CASES = Path(__file__).parents[2] / "data/cases"
LOG = (CASES / "I1/logcat.txt").read_bytes()
TOMBSTONE = b"""\
*** *** *** *** *** *** *** *** *** *** *** *** *** *** *** ***
pid: 7, tid: 7, name: other  >>> ./other <<<
signal 6 (SIGABRT), code -1 (SI_QUEUE), fault addr --------
backtrace:
      #00 pc 00000000000004cc  /data/local/tmp/devkit/libllm.so
"""


def signals(file: Path) -> list[str | None]:
    return [crash.signal for crash in read_crashes(lines_of(str(file))).crashes]


def test_a_bug_report_as_adb_makes_it(tmp_path: Path) -> None:
    file = tmp_path / "bugreport-phone_a-2026.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("main_entry.txt", "bugreport-phone_a-2026.txt")
        archive.writestr("bugreport-phone_a-2026.txt", LOG)
        archive.writestr("FS/data/tombstones/tombstone_00", TOMBSTONE)
        archive.writestr("FS/data/tombstones/tombstone_00.pb", b"\x08\x01" + TOMBSTONE)
    assert signals(file) == ["SIGSEGV", "SIGABRT"]


def test_a_compressed_log(tmp_path: Path) -> None:
    file = tmp_path / "log.txt.gz"
    file.write_bytes(gzip.compress(LOG))
    assert signals(file) == ["SIGSEGV"]
    file.write_bytes(gzip.compress(LOG * 50)[:-200])
    with pytest.raises(FileError, match="cannot be read"):
        signals(file)


@pytest.mark.parametrize(
    ("name", "content", "says", "step"),
    [
        ("libllm.so", (CASES / "_symbols/libllm.so").read_bytes(), "no text with crashes", "--symbols"),
        ("base.apk", (CASES / "I3/base.apk").read_bytes(), "no bug report", "--symbols"),
        ("tombstone_03.pb", b"\x08\x01", "binary form", "tombstone_03"),
        ("perf.data", b"PERFILE2" + bytes(100), "simpleperf", "report-sample"),
    ],
)
def test_what_is_no_text(tmp_path: Path, name: str, content: bytes, says: str, step: str) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    with pytest.raises(UsageError, match=says) as caught:
        signals(file)
    assert step in " ".join(caught.value.hints)


def test_a_damaged_zip(tmp_path: Path) -> None:
    file = tmp_path / "bugreport.zip"
    file.write_bytes(b"PK\x03\x04" + bytes(50))
    with pytest.raises(DevkitError, match="cannot be read"):
        signals(file)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig", "utf-8"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    file = tmp_path / "log.txt"
    file.write_bytes(LOG.decode().encode(encoding))
    assert signals(file) == ["SIGSEGV"]
