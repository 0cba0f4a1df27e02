"""Commands on the phone as streams: shell v2 (stdout, stderr, exit code apart) and its v1 stand-in."""

from __future__ import annotations

import re
import secrets
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Literal

from devkit.device import failures
from devkit.device.connection import Deadline, acknowledge_now, wait_for
from devkit.device.quoting import quote_word
from devkit.device.servers import AdbServer

Chunk = tuple[Literal["stdout", "stderr"], bytes] | tuple[Literal["exit"], int]

# shell_protocol.h
_STDIN, _STDOUT, _STDERR, _EXIT, _CLOSE_STDIN, _WINDOW_SIZE = range(6)
_HEADER = struct.Struct("<BI")
_STDIN_PACKET_BYTES = 64 * 1024
_RECEIVE_BYTES = 256 * 1024
_READY_BYTES = 1024 * 1024
_SMALL_BYTES = 4 * 1024


class ShellStream:
    """A running command. One thread may read while others write.

    Made by `Device.open_shell`. Use it as a context manager: leaving closes the connection, upon
    which the phone sends SIGHUP to the command's shell.
    """

    def __init__(self, sock: socket.socket, *, server: AdbServer, serial: str, doing: str) -> None:
        self._sock = sock
        self._server, self._serial, self._doing = server, serial, doing
        self._send_lock = threading.Lock()
        self._closed = False
        self._exit_code: int | None = None

    def __enter__(self) -> ShellStream:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Chunk]:
        """All chunks as they come; the last one is ("exit", code)."""
        while True:
            chunk = self.read()
            yield chunk
            if chunk[0] == "exit":
                return

    def read(self, timeout_s: float | None = None) -> Chunk:
        """The next piece of output, or ("exit", code), which is repeated when asked again.

        Raises:
            OperationTimeout: nothing came within `timeout_s`; the command is still running.
            PhoneLost: the connection broke off, or `close` was called, before the exit code came.
        """
        raise NotImplementedError

    def read_ready(self, timeout_s: float | None = None) -> list[Chunk]:
        """As `read`, with all that has come in the same piece: at least one chunk."""
        return [self.read(timeout_s)]

    def write_stdin(self, data: bytes) -> None:
        """Send bytes to the command. Blocks while it does not read them.

        Bytes for a command that has ended are dropped: `read` tells how it ended.
        """
        raise NotImplementedError

    def close_stdin(self) -> None:
        """Let the command see the end of its input. Without effect on phones without shell_v2."""
        raise NotImplementedError

    def resize(self, rows: int, cols: int) -> None:
        """Tell a pty its size. Without effect on phones without shell_v2."""
        raise NotImplementedError

    def close(self) -> None:
        """End the connection; may be called from any thread, and wakes one that reads or writes."""
        self._closed = True
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._sock.close()

    def fileno(self) -> int:
        """The socket. `read` may hold back output that has already left the socket: drain it first."""
        return self._sock.fileno()

    def _receive(self, deadline: Deadline) -> bytes:
        """Some bytes, b"" at the end of the connection."""
        try:
            self._await_bytes(deadline)
            data = self._sock.recv(_RECEIVE_BYTES)
            acknowledge_now(self._sock)
            return data
        except (OSError, ValueError):
            # ValueError: another thread closed the socket, its number is -1.
            return b""

    def _await_bytes(self, deadline: Deadline) -> None:
        if deadline.timeout_s is None:
            return
        readable, _ = wait_for(self._sock, read=True, timeout_s=deadline.left_s())
        if not readable:
            raise failures.silent(
                self._server, serial=self._serial, doing=self._doing, timeout_s=deadline.timeout_s
            )

    def _send(self, data: bytes) -> None:
        try:
            with self._send_lock:
                self._sock.sendall(data)
        except OSError:
            # Ended or lost? Only the reading side can tell.
            pass

    def _lost(self, reason: str = "the connection was closed before the exit code came") -> Exception:
        if self._closed:
            reason = "devkit closed it"
        return failures.broke_off(self._server, serial=self._serial, doing=self._doing, reason=reason)


class ShellV2Stream(ShellStream):
    """The packets of shell_protocol.h: one byte of kind, four of length, the payload."""

    def __init__(self, sock: socket.socket, *, server: AdbServer, serial: str, doing: str) -> None:
        super().__init__(sock, server=server, serial=serial, doing=doing)
        self._buffer = bytearray()
        self._kind = 0
        self._left = 0  # bytes of the current packet that have not been handed out
        self._ready: memoryview | None = None

    def read(self, timeout_s: float | None = None) -> Chunk:
        if self._exit_code is not None:
            return "exit", self._exit_code
        deadline = Deadline(timeout_s)
        while True:
            chunk = self._take()
            if chunk is not None:
                return chunk
            data = self._receive(deadline)
            if not data:
                raise self._lost()
            self._buffer += data

    def read_ready(self, timeout_s: float | None = None) -> list[Chunk]:
        if self._exit_code is not None:
            return [("exit", self._exit_code)]
        deadline = Deadline(timeout_s)
        chunks = self._split(memoryview(b"")) if self._buffer else []
        while not chunks:
            data = self._receive_ready(deadline)
            if not data:
                raise self._lost()
            chunks = self._split(data)
        return chunks

    def _receive_ready(self, deadline: Deadline) -> memoryview:
        """As `_receive`, of a stream that comes fast; valid until it is called again.

        Its memory is used again: as much of it, made anew for each piece, costs more than what is in it. And
        large pieces are not acknowledged at once, which takes a fifth of the time of reading them.
        """
        if self._ready is None:
            self._ready = memoryview(bytearray(_READY_BYTES))
        try:
            self._await_bytes(deadline)
            count = self._sock.recv_into(self._ready)
            if count < _SMALL_BYTES:
                acknowledge_now(self._sock)
            return self._ready[:count]
        except (OSError, ValueError):
            return self._ready[:0]

    def _split(self, view: memoryview) -> list[Chunk]:
        """The packets of one piece, payloads of a kind put together; a cut header waits in the buffer."""
        if self._buffer:
            view = memoryview(bytes(self._buffer) + view)
            self._buffer.clear()
        at, size = 0, len(view)
        runs: list[tuple[int, list[memoryview]]] = []
        while at < size and self._exit_code is None:
            if self._left == 0:
                if size - at < _HEADER.size:
                    self._buffer += view[at:]
                    break
                self._kind, self._left = _HEADER.unpack_from(view, at)
                at += _HEADER.size
                continue
            count = min(self._left, size - at)
            if self._kind == _EXIT:
                self._exit_code = view[at]
            elif self._kind in (_STDOUT, _STDERR):
                if not runs or runs[-1][0] != self._kind:
                    runs.append((self._kind, []))
                runs[-1][1].append(view[at : at + count])
            at += count
            self._left -= count
        chunks: list[Chunk] = []
        for kind, parts in runs:
            chunks.append(("stdout" if kind == _STDOUT else "stderr", b"".join(parts)))
        if self._exit_code is not None:
            chunks.append(("exit", self._exit_code))
        return chunks

    def write_stdin(self, data: bytes) -> None:
        view = memoryview(data)
        for start in range(0, len(view), _STDIN_PACKET_BYTES):
            part = view[start : start + _STDIN_PACKET_BYTES]
            self._send(_HEADER.pack(_STDIN, len(part)) + part)

    def close_stdin(self) -> None:
        self._send(_HEADER.pack(_CLOSE_STDIN, 0))

    def resize(self, rows: int, cols: int) -> None:
        text = b"%dx%d,0x0\0" % (rows, cols)
        self._send(_HEADER.pack(_WINDOW_SIZE, len(text)) + text)

    def _take(self) -> Chunk | None:
        while True:
            if self._left == 0:
                if len(self._buffer) < _HEADER.size:
                    return None
                self._kind, self._left = _HEADER.unpack_from(self._buffer)
                del self._buffer[: _HEADER.size]
                if self._left == 0:
                    continue
            if self._kind == _EXIT:
                if not self._buffer:
                    return None
                self._exit_code = self._buffer[0]
                return "exit", self._exit_code
            if not self._buffer:
                return None
            payload = bytes(self._buffer[: self._left])
            del self._buffer[: len(payload)]
            self._left -= len(payload)
            if self._kind == _STDOUT:
                return "stdout", payload
            if self._kind == _STDERR:
                return "stderr", payload


class ShellV1Stream(ShellStream):
    """A phone without shell_v2: one stream of bytes, in which a marker carries the exit code.

    stderr arrives as stdout.

    Args:
        marker: what `wrap_for_v1` returned; None for an interactive shell, whose end counts as 0.
    """

    def __init__(
        self, sock: socket.socket, marker: str | None, *, server: AdbServer, serial: str, doing: str
    ) -> None:
        super().__init__(sock, server=server, serial=serial, doing=doing)
        self._buffer = bytearray()
        self._marker = marker.encode() if marker else None
        # A pty of such a phone writes \r\n for \n.
        self._pattern = re.compile(rb"\r?\n" + (self._marker or b"(?!)") + rb":(\d+):")

    def read(self, timeout_s: float | None = None) -> Chunk:
        if self._exit_code is not None:
            return "exit", self._exit_code
        deadline = Deadline(timeout_s)
        while True:
            match = self._pattern.search(self._buffer)
            if match and match.start() == 0:
                self._exit_code = int(match.group(1))
                return "exit", self._exit_code
            safe = match.start() if match else self._safe_length()
            if safe > 0:
                return "stdout", self._hand_out(safe)
            data = self._receive(deadline)
            if data:
                self._buffer += data
            elif self._buffer:
                return "stdout", self._hand_out(len(self._buffer))
            elif self._marker is None and not self._closed:
                self._exit_code = 0
                return "exit", 0
            else:
                raise self._lost()

    def write_stdin(self, data: bytes) -> None:
        self._send(data)

    def close_stdin(self) -> None:
        pass

    def resize(self, rows: int, cols: int) -> None:
        pass

    def _safe_length(self) -> int:
        """How much of the buffer cannot be the start of the marker: live output must not wait."""
        if self._marker is None:
            return len(self._buffer)
        start = max(0, len(self._buffer) - len(self._marker) - len("\r\n:255:"))
        while True:
            line = self._buffer.find(b"\n", start)
            if line < 0:
                return len(self._buffer) - (1 if self._buffer.endswith(b"\r") else 0)
            rest = self._buffer[line + 1 :]
            if self._marker.startswith(rest[: len(self._marker)]):
                return line - 1 if line > 0 and self._buffer[line - 1] == ord("\r") else line
            start = line + 1

    def _hand_out(self, count: int) -> bytes:
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data


def wrap_for_v1(command: str, *, stdin_bytes: int | None) -> tuple[str, str]:
    """A command line that reports its exit code in-band, and the marker that announces it.

    `sh -c` keeps an `exit` or a syntax error of the command from taking the marker along.

    Args:
        stdin_bytes: how many bytes of input will be sent, after which the command sees the end of
            its input; None leaves the input open. This protocol cannot close one direction.
    """
    marker = f"devkit-exit-{secrets.token_hex(8)}"
    run = f"sh -c {quote_word(command)}"
    if stdin_bytes == 0:
        run += " </dev/null"
    elif stdin_bytes is not None:
        run = f"head -c {stdin_bytes} | {run}"
    # echo without arguments and options: the one thing mksh, dash, bash and toolbox agree on.
    return f"{run}; devkit_exit=$?; echo; echo {marker}:$devkit_exit:", marker


def shell_service(command: str, *, v2: bool, pty: bool, term: str | None) -> str:
    """The name of the service that runs a command line (adb's commandline.cpp, ShellServiceString)."""
    if not v2:
        # exec: has no pty in between, which before Android 7 turned \n into \r\n.
        return ("shell:" if pty else "exec:") + command
    options = ["shell", "v2"]
    if term and "," not in term and ":" not in term:
        options.append(f"TERM={term}")
    options.append("pty" if pty else "raw")
    return ",".join(options) + ":" + command
