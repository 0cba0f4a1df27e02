"""Runs a deployed program on the phone: live output, its own exit code, and a certain end."""

from __future__ import annotations

import contextlib
import os
import posixpath
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DeviceError, OperationTimeout
from devkit.runtime.guard import Guard

if TYPE_CHECKING:
    from devkit.device import Device, ShellStream


@dataclass(frozen=True)
class Launch:
    """How a program is started on the phone.

    `library_path` is the value of LD_LIBRARY_PATH: the app's folder comes first, because
    executables of the NDK carry no RUNPATH and vendor images may hold older copies.
    """

    program: str
    args: tuple[str, ...]
    folder: str
    env: Mapping[str, str]

    @property
    def library_path(self) -> str:
        return self.env.get("LD_LIBRARY_PATH", self.folder)

    def environment(self) -> dict[str, str]:
        """All variables that are set for the program."""
        return {**self.env, "LD_LIBRARY_PATH": self.library_path}

    def shell_text(self) -> str:
        """The command for the phone's shell: the shell becomes the program."""
        from devkit.device import quote

        variables = [f"{name}={value}" for name, value in self.environment().items()]
        return f"cd {quote([self.folder])} && exec {quote(['env', *variables, self.program, *self.args])}"


def launch_for(folder: str, program: str, args: Sequence[str], env: Mapping[str, str]) -> Launch:
    """The launch of a deployed program: working directory and libraries are its own folder."""
    return Launch(posixpath.join(folder, program), tuple(args), folder, dict(env))


def run_program(device: Device, launch: Launch, *, timeout_s: float | None = None) -> int:
    """Run to the end with this process's stdin, stdout and stderr; return the exit code.

    128 + n means that signal n ended it. Ctrl-C ends the program on the phone first and then
    raises KeyboardInterrupt. When devkit dies, the program is ended by its guard.

    Raises:
        DeviceError: the phone went away while the program ran.
        OperationTimeout: it still ran after `timeout_s`; it has been ended.
    """
    interactive = sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
    guard = Guard(device, launch.folder)
    finished = False
    try:
        command = guard.prefix + launch.shell_text()
        size = os.get_terminal_size() if interactive else None
        stream = device.open_shell(
            command,
            pty=interactive,
            term=os.environ.get("TERM") if interactive else None,
            size=(size.lines, size.columns) if size else None,
        )
        with contextlib.closing(stream), _forwarded_input(stream, raw=interactive):
            code = _copy_output(stream, launch, timeout_s)
        finished = True
        return code
    finally:
        # Closing says "kill"; "done" says that there is nothing to kill.
        if finished:
            guard.release()
        else:
            guard.kill()


def _copy_output(stream: ShellStream, launch: Launch, timeout_s: float | None) -> int:
    sink = output.current()
    deadline = None if timeout_s is None else time.monotonic() + timeout_s
    while True:
        left = None if deadline is None else max(0.0, deadline - time.monotonic())
        try:
            kind, data = stream.read(timeout_s=left)
        except OperationTimeout:
            raise OperationTimeout(
                f"{posixpath.basename(launch.program)} was still running after {timeout_s:g} s; it was ended",
                where=PHONE,
                hints=["give it more time with --timeout, or none at all"],
            ) from None
        if isinstance(data, int):
            return data
        sink.raw(data, stderr=kind == "stderr")


@contextlib.contextmanager
def _forwarded_input(stream: ShellStream, *, raw: bool) -> Iterator[None]:
    """Copy this process's stdin to the phone in the background, the terminal in raw mode."""
    if sys.stdin is None or sys.stdin.closed:
        stream.close_stdin()
        yield
        return
    with _raw_terminal() if raw else contextlib.nullcontext():
        threading.Thread(target=_copy_input, args=(stream,), daemon=True).start()
        yield


def _copy_input(stream: ShellStream) -> None:
    with contextlib.suppress(OSError, ValueError, DeviceError):
        descriptor = sys.stdin.fileno()
        while data := os.read(descriptor, 65536):
            stream.write_stdin(data)
        stream.close_stdin()


@contextlib.contextmanager
def _raw_terminal() -> Iterator[None]:
    """Every key goes to the phone's terminal, Ctrl-C too, as in `adb shell`."""
    try:
        import termios
        import tty
    except ImportError:  # Windows: lines, not keys
        yield
        return
    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    try:
        tty.setraw(descriptor)
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
