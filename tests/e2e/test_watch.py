"""`devkit watch`: save, build, deploy, run again, with the real cmake on a small project."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Sim, eventually, left_on_phone
from tests.e2e.terminal import Terminal

CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(watched CXX)
add_executable(watched main.cpp)
"""
MAIN = """\
#include "answer.h"
#include <cstdio>
#include <unistd.h>
int main(int argc, char**) {
  std::printf("answer %d\\n", ANSWER);
  std::fflush(stdout);
  while (argc > 1) sleep(1);
  return ANSWER;
}
"""


@pytest.fixture
def project(workdir: Path) -> Path:
    (workdir / "CMakeLists.txt").write_text(CMAKE)
    (workdir / "main.cpp").write_text(MAIN)
    (workdir / "answer.h").write_text("#define ANSWER 1\n")
    (workdir / "data.txt").write_text("one")
    (workdir / "devkit.yaml").write_text(
        "engine: cmake\napps:\n  watched:\n    profile: host-like\n    files: [data.txt]\n"
        "profiles:\n  host-like: {target: device}\n"
    )
    return workdir


class Watching:
    """devkit watch as a process, its output collected as it comes."""

    def __init__(self, folder: Path, *args: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "devkit", "watch", *args],
            cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
        self._text = b""
        self._position = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        while data := os.read(self.process.stdout.fileno(), 4096):
            self._text += data

    @property
    def text(self) -> str:
        return self._text.decode("utf-8", "replace")

    def wait_for(self, words: str, within_s: float = 90) -> None:
        """Until the words come, behind what was waited for before."""
        deadline = time.monotonic() + within_s
        while (found := self.text.find(words, self._position)) < 0:
            assert time.monotonic() < deadline and self.process.poll() is None, self.text[self._position :]
            time.sleep(0.05)
        self._position = found + len(words)


@pytest.fixture
def watching(sim: Sim, project: Path) -> Iterator[list[Watching]]:
    started: list[Watching] = []
    yield started
    for one in started:
        one.process.kill()
        one.process.wait()


def test_each_save_builds_and_runs_again(
    sim: Sim, project: Path, device: Device, watching: list[Watching]
) -> None:
    watch = Watching(project, "watched")
    watching.append(watch)
    watch.wait_for("answer 1")
    watch.wait_for("ended with exit code 1; waiting for a change")
    (project / "answer.h").write_text("#define ANSWER 2\n")
    watch.wait_for("changed: answer.h")
    watch.wait_for("answer 2")
    watch.wait_for("waiting for a change")
    # A build that fails: its error, and another try after the next save.
    (project / "answer.h").write_text("#define ANSWER nonsense\n")
    watch.wait_for("nonsense")
    watch.wait_for("waiting for a change")
    (project / "answer.h").write_text("#define ANSWER 4\n")
    watch.wait_for("answer 4")
    watch.wait_for("waiting for a change")
    # Several saves at once are one.
    before = watch.text.count("changed: ")
    for number in range(5, 9):
        (project / "answer.h").write_text(f"#define ANSWER {number}\n")
        (project / f"new{number}.h").touch()
        time.sleep(0.05)
    watch.wait_for("answer 8")
    watch.wait_for("waiting for a change")
    assert watch.text.count("changed: ") == before + 1
    # Data of the app travels again; what the build does not read is no reason.
    (project / "notes.md").write_text("x")
    (project / "data.txt").write_text("two")
    watch.wait_for("changed: data.txt")
    watch.wait_for("answer 8")
    watch.wait_for("waiting for a change")
    assert device.read_bytes("/data/local/tmp/devkit/watched/data.txt") == b"two"
    # A mistake in devkit.yaml is said, and mended.
    yaml = (project / "devkit.yaml").read_text()
    (project / "devkit.yaml").write_text(yaml.replace("files:", "flies:"))
    watch.wait_for("unknown key")
    watch.wait_for("waiting for a change")
    (project / "devkit.yaml").write_text(yaml)
    watch.wait_for("answer 8")
    watch.wait_for("waiting for a change")
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(20) == 130
    assert "Traceback" not in watch.text


def test_a_running_program_is_ended_before_the_next(
    sim: Sim, project: Path, device: Device, watching: list[Watching]
) -> None:
    watch = Watching(project, "watched", "--", "stay")
    watching.append(watch)
    watch.wait_for("answer 1")
    assert len(left_on_phone(device, "watched stay")) == 1
    (project / "answer.h").write_text("#define ANSWER 2\n")
    watch.wait_for("answer 2")
    assert len(left_on_phone(device, "watched stay")) == 1
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(20) == 130
    assert not left_on_phone(device, "watched stay", ".devkit-guard")


def test_on_a_terminal_one_key_ends_it(
    sim: Sim, project: Path, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    with Terminal("watch", "watched", "--", "stay") as terminal:
        terminal.wait_for(b"answer 1", 90)
        (project / "answer.h").write_text("#define ANSWER 2\n")
        terminal.wait_for(b"answer 2", 90)
        assert terminal.modes() != terminal.fresh
        terminal.type(b"\x03")
        assert terminal.end() == 130
    assert eventually(lambda: not left_on_phone(device, "watched stay"))


def test_what_cannot_be_watched(sim: Sim, project: Path, devkit: object) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "devkit", "watch", "./nothing"], cwd=project, capture_output=True, text=True,
        timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 2 and "does not exist" in done.stderr
