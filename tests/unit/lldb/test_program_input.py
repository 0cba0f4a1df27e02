"""A program's input: all of it arrives, and nothing of what is meant for the next session is taken."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from devkit.errors import FileError
from devkit.lldb.program_input import Typing


class Terminal:
    def __init__(self) -> None:
        self.typed = b""
        self.ended = False

    def type(self, data: bytes) -> None:
        self.typed += data

    def end_input(self) -> None:
        self.ended = True

    def wait_for(self, typed: bytes) -> None:
        until = time.monotonic() + 10
        while self.typed != typed and time.monotonic() < until:
            time.sleep(0.01)
        assert self.typed == typed


def test_a_file_and_its_end(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x" * 10_000 + b"\n")
    terminal = Terminal()
    with Typing(tmp_path / "in", terminal):  # type: ignore[arg-type]
        terminal.wait_for(b"x" * 10_000 + b"\n")
    assert terminal.ended
    with pytest.raises(FileError), Typing(tmp_path / "none", terminal):  # type: ignore[arg-type]
        pass


def test_what_comes_after_a_session_is_the_next_ones(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    writer = os.open(tmp_path / "pipe", os.O_RDWR)
    for word in (b"first\n", b"second\n"):
        terminal = Terminal()
        with Typing(tmp_path / "pipe", terminal):  # type: ignore[arg-type]
            os.write(writer, word)
            terminal.wait_for(word)
        assert not terminal.ended
        os.write(writer, b"late\n") if word == b"first\n" else None
        if word == b"first\n":
            assert os.read(writer, 100) == b"late\n"
    os.close(writer)
