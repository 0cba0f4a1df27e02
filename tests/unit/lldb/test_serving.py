"""Ending an editor's session: asked first, and told by a signal only when it does not answer."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.lldb import serving
from devkit.ndk import lock


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[list[int]]:
    """The signals that this process, which holds the session, was sent."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(serving, "ASKED_S", 0.3)
    found: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _frame: found.append(number))
    yield found
    signal.signal(signal.SIGTERM, before)


def hold(folder: Path, *, busy: bool) -> tuple[threading.Thread, threading.Event]:
    """A session in a thread, until the event is set; `busy`: it takes leave of a phone."""
    folder.mkdir()
    begun, over = threading.Event(), threading.Event()

    def run() -> None:
        file = serving._lock_file(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        with lock.exclusive(file, "a session"):
            if busy:
                (folder / serving.BUSY_FILE).touch()
            begun.set()
            over.wait(30)

    thread = threading.Thread(target=run)
    thread.start()
    assert begun.wait(30)
    return thread, over


def test_a_session_that_leaves_a_busy_phone_is_not_killed(tmp_path: Path, told: list[int]) -> None:
    thread, over = hold(tmp_path / "d", busy=True)
    timer = threading.Timer(4 * serving.ASKED_S, over.set)
    timer.start()
    began = time.monotonic()
    assert serving.end_serving(tmp_path / "d")
    thread.join()
    assert told == [] and time.monotonic() - began >= 3 * serving.ASKED_S


def test_one_that_does_not_look_is_told_by_a_signal(tmp_path: Path, told: list[int]) -> None:
    thread, over = hold(tmp_path / "d", busy=False)
    before = signal.signal(signal.SIGTERM, lambda number, _frame: (told.append(number), over.set())[0])
    assert serving.end_serving(tmp_path / "d")
    signal.signal(signal.SIGTERM, before)
    thread.join()
    assert told == [signal.SIGTERM]
    assert not serving.end_serving(tmp_path / "d")
