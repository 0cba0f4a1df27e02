"""`devkit debug` at LLDB's prompt, on a terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import process
from devkit.device import Device
from tests.e2e.support import Sim, TinyApp, eventually, left_on_phone
from tests.e2e.terminal import Terminal
from tests.e2e.test_debug import CALL_LINE, OURS, children_of, nothing_left, session_folders


@pytest.fixture
def prompt(sim: Sim, tiny: TinyApp, device: Device, workdir: Path) -> Iterator[Terminal]:
    with Terminal("debug", str(tiny.program), "--", "wait") as terminal:
        # The stop is shown, not only the prompt.
        terminal.wait_for(b"stop reason = one-shot breakpoint")
        terminal.wait_for(b"int main(int argc, char** argv)")
        terminal.wait_for(b"(lldb)")
        yield terminal
    assert nothing_left(device)


def test_continue_pause_and_quit(prompt: Terminal) -> None:
    prompt.type(b"process continue\n")
    # Its own word that it has arrived: before that it may still be in the dynamic linker. And the
    # key belongs to the command until LLDB's prompt is back, which is drawn again after output.
    prompt.wait_for_all(b"resuming", b"waiting")
    prompt.wait_for(b"(lldb)")
    prompt.type(b"\x03")
    prompt.wait_for(b"stop reason = signal")
    prompt.type(b"thread backtrace\n")
    prompt.wait_for(b"wait_forever")
    prompt.type(b"quit\n")
    prompt.wait_for(b"[Y/n]")
    prompt.type(b"y\n")
    assert prompt.end() == 0


def test_end_of_input_ends_it(prompt: Terminal) -> None:
    # In the terminal's own mode, before LLDB edits its line, the key would be the kernel's.
    assert eventually(lambda: prompt.modes() != prompt.fresh)
    prompt.type(b"\x04")
    assert prompt.end() == 0


def test_a_closed_window_leaves_nothing(prompt: Terminal, device: Device) -> None:
    assert left_on_phone(device, "tiny wait")
    assert prompt.hang_up() == 128 + signal.SIGHUP


def test_a_killed_lldb_is_told_and_leaves_the_terminal_as_it_was(prompt: Terminal) -> None:
    (lldb,) = children_of(prompt.pid)
    assert eventually(lambda: prompt.modes() != prompt.fresh)  # LLDB edits its line in a raw mode
    os.kill(lldb, signal.SIGKILL)
    prompt.wait_for(b"LLDB was ended in the middle of the session (signal 9)")
    assert prompt.modes() == prompt.fresh
    assert prompt.end() == 125


def test_a_terminated_devkit_takes_lldb_along(prompt: Terminal) -> None:
    (lldb,) = children_of(prompt.pid)
    os.kill(prompt.pid, signal.SIGTERM)
    assert prompt.end() == 128 + signal.SIGTERM
    assert eventually(lambda: not process.is_alive(lldb))


def test_a_killed_devkit_leaves_nothing_but_its_folder(
    sim: Sim, tiny: TinyApp, device: Device, workdir: Path
) -> None:
    with Terminal("debug", str(tiny.program), "-b", f"main.cpp:{CALL_LINE}", "--", "deaf") as terminal:
        terminal.wait_for(b"waiting")
        (lldb,) = children_of(terminal.pid)
        os.kill(terminal.pid, signal.SIGKILL)
        assert terminal.end() == -signal.SIGKILL
    assert eventually(lambda: not process.is_alive(lldb))
    assert eventually(lambda: not left_on_phone(device, *OURS))
    assert len(session_folders()) == 1


def test_breakpoints_without_code_are_said_at_the_prompt(
    sim: Sim, tiny: TinyApp, device: Device, workdir: Path
) -> None:
    with Terminal("debug", str(tiny.program), "-b", "no_such") as terminal:
        terminal.wait_for(b"warning: no code is at the breakpoint name = 'no_such'")
        terminal.wait_for(b"exited with status = 7")
        terminal.wait_for(b"(lldb)")
        terminal.type(b"quit\n")
        assert terminal.end() == 0
    assert nothing_left(device)
