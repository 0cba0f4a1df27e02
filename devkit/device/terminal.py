"""This process's terminal (or pipes) joined to a command on the phone, as `adb shell` does it."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Iterator

from devkit import output
from devkit.device.connection import Deadline
from devkit.device.failures import PhoneLost
from devkit.device.phone import Device
from devkit.device.shell import ShellStream

_STDIN_FD = 0
_READ_BYTES = 64 * 1024


def join_terminal(
    device: Device, command: str, *, timeout_s: float | None = None, doing: str | None = None
) -> int:
    """Run a command on the phone with this process's stdin, stdout and stderr; return its exit code.

    On a terminal the command gets a pty and this terminal is raw meanwhile: Ctrl-C goes to the
    phone, and `~.` at the start of a line hangs up. Otherwise stdin is passed on until its end.

    Args:
        command: a line for the phone's sh; empty for a login shell.
        timeout_s: how long it may take in all.
        doing: what it is for, for messages, as "running llm_demo".

    Raises:
        KeyboardInterrupt: the user hung up (`~.`).
        OperationTimeout: it was still running after `timeout_s`.
        PhoneLost, DeviceNotReady: as `Device.open_shell`.
    """
    if _has_raw_mode() and sys.stdin.isatty() and sys.stdout.isatty():
        return _with_pty(device, command, timeout_s, doing)
    with device.open_shell(command, doing=doing) as stream:
        threading.Thread(target=_forward, args=(stream, None), daemon=True).start()
        return _show(stream, timeout_s)


def _with_pty(device: Device, command: str, timeout_s: float | None, doing: str | None) -> int:
    term = os.environ.get("TERM")
    stream = device.open_shell(command, pty=True, term=term, size=_terminal_size(), doing=doing)
    with stream, _raw_terminal(), _follow_size(stream):
        keys = HangUpKeys()
        threading.Thread(target=_forward, args=(stream, keys), daemon=True).start()
        try:
            return _show(stream, timeout_s)
        except PhoneLost:
            if keys.hung_up:
                raise KeyboardInterrupt from None
            raise


class HangUpKeys:
    """Finds `~.` at the start of a line, the way out when the link is dead (as ssh and adb have it)."""

    def __init__(self) -> None:
        self._state = "line start"
        self.hung_up = False

    def seen(self, typed: bytes) -> bool:
        """Whether what was typed so far ends the session."""
        for byte in typed:
            key = bytes((byte,))
            if self._state == "tilde" and key == b".":
                self.hung_up = True
                return True
            if key in b"\r\n":
                self._state = "line start"
            elif self._state == "line start" and key == b"~":
                self._state = "tilde"
            else:
                self._state = "in line"
        return False


def _show(stream: ShellStream, timeout_s: float | None) -> int:
    sink = output.current()
    deadline = Deadline(timeout_s)
    while True:
        name, data = stream.read(deadline.left_s())
        if isinstance(data, int):
            return data
        sink.raw(data, stderr=name == "stderr")


def _forward(stream: ShellStream, keys: HangUpKeys | None) -> None:
    # os.read, not sys.stdin: a thread that waits inside sys.stdin's lock blocks the interpreter's end.
    while True:
        try:
            data = os.read(_STDIN_FD, _READ_BYTES)
        except OSError:
            data = b""
        if not data:
            stream.close_stdin()
            return
        if keys is not None and keys.seen(data):
            stream.close()
            return
        stream.write_stdin(data)


def _terminal_size() -> tuple[int, int]:
    """(rows, columns). Not shutil's function: it believes COLUMNS and LINES, which go stale."""
    try:
        size = os.get_terminal_size(_STDIN_FD)
    except OSError:
        return 24, 80
    return size.lines, size.columns


def _has_raw_mode() -> bool:
    try:
        import termios  # noqa: F401
    except ImportError:
        return False
    return True


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    import termios
    import tty

    before = termios.tcgetattr(_STDIN_FD)
    try:
        # Not its default, TCSAFLUSH, which throws away what was typed ahead.
        tty.setraw(_STDIN_FD, termios.TCSADRAIN)
        yield
    finally:
        termios.tcsetattr(_STDIN_FD, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _follow_size(stream: ShellStream) -> Iterator[None]:
    """Tell the phone each new size of the terminal window."""

    def resize() -> None:
        stream.resize(*_terminal_size())

    def on_change(*_signal: object) -> None:
        # In a thread: the sending lock may be held by the code that this signal interrupts.
        threading.Thread(target=resize, daemon=True).start()

    number = getattr(signal, "SIGWINCH", None)
    if number is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(number, on_change)
    try:
        yield
    finally:
        signal.signal(number, before)
