"""Bytes back and forth between a stream and a file descriptor (a socket or a terminal)."""

from __future__ import annotations

import os
import select
import socket
import time

from devkit.sim.adbd.streams import Stream, StreamClosed

LINGER_S = 1.0
_READ_BYTES = 256 * 1024


class Wakeup:
    """Lets other threads interrupt a `poll`."""

    def __init__(self) -> None:
        self.fd = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)

    def wake(self) -> None:
        """Make `fd` readable."""
        try:
            os.eventfd_write(self.fd, 1)
        except OSError:
            pass  # Full: it is readable already.

    def clear(self) -> None:
        """Make `fd` unreadable again."""
        try:
            os.eventfd_read(self.fd)
        except BlockingIOError:
            pass


class Writer:
    """Outgoing bytes for a non-blocking descriptor that may be full at times."""

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.broken = False
        self._pending = memoryview(b"")

    @property
    def busy(self) -> bool:
        """Whether bytes are waiting for room."""
        return bool(self._pending)

    def put(self, data: memoryview) -> None:
        """Write `data`; what does not fit waits. Only when not `busy`."""
        if not self.broken:
            self._pending = data
            self.flush()

    def flush(self) -> None:
        """Write what is waiting, as far as there is room."""
        try:
            while self._pending:
                self._pending = self._pending[os.write(self.fd, self._pending) :]
        except BlockingIOError:
            pass
        except OSError:
            # Nobody reads there any more; what it wrote before may still come.
            self.broken = True
            self._pending = memoryview(b"")


def read_available(fd: int, limit: int) -> tuple[bytes, bool]:
    """Read what a non-blocking descriptor has, at most `limit` bytes, and whether it has ended."""
    parts: list[bytes] = []
    size = 0
    while size < limit:
        try:
            data = os.read(fd, min(limit - size, _READ_BYTES))
        except BlockingIOError:
            return b"".join(parts), False
        except OSError:
            # EIO is how a terminal says that its last user is gone; ECONNRESET is an end as well.
            return b"".join(parts), True
        if not data:
            return b"".join(parts), True
        parts.append(data)
        size += len(data)
    return b"".join(parts), False


def bridge(stream: Stream, fd: int) -> None:
    """Pass bytes both ways until either side ends. `fd` must be non-blocking and stays open.

    When the peer closes, what it sent before still reaches `fd`; when `fd` ends, everything that was
    read reaches the peer. Like in adbd there is no half-close.
    """
    wakeup = Wakeup()
    writer = Writer(fd)
    stream.set_waker(wakeup.wake)
    poll = select.poll()
    poll.register(wakeup.fd, select.POLLIN)
    registered = 0
    try:
        while True:
            while not writer.busy and (chunk := stream.take()) is not None:
                writer.put(chunk)
            if stream.closed and not writer.busy:
                return
            events = (select.POLLIN if stream.can_write() else 0) | (select.POLLOUT if writer.busy else 0)
            # A descriptor that is registered for nothing would still report POLLHUP, in a busy loop.
            if events != registered:
                if events:
                    poll.register(fd, events)
                else:
                    poll.unregister(fd)
                registered = events
            for ready, revents in poll.poll():
                if ready == wakeup.fd:
                    wakeup.clear()
                    continue
                if revents & select.POLLOUT or (writer.busy and revents & (select.POLLERR | select.POLLHUP)):
                    writer.flush()
                if events & select.POLLIN and revents & (select.POLLIN | select.POLLHUP | select.POLLERR):
                    data, ended = read_available(fd, stream.max_payload)
                    if data:
                        stream.try_write(data)
                    if ended:
                        return
    except StreamClosed:
        return
    finally:
        stream.set_waker(lambda: None)
        os.close(wakeup.fd)


def bridge_socket(stream: Stream, sock: socket.socket) -> None:
    """`bridge` for a connected socket, which is closed gently afterwards.

    Closing a socket that has unread data makes the kernel send a reset, which can destroy data that
    is still on its way to the program: shut down for writing first and read for up to LINGER_S.
    """
    sock.setblocking(False)
    with sock:
        bridge(stream, sock.fileno())
        if not stream.closed:
            stream.close()
            return
        try:
            sock.shutdown(socket.SHUT_WR)
            deadline = time.monotonic() + LINGER_S
            poll = select.poll()
            poll.register(sock.fileno(), select.POLLIN)
            while (left := deadline - time.monotonic()) > 0 and poll.poll(left * 1000):
                _, ended = read_available(sock.fileno(), _READ_BYTES)
                if ended:
                    return
        except OSError:
            pass
