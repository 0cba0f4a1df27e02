"""`devkit logcat` on saved logs: text, JSON lines, filters, nothing for the terminal to obey."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from devkit.cli.main import run
from devkit.logcat.record import Record
from devkit.logcat.show import Columns, as_json, safe
from tests.support.log_entries import entry

CASES = Path(__file__).parents[2] / "data" / "cases"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))


Captured = pytest.CaptureFixture[str]


def test_the_default_shows_what_matters(capsys: Captured) -> None:
    assert run(["logcat", "--file", str(CASES / "H1" / "threadtime.txt")]) == 0
    out = capsys.readouterr().out
    assert "The device supports" in out and "Fatal signal 6" in out and "中文 ✓" in out
    assert "NetReassign" not in out and "\x1b" not in out


def test_json_lines(capsys: Captured) -> None:
    assert run(["logcat", "--all", "--json", "--file", str(CASES / "H1" / "threadtime.txt")]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0] == {"marker": "beginning of main"}
    assert len([row for row in rows if "message" in row]) == 12
    assert {"line": "a line that is no record at all"} in rows
    assert rows[-1]["summary"]["read"] == 12


def test_dropped_lines_are_told_whatever_is_shown(capsys: Captured) -> None:
    assert run(["logcat", "MNNJNI", "--file", str(CASES / "H5" / "chatty.txt")]) == 0
    said = capsys.readouterr()
    assert "identical 27 lines" in said.out and "logdr:" not in said.out
    assert "27 identical lines" in said.err and "12 lines expired" in said.err


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        (["*:W"], ["value: 3: rest", "message of an empty tag", "Fatal signal"]),
        (["--level", "E", "--all"], ["message of an empty tag", "Fatal signal"]),
        (["--all", "--regex", "ctx 0x[0-9a-f]+"], ["emu: main thread"]),
        (["--all", "--pid", "1234567"], ["pid above"]),
        (["--all", "-b", "system"], ["[no changes]"]),
        (["--all", "-m", "1"], ["registered"]),
        (["My Tag With Blank:V", "tombstoned"], ["registered", "value: 3"]),
    ],
)
def test_filters(words: list[str], shown: list[str], capsys: Captured) -> None:
    assert run(["logcat", *words, "--file", str(CASES / "H1" / "threadtime.txt")]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if not line.startswith("a line that")]
    assert len(lines) == len(shown)
    assert all(part in line for part, line in zip(shown, lines, strict=True))


def test_apps_in_a_copy_of_android_studio(capsys: Captured) -> None:
    assert run(["logcat", "--app", "com.example.chat", "--file", str(CASES / "H3" / "studio_new.txt")]) == 0
    out = capsys.readouterr().out
    assert "second line of the same record" in out and "lowmemorykiller" not in out


def test_binary_and_powershell_files(tmp_path: Path, capsys: Captured) -> None:
    (tmp_path / "binary").write_bytes(entry(b"from binary") * 3)
    assert run(["logcat", "--file", "binary"]) == 0
    assert capsys.readouterr().out.count("from binary") == 3
    text = (CASES / "H1" / "threadtime.txt").read_text("utf-8")
    (tmp_path / "utf16").write_text(text.replace("\n", "\r\n"), "utf-16")
    assert run(["logcat", "--file", "utf16"]) == 0
    assert "中文 ✓" in capsys.readouterr().out


def test_save_of_what_is_shown(tmp_path: Path) -> None:
    file = str(CASES / "H1" / "threadtime.txt")
    assert run(["logcat", "MNNJNI", "--file", file, "--save", "saved", "--save-shown"]) == 0
    saved = (tmp_path / "saved").read_bytes()
    assert saved.count(b"MNNJNI  : ") == 4 and b"NetReassign" not in saved
    assert run(["logcat", "--file", file, "--save", "saved"]) == 2
    assert (tmp_path / "saved").read_bytes() == saved


@pytest.mark.parametrize(
    "words",
    [
        ["a:Q"], ["--regex", "("], ["--since", "soon"], ["-b", "mian"], ["--rotate", "big"], ["--level", "Q"],
        ["--duration", "x"], ["--dry-run"],
    ],
)  # fmt: skip
def test_mistakes_are_usage_errors(words: list[str], capsys: Captured) -> None:
    assert run(["logcat", *words, "--file", str(CASES / "H1" / "threadtime.txt")]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_missing_file(capsys: Captured) -> None:
    assert run(["logcat", "--file", "nowhere"]) == 125
    assert "nowhere cannot be read" in capsys.readouterr().err


def test_nothing_steers_the_terminal() -> None:
    assert safe(b"a\x1b[2Jb\r\x07\xff") == "a\\x1b[2Jb\\x0d\\x07\\xff"
    assert safe("a\u202eb\x9bc".encode()) == "a\\u202eb\\x9bc"
    assert safe("中文 ✓\tx".encode()) == "中文 ✓\tx"


def test_columns_stay_aligned() -> None:
    columns = Columns(color=False)
    base = Record(None, "main", 1, 100, 101, 4, b"longer_than_eight", b"one\ntwo")
    first, second = columns.text(base), columns.text(base._replace(tag=b"x"))
    lines = (first + second).splitlines()
    assert [line.index(word) for line, word in zip(lines, ["one", "two", "one", "two"], strict=True)] == [
        lines[0].index("one")
    ] * 4
    painted = Columns(color=True).text(base._replace(level=6))
    assert painted.count("\x1b[31m") == 3 and painted.endswith("\x1b[0m\n")


def test_json_says_what_is_no_text() -> None:
    value = as_json(Record(5, "main", 1, 1, 1, 4, b"t", b"\xff"))
    assert value["message"] == "\\xff" and value["utf8"] is False and value["time"] == "0.000000005"


THREADTIME = str(CASES / "H1" / "threadtime.txt")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--clear", "--file", THREADTIME], "name one of them"),
        (["--append"], "--append goes with --save"),
        (["--save-shown"], "--save-shown goes with --save"),
        (["--dry-run"], "--dry-run goes with --clear"),
        (["--app", " ", "--file", THREADTIME], "--app needs a name"),
        (["--pid", "0", "--file", THREADTIME], "--pid"),
        (["", "--file", THREADTIME], "no filter"),
        (["--since", "1h", "--until", "2h", "--file", THREADTIME], "later than --until"),
        (["--save", ".", "--file", THREADTIME], "is a folder"),
    ],
)
def test_what_would_be_passed_over_is_refused(words: list[str], said: str, capsys: Captured) -> None:
    assert run(["logcat", *words]) == 2
    err = capsys.readouterr().err
    assert said in err and "showing" not in err


def test_a_packed_log(tmp_path: Path, capsys: Captured) -> None:
    import gzip

    (tmp_path / "log.gz").write_bytes(gzip.compress(Path(THREADTIME).read_bytes()))
    assert run(["logcat", "--all", "--file", THREADTIME]) == 0
    plain = capsys.readouterr().out
    assert run(["logcat", "--all", "--file", "log.gz"]) == 0
    assert capsys.readouterr().out == plain
    (tmp_path / "cut.gz").write_bytes((tmp_path / "log.gz").read_bytes()[:200])
    assert run(["logcat", "--all", "--file", "cut.gz"]) == 125
    (tmp_path / "bug.zip").write_bytes(b"PK\x03\x04" + bytes(40))
    assert run(["logcat", "--all", "--file", "bug.zip"]) == 125
    err = capsys.readouterr().err
    assert "gzip file is broken" in err and "unzip" in err and "Traceback" not in err


def test_a_pipe_is_shown_as_it_comes(tmp_path: Path) -> None:
    reader = subprocess.Popen(
        [sys.executable, "-m", "devkit", "logcat", "--all", "--file", "-"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert reader.stdin is not None and reader.stdout is not None
    for number in range(3):
        reader.stdin.write(b"05-14 10:22:30.108 12345 12361 I MNNJNI  : line %d\n" % number)
        reader.stdin.flush()
        assert b"line %d" % number in reader.stdout.readline()
    reader.stdin.close()
    assert reader.wait(30) == 0
    reader.stdout.close()
