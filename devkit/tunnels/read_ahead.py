"""The socket under an SSH transport, with fewer system calls than paramiko's own reads would make."""

from __future__ import annotations

import select
import socket
import time
from typing import Any

_READ_AHEAD_BYTES = 2**18
# How long a read or write waits before it looks whether the transport was closed meanwhile.
_LOOK_UP_S = 0.1
_FIRST_BYTES = 512


class Wire:
    """The socket under a transport: reads ahead, and remembers what the other side said first."""

    def __init__(self, sock: Any) -> None:
        self._sock = sock
        self._ahead = memoryview(b"")
        self.first_bytes = b""
        # The other side has closed it, or it broke.
        self.ended = False
        self.last_received = time.monotonic()
        # When the other side showed last that it is there, also by taking what it could not take before.
        self.last_moved = self.last_received
        self._full = False
        self._plain = isinstance(sock, socket.socket)
        self._closed = False

    def settimeout(self, seconds: float | None) -> None:
        """Reads and writes look up after this long; a plain socket is never blocked in itself."""
        self._sock.settimeout(0 if self._plain else seconds)

    def recv(self, size: int) -> bytes:
        """Up to `size` bytes; raises TimeoutError when there are none for a moment."""
        if not self._ahead:
            try:
                self._ahead = memoryview(self._receive())
            except (TimeoutError, BlockingIOError):
                raise
            except (OSError, EOFError):
                self.ended = True
                raise
            self.ended = not self._ahead
            self.last_received = self.last_moved = time.monotonic()
            if len(self.first_bytes) < _FIRST_BYTES:
                self.first_bytes += bytes(self._ahead[:_FIRST_BYTES])
        piece, self._ahead = self._ahead[:size], self._ahead[size:]
        return bytes(piece)

    def send(self, data: bytes) -> int:
        """Write some of `data`; raises TimeoutError when nothing could be written for a moment."""
        while True:
            try:
                sent = int(self._sock.send(data))
            except BlockingIOError:
                self._full = True
                self._wait(write=True)
            except TimeoutError:  # a channel's
                self._full = True
                raise
            else:
                if self._full:
                    self._full = False
                    self.last_moved = time.monotonic()
                return sent

    def close(self) -> None:
        """Close the socket; a thread in `recv` or `send` notices within a moment."""
        self._closed = True
        self._sock.close()

    def getpeername(self) -> Any:
        """The other side's address, where there is one."""
        return self._sock.getpeername()

    def _receive(self) -> bytes:
        if not self._plain:
            return bytes(self._sock.recv(_READ_AHEAD_BYTES))
        while True:
            try:
                return bytes(self._sock.recv(_READ_AHEAD_BYTES))
            except BlockingIOError:
                self._wait(write=False)

    def _wait(self, *, write: bool) -> None:
        if self._closed or self._sock.fileno() < 0:
            raise EOFError
        if not hasattr(select, "poll"):  # Windows
            reads, writes = ([], [self._sock]) if write else ([self._sock], [])
            ready: Any = any(select.select(reads, writes, [], _LOOK_UP_S))
        else:
            poller = select.poll()
            poller.register(self._sock, select.POLLOUT if write else select.POLLIN)
            ready = poller.poll(_LOOK_UP_S * 1000)
        if not ready:
            raise TimeoutError
