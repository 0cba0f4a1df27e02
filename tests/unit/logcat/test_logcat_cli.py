"""`devkit logcat` on saved logs: text, JSON lines, filters, nothing for the terminal to obey."""

from __future__ import annotations

import json
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
