"""`devkit symbolize` as a user runs it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

CASES = Path(__file__).parents[2] / "data" / "cases"


def devkit(*args: object, cwd: Path, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    argv = [sys.executable, "-m", "devkit", "symbolize", *map(str, args)]
    return subprocess.run(argv, cwd=cwd, input=stdin, capture_output=True, check=False)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_json_from_a_file_in_the_encodings_people_save(tmp_path: Path, encoding: str) -> None:
    log = tmp_path / "日志 log.txt"
    log.write_bytes((CASES / "I1" / "logcat.txt").read_text().encode(encoding))
    done = devkit("--symbols", CASES / "_symbols", log, "--json", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, b"")
    (crash,) = json.loads(done.stdout)["crashes"]
    assert crash["class"] == "null pointer"
    assert crash["own"] == {
        "frame": 0, "function": "kit::take(int*, int)", "file": "/home/src/fixture.cpp", "line": 7,
    }  # fmt: skip
    frames = crash["stacks"][0]["frames"]
    assert [frame["verdict"] for frame in frames] == ["match"] * 3 + ["unknown"] * 2
    assert frames[2]["locations"] == [
        {"function": "kit_run", "file": "/home/src/fixture.cpp", "line": 44, "column": 13}
    ]


def test_stdin_and_the_source_below_the_working_folder(tmp_path: Path) -> None:
    source = tmp_path / "src" / "fixture.cpp"
    source.parent.mkdir()
    source.write_text("".join(f"line {number}\n" for number in range(1, 60)))
    log = (CASES / "I1" / "logcat.txt").read_bytes()
    done = devkit("--symbols", CASES / "_symbols", "-", cwd=tmp_path, stdin=log)
    assert done.returncode == 0
    text = done.stdout.decode()
    assert "> 7 | line 7" in text and "  9 | line 9" in text and "line 10" not in text


def test_a_text_without_a_crash(tmp_path: Path) -> None:
    done = devkit("-", cwd=tmp_path, stdin=b"hello\nworld\n")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"no crash in 2 lines\n", b"")


def test_what_is_built_here_is_looked_at_unless_told_otherwise(tmp_path: Path) -> None:
    log = (CASES / "I1" / "logcat.txt").read_bytes()
    done = devkit("-", cwd=tmp_path, stdin=log)
    assert b"nothing is built here" in done.stderr and b"devkit symbolize --symbols DIR" in done.stdout
    built = tmp_path / "build" / "devkit" / "cpu-arm64-v8a-debug"
    built.mkdir(parents=True)
    (built / "libllm.so").write_bytes((CASES / "_symbols" / "libllm.so").read_bytes())
    done = devkit("-", cwd=tmp_path, stdin=log)
    assert b"/home/src/fixture.cpp:7:12" in done.stdout and done.stderr == b""


def test_known_errors_come_with_their_cause(tmp_path: Path) -> None:
    done = devkit(CASES / "K1" / "run.log", cwd=tmp_path)
    assert done.returncode == 0
    assert b"line 2: QNN libraries of two SDKs are mixed" in done.stdout


def test_mistakes_are_answered_without_a_traceback(tmp_path: Path) -> None:
    for args, words in (
        ([], b"no text to read"),
        (["no-such-file"], b"cannot be read"),
        (["--symbols", "nowhere", CASES / "I1" / "logcat.txt"], b"nowhere does not exist"),
    ):
        done = devkit(*args, cwd=tmp_path)
        assert done.returncode != 0 and words in done.stderr and b"Traceback" not in done.stderr


def test_any_bytes_are_read(tmp_path: Path) -> None:
    done = devkit("-", cwd=tmp_path, stdin=bytes(range(256)) * 2000)
    assert done.returncode == 0 and done.stdout.startswith(b"no crash in ")
