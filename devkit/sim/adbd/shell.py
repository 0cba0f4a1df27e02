"""Programs on the phone: the services `shell:`, `shell,v2,…:` and `exec:`.

As in Android's adbd (daemon/shell_service.cpp): without the shell protocol every program gets a
terminal (in raw mode when the client did not ask for one), with it a pair of sockets. Closing a stream
of the shell protocol sends SIGHUP to the shell, and only to it; closing one without hangs the terminal up.
"""

from __future__ import annotations

import fcntl
import os
import select
import signal
import socket
import struct
import subprocess
import termios
import tty
from collections.abc import Callable
from dataclasses import dataclass

from devkit.sim.adbd.bridge import Wakeup, Writer, bridge, read_available
from devkit.sim.adbd.log import log
from devkit.sim.adbd.streams import Stream, StreamClosed
from devkit.sim.tracing import attach_guard

SHELL = "/system/bin/sh"
EXIT_CANNOT_START = 126

ID_STDIN = 0
ID_STDOUT = 1
ID_STDERR = 2
ID_EXIT = 3
ID_CLOSE_STDIN = 4
ID_WINDOW_SIZE = 5

FRAME = struct.Struct("<BI")


@dataclass(frozen=True)
class ShellRequest:
    """What a service name asks for.

    Args:
        command: for `sh -c`; empty means an interactive shell.
        terminal: the program gets a terminal in its usual (cooked) mode.
        protocol: stdin, stdout, stderr and the exit code travel in frames.
        term: value of TERM, None to leave it out.
        one_socket: without terminal and protocol, all three streams are one socket (Android 6).
    """

    command: str
    terminal: bool
    protocol: bool
    term: str | None
    one_socket: bool = False


def parse_request(service: str, *, old: bool = False) -> ShellRequest | None:
    """Understand `shell[,arg…]:command` and `exec:command`; None when it is neither.

    Args:
        old: as Android 6 does: a cooked terminal for every `shell:`, none for `exec:`, no arguments.
    """
    head, colon, command = service.partition(":")
    name, *arguments = head.split(",")
    if not colon:
        return None
    if old:
        if arguments or name not in ("shell", "exec"):
            return None
        return ShellRequest(command, name == "shell", protocol=False, term=None, one_socket=name == "exec")
    if name == "exec" and not arguments:
        return ShellRequest(command, terminal=False, protocol=False, term=None)
    if name != "shell":
        return None
    terminal, protocol, term = not command, False, "dumb"
    for argument in arguments:
        if argument == "raw":
            terminal = False
        elif argument == "pty":
            terminal = True
        elif argument == "v2":
            protocol = True
        elif argument.startswith("TERM="):
            term = argument[len("TERM=") :]
    return ShellRequest(command, terminal, protocol, term)


def run_shell(stream: Stream, request: ShellRequest, environment: dict[str, str]) -> None:
    """Run the program and serve its stream to the end."""
    if request.term is not None:
        environment = {**environment, "TERM": request.term}
    argv = [SHELL, "-c", request.command] if request.command else [SHELL, "-"]
    try:
        if request.one_socket:
            process, main_fd, error_fd = _start_on_socket(argv, environment)
        elif request.terminal or not request.protocol:
            process, main_fd, error_fd = _start_on_terminal(argv, environment, raw=not request.terminal)
        else:
            process, main_fd, error_fd = _start_on_sockets(argv, environment)
    except (OSError, subprocess.SubprocessError) as error:
        log(f"cannot start {argv}: {error}")
        stream.accept()
        _report_failure(stream, request, f"error: {error}\n".encode())
        return
    log(f"started pid {process.pid}: {request.command[:200]!r}")
    stream.accept()
    if request.protocol:
        # The conversation closes the descriptors itself, as soon as they have ended.
        _Conversation(stream, process, main_fd, error_fd, on_terminal=request.terminal).run()
    else:
        try:
            bridge(stream, main_fd)
        finally:
            os.close(main_fd)
        stream.close()
        process.wait()


def parse_window_size(data: bytes) -> tuple[int, int, int, int] | None:
    """`rowsxcols,xpixelsxypixels` as four numbers, None when it is not that."""
    try:
        cells, pixels = data.rstrip(b"\0").decode("ascii").split(",")
        rows, columns = cells.split("x")
        width, height = pixels.split("x")
        numbers = (int(rows), int(columns), int(width), int(height))
    except ValueError:
        return None
    return numbers if all(0 <= n <= 0xFFFF for n in numbers) else None


class FrameParser:
    """Cuts the shell protocol's frames out of a byte stream; stdin comes through in pieces."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._id = 0
        self._left = 0
        self._body = bytearray()

    def feed(self, data: memoryview) -> list[tuple[int, memoryview]]:
        """The frames (for stdin: parts of frames) that `data` completes."""
        found: list[tuple[int, memoryview]] = []
        while data:
            if len(self._head) < FRAME.size:
                missing = FRAME.size - len(self._head)
                self._head += data[:missing]
                data = data[missing:]
                if len(self._head) < FRAME.size:
                    break
                self._id, self._left = FRAME.unpack(self._head)
                self._body = bytearray()
            piece = data[: self._left]
            data = data[self._left :]
            self._left -= len(piece)
            if self._id == ID_STDIN:
                if piece:
                    found.append((ID_STDIN, piece))
            elif len(self._body) < _MAX_CONTROL_BYTES:
                self._body += piece
            if self._left == 0:
                if self._id != ID_STDIN:
                    found.append((self._id, memoryview(bytes(self._body))))
                self._head.clear()
        return found


_MAX_CONTROL_BYTES = 4096


class _Conversation:
    """The shell protocol's loop for one program."""

    def __init__(
        self,
        stream: Stream,
        process: subprocess.Popen[bytes],
        main_fd: int,
        error_fd: int | None,
        *,
        on_terminal: bool,
    ) -> None:
        self._stream = stream
        self._process = process
        self._main_fd = main_fd
        self._on_terminal = on_terminal
        self._outputs = {main_fd: ID_STDOUT}
        if error_fd is not None:
            self._outputs[error_fd] = ID_STDERR
        self._writer = Writer(main_fd)
        self._parser = FrameParser()
        self._input: list[tuple[int, memoryview]] = []
        self._poll = select.poll()
        self._registered: dict[int, int] = {}

    def run(self) -> None:
        wakeup = Wakeup()
        self._stream.set_waker(wakeup.wake)
        self._poll.register(wakeup.fd, select.POLLIN)
        try:
            # Like adbd: a background child that holds the outputs keeps the stream open.
            while self._outputs:
                self._pass_input()
                if self._stream.closed and not self._input and not self._writer.busy:
                    raise StreamClosed
                self._register()
                for fd, events in self._poll.poll():
                    if fd == wakeup.fd:
                        wakeup.clear()
                    elif fd in self._outputs:
                        if events & select.POLLOUT:
                            self._writer.flush()
                        if events & ~select.POLLOUT and self._stream.can_write():
                            self._pass_output(fd)
            self._report_exit()
        except StreamClosed:
            log(f"stream of pid {self._process.pid} closed")
            if self._process.poll() is None:
                self._process.send_signal(signal.SIGHUP)
            self._close_outputs()
            self._process.wait()
        finally:
            self._stream.set_waker(lambda: None)
            os.close(wakeup.fd)
            self._close_outputs()

    def _register(self) -> None:
        can_write = self._stream.can_write()
        for fd in self._outputs:
            events = select.POLLIN if can_write else 0
            if fd == self._main_fd and self._writer.busy:
                events |= select.POLLOUT
            if self._registered.get(fd, 0) != events:
                if events:
                    self._poll.register(fd, events)
                else:
                    self._poll.unregister(fd)
                self._registered[fd] = events

    def _pass_output(self, fd: int) -> None:
        data, ended = read_available(fd, self._stream.max_payload - FRAME.size)
        if data:
            self._stream.try_write(FRAME.pack(self._outputs[fd], len(data)) + data)
        if ended:
            self._drop(fd)

    def _drop(self, fd: int) -> None:
        if self._registered.pop(fd, 0):
            self._poll.unregister(fd)
        del self._outputs[fd]
        if fd == self._main_fd:
            self._writer.broken = True
            self._input.clear()
        os.close(fd)

    def _close_outputs(self) -> None:
        for fd in list(self._outputs):
            self._drop(fd)

    def _pass_input(self) -> None:
        while not self._writer.busy:
            if not self._input:
                chunk = self._stream.take()
                if chunk is None:
                    return
                self._input = self._parser.feed(chunk)
                continue
            kind, data = self._input.pop(0)
            if self._writer.broken or self._main_fd not in self._outputs:
                continue
            if kind == ID_STDIN:
                self._writer.put(data)
            elif kind == ID_CLOSE_STDIN and not self._on_terminal:
                _shut_down_writing(self._main_fd)
            elif kind == ID_WINDOW_SIZE and self._on_terminal:
                size = parse_window_size(bytes(data))
                if size is not None:
                    fcntl.ioctl(self._main_fd, termios.TIOCSWINSZ, struct.pack("HHHH", *size))

    def _report_exit(self) -> None:
        code = self._process.wait()
        code = code if code >= 0 else 128 - code
        log(f"pid {self._process.pid} ended: {code}")
        self._stream.write(FRAME.pack(ID_EXIT, 1) + bytes([code & 0xFF]))
        self._stream.close()


def _start_on_terminal(
    argv: list[str], environment: dict[str, str], *, raw: bool
) -> tuple[subprocess.Popen[bytes], int, None]:
    guard = attach_guard()
    main_fd, program_fd = os.openpty()
    try:
        if raw:
            tty.setraw(program_fd)
        process = subprocess.Popen(
            argv,
            stdin=program_fd,
            stdout=program_fd,
            stderr=program_fd,
            env=environment,
            cwd="/",
            preexec_fn=lambda: _take_terminal(guard),
        )
    except BaseException:
        os.close(main_fd)
        raise
    finally:
        os.close(program_fd)
    os.set_blocking(main_fd, False)
    return process, main_fd, None


def _take_terminal(guard: Callable[[], None] | None) -> None:
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    if guard is not None:
        guard()


def _start_on_socket(
    argv: list[str], environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], int, None]:
    main, program = socket.socketpair()
    with main, program:
        process = subprocess.Popen(
            argv,
            stdin=program.fileno(),
            stdout=program.fileno(),
            stderr=program.fileno(),
            env=environment,
            cwd="/",
            start_new_session=True,
            preexec_fn=attach_guard(),
        )
        main.setblocking(False)
        return process, main.detach(), None


def _start_on_sockets(
    argv: list[str], environment: dict[str, str]
) -> tuple[subprocess.Popen[bytes], int, int]:
    main, program = socket.socketpair()
    error_main, error_program = socket.socketpair()
    with main, program, error_main, error_program:
        process = subprocess.Popen(
            argv,
            stdin=program.fileno(),
            stdout=program.fileno(),
            stderr=error_program.fileno(),
            env=environment,
            cwd="/",
            start_new_session=True,
            preexec_fn=attach_guard(),
        )
        main.setblocking(False)
        error_main.setblocking(False)
        return process, main.detach(), error_main.detach()


def _shut_down_writing(fd: int) -> None:
    with socket.socket(fileno=os.dup(fd)) as sock:
        try:
            sock.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def _report_failure(stream: Stream, request: ShellRequest, message: bytes) -> None:
    try:
        if request.protocol:
            exit_frame = FRAME.pack(ID_EXIT, 1) + bytes([EXIT_CANNOT_START])
            stream.write(FRAME.pack(ID_STDERR, len(message)) + message + exit_frame)
        else:
            stream.write(message)
    except StreamClosed:
        pass
    stream.close()
