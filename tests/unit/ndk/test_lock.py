"""Locks between processes: who waits says for whom."""

from __future__ import annotations

import fcntl
import os
import threading
import time
from pathlib import Path

import pytest

from devkit.ndk.lock import exclusive


def test_a_holder_that_has_not_written_its_number_yet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "the lock"
    with file.open("w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)

        def late() -> None:
            time.sleep(0.05)
            os.write(other.fileno(), b"4711\n")
            time.sleep(0.3)
            fcntl.flock(other, fcntl.LOCK_UN)

        thread = threading.Thread(target=late)
        thread.start()
        with exclusive(file, "installing NDK r29") as waited:
            assert waited and file.read_text("utf-8") == f"{os.getpid()}\n"
        thread.join()
    assert "another devkit is installing NDK r29 (process 4711); waiting for it" in capsys.readouterr().err
    assert file.read_text("utf-8") == ""


def test_a_holder_that_never_says_who_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "the lock"
    with file.open("w", encoding="utf-8") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        timer = threading.Timer(0.5, fcntl.flock, (other, fcntl.LOCK_UN))
        timer.start()
        with exclusive(file, "installing NDK r29") as waited:
            assert waited
        timer.join()
    assert "another devkit is installing NDK r29; waiting for it" in capsys.readouterr().err
