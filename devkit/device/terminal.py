"""This process's terminal (or pipes) joined to a command on the phone, as `adb shell` does it."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from devkit import output
from devkit.device.connection import Deadline
from devkit.device.failures import PhoneLost
from devkit.device.phone import Device
from devkit.device.shell import ShellStream
from devkit.errors import FileError, OperationTimeout

_STDIN_FD = 0
_READ_BYTES = 64 * 1024
STOP_CHECK_S = 0.25
_FORWARD_END_S = 1.0


class StreamStopped(Exception):
    """`join_terminal` was told to stop; the command may still be running on the phone."""


class Input:
    """Where a command's stdin comes from. Made by `Input.opened`.

    Attributes:
        fd: what is read.
        last_line: sent when it has ended and is no terminal, for programs that do not notice the end.
    """

    def __init__(self, fd: int = _STDIN_FD, *, last_line: str | None = None) -> None:
        self.fd = fd
        self.last_line = last_line

    @staticmethod
    @contextlib.contextmanager
    def opened(file: Path | None = None, *, last_line: str | None = None) -> Iterator[Input]:
        """This process's stdin, or a file from its beginning.

        Raises:
            FileError: it cannot be read.
        """
        if file is None and sys.stdin is not None:
            yield Input(last_line=last_line)
            return
        # Started without stdin (`<&-`): its number may be a socket of ours by now.
        file = file or Path(os.devnull)
        try:
            fd = os.open(file, os.O_RDONLY | getattr(os, "O_BINARY", 0))
        except OSError as error:
            raise FileError(
                f"{file} cannot be read for standard input", evidence=os.strerror(error.errno or 0)
            ) from None
        with os.fdopen(fd, "rb", closefd=True) as opened:
            yield Input(opened.fileno(), last_line=last_line)

    @property
    def is_terminal(self) -> bool:
        return os.isatty(self.fd)

    def ending(self, last_byte: bytes) -> bytes:
        """What is sent at the end, behind `last_byte` (empty: nothing was sent before)."""
        if self.last_line is None or self.is_terminal:
            return b""
        line = self.last_line.encode("utf-8", "surrogateescape") + b"\n"
        return line if last_byte in (b"", b"\n") else b"\n" + line


def join_terminal(
    device: Device,
    command: str,
    *,
    timeout_s: float | None = None,
    doing: str | None = None,
    source: Input | None = None,
    tty: bool | None = None,
    stopped: Callable[[], bool] | None = None,
    on_output: Callable[[bytes, bool], None] | None = None,
) -> int:
    """Run a command on the phone with this process's stdin, stdout and stderr; return its exit code.

    On a terminal the command gets a pty and this terminal is raw meanwhile: Ctrl-C goes to the
    phone, and `~.` at the start of a line hangs up. Otherwise stdin is passed on until its end.

    Args:
        command: a line for the phone's sh; empty for a login shell.
        timeout_s: how long it may take in all.
        doing: what it is for, for messages, as "running llm_demo".
        source: its stdin (default: this process's).
        tty: whether it gets a pty (default: when stdin and stdout are a terminal). The end of an input
            that is no terminal arrives on a pty as Ctrl-D.
        stopped: asked about every STOP_CHECK_S seconds; True ends the connection.
        on_output: gets all output too, after it is shown; the flag says that it is of stderr.

    Raises:
        KeyboardInterrupt: the user hung up (`~.`).
        StreamStopped: `stopped` said so.
        OperationTimeout: it was still running after `timeout_s`.
        PhoneLost, DeviceNotReady: as `Device.open_shell`.
    """
    source = source or Input()
    at_terminal = _has_raw_mode() and source.is_terminal
    tty = wants_pty(source, tty)
    term = os.environ.get("TERM") if tty else None
    size = _terminal_size() if tty else None
    with contextlib.ExitStack() as stack:
        stream = stack.enter_context(device.open_shell(command, pty=tty, term=term, size=size, doing=doing))
        keys = None
        if tty and at_terminal:
            stack.enter_context(_raw_terminal())
            stack.enter_context(_follow_size(stream))
            keys = HangUpKeys()
        stack.enter_context(_forwarded(stream, source, keys, pty=tty))
        try:
            return _show(stream, timeout_s, stopped, on_output)
        except PhoneLost:
            if keys is not None and keys.hung_up:
                raise KeyboardInterrupt from None
            raise


def wants_pty(source: Input, tty: bool | None) -> bool:
    """Whether `join_terminal` asks for a pty."""
    if tty is not None:
        return tty
    return _has_raw_mode() and source.is_terminal and sys.stdout.isatty()


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


def _show(
    stream: ShellStream,
    timeout_s: float | None,
    stopped: Callable[[], bool] | None,
    on_output: Callable[[bytes, bool], None] | None,
) -> int:
    sink = output.current()
    deadline = Deadline(timeout_s)
    check_at = time.monotonic()
    while True:
        if stopped is not None and time.monotonic() >= check_at:
            if stopped():
                raise StreamStopped
            check_at = time.monotonic() + STOP_CHECK_S
        left_s = deadline.left_s()
        wait_s = left_s if stopped is None else min(STOP_CHECK_S, STOP_CHECK_S if left_s is None else left_s)
        try:
            name, data = stream.read(wait_s)
        except OperationTimeout:
            if stopped is None or deadline.passed():
                raise
            continue
        if isinstance(data, int):
            return data
        sink.raw(data, stderr=name == "stderr")
        if on_output is not None:
            on_output(data, name == "stderr")


@contextlib.contextmanager
def _forwarded(stream: ShellStream, source: Input, keys: HangUpKeys | None, *, pty: bool) -> Iterator[None]:
    """Pass the input on in a thread, which takes nothing more afterwards: the next command may want it."""
    wake: tuple[int, int] | None = os.pipe() if os.name == "posix" else None
    forwarding = threading.Thread(
        target=_forward, args=(stream, source, keys, pty, wake[0] if wake else None), daemon=True
    )
    forwarding.start()
    try:
        yield
    finally:
        if wake is not None:
            os.close(wake[1])
            # It may be sending to a command that does not read.
            stream.close()
            forwarding.join(_FORWARD_END_S)
            if not forwarding.is_alive():
                os.close(wake[0])


def _forward(
    stream: ShellStream, source: Input, keys: HangUpKeys | None, pty: bool, wake_fd: int | None
) -> None:
    last_byte = b""
    while True:
        data = _read_or_wake(source.fd, wake_fd)
        if data is None:
            return
        if not data:
            stream.write_stdin(source.ending(last_byte))
            if pty and not source.is_terminal:
                # The line discipline's end of file; the first ends a line that has no newline.
                stream.write_stdin(b"\x04" if last_byte in (b"", b"\n") or source.last_line else b"\x04\x04")
            else:
                stream.close_stdin()
            return
        if keys is not None and keys.seen(data):
            stream.close()
            return
        stream.write_stdin(data)
        last_byte = data[-1:]


def _read_or_wake(fd: int, wake_fd: int | None) -> bytes | None:
    """Some bytes, b"" at the end; None when woken."""
    # os.read, not sys.stdin: a thread that waits inside sys.stdin's lock blocks the interpreter's end.
    try:
        if wake_fd is not None:
            # poll, not select: that fails for numbers above 1023.
            poller = select.poll()
            poller.register(wake_fd, select.POLLIN)
            poller.register(fd, select.POLLIN)
            ready = dict(poller.poll())
            if wake_fd in ready:
                return None
        return os.read(fd, _READ_BYTES)
    except OSError:
        return b""


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
