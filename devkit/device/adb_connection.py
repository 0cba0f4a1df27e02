"""One connection to an adb server: requests, and the answers all of them begin with."""

from __future__ import annotations

import socket

MAX_REQUEST_BYTES = 0xFFFF  # the length is four hexadecimal digits


class AdbError(Exception):
    """The server said FAIL, with these words, or nothing that an adb server says."""


class ServerConnection:
    """One connection to an adb server; `conn` is its socket.

    It never starts a server: behind a tunnel that would be the wrong one.

    Raises:
        OSError: the server cannot be reached (TimeoutError: not within `connect_timeout_s`).
    """

    def __init__(self, host: str, port: int, *, connect_timeout_s: float) -> None:
        self.conn = connect(host, port, connect_timeout_s=connect_timeout_s)

    def send_command(self, command: str) -> None:
        """Send a request.

        Raises:
            AdbError: it is longer than adb carries.
        """
        data = command.encode("utf-8", "surrogateescape")
        if len(data) > MAX_REQUEST_BYTES:
            raise AdbError(f"request of {len(data)} bytes is too long")
        self.conn.sendall(b"%04x" % len(data) + data)

    def check_okay(self) -> None:
        """Wait for the server's OKAY.

        Raises:
            AdbError: it said FAIL, or something else.
            EOFError: it hung up.
        """
        status = self.read_exact(4)
        if status == b"FAIL":
            raise AdbError(self.read_string_block())
        if status != b"OKAY":
            raise AdbError(f"neither OKAY nor FAIL: {status!r}")

    def read_exact(self, count: int) -> bytes:
        """The next bytes.

        Raises:
            EOFError: the stream ends before.
        """
        buffer = bytearray(count)
        view = memoryview(buffer)
        got = 0
        while got < count:
            received = self.conn.recv_into(view[got:])
            if received == 0:
                raise EOFError(f"the stream ended after {got} of {count} bytes")
            got += received
        return bytes(buffer)

    def read_string(self, count: int) -> str:
        """The next bytes as text."""
        return self.read_exact(count).decode("utf-8", "replace")

    def read_string_block(self) -> str:
        """A text behind its length.

        Raises:
            ValueError: the length is no number.
        """
        return self.read_string(int(self.read_exact(4), 16))

    def close(self) -> None:
        """Close it at once."""
        self.conn.close()


def connect(host: str, port: int, *, connect_timeout_s: float) -> socket.socket:
    """A socket to an adb server that sends at once and notices a dead tunnel."""
    sock = socket.create_connection((host, port), connect_timeout_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A server behind a dead tunnel must not hold a command for ever.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock
