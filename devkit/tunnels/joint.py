"""One connection of a forward: a socket here, a channel of the SSH connection, bytes both ways."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from devkit.tunnels.model import Screen
from devkit.tunnels.pump import READ, WRITE, Pump

if TYPE_CHECKING:
    from paramiko.channel import Channel

    from devkit.tunnels.transport import Transport

# A window starts as OpenSSH's does and doubles while its reader keeps up: at 100 ms round trip
# 2 MiB carry 20 MB/s at most, 32 MiB 300; a reader that is stuck never holds more than the first.
FIRST_WINDOW_BYTES = 2**21
MAX_WINDOW_BYTES = 2**25
# Packets of one socket sent in a row before the others have their turn.
_TURN = 8
_CHUNK_BYTES = 2**15 - 64
_WRITE_BYTES = 2**18
# More than one segment is acknowledged at once anyhow.
_SMALL_BYTES = 1400
_QUICK_ACK: int | None = getattr(socket, "TCP_QUICKACK", None)


class Joint:
    """Joins `channel` to a socket that may come later. Half-close is passed on in both directions.

    Args:
        count: told (bytes out, bytes in) as they pass.
        screen: judges what the client sends first; the client is on the far side, else (`client_here`)
            at the socket.
        done: called once in the pump's thread with the reason, None for a regular end.
    """

    def __init__(
        self,
        pump: Pump,
        transport: Transport,
        count: Callable[[int, int], None],
        done: Callable[[Joint, str | None], None],
        *,
        screen: Screen | None = None,
        client_here: bool = False,
    ) -> None:
        self._pump = pump
        self._transport = transport
        self._count = count
        self._done = done
        self._screen = screen
        self._client_here = client_here
        self._head = b""
        self.channel: Channel | None = None
        self._socket: socket.socket | None = None
        self._lock = threading.Lock()
        self._backlog: deque[memoryview] = deque()
        self._window = FIRST_WINDOW_BYTES
        self._consumed = 0
        self._events = 0
        self._local_ended = False
        self._remote_ended = False
        self._remote_closed = False
        self._flushed_end = False
        self._writing = False
        self._deaf = False
        self._finished = False

    # In the pump's thread.

    def join(self, sock: socket.socket) -> None:
        """The local socket is there (connected, or accepted)."""
        if self._finished:
            sock.close()
            return
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # a socket pair has no such option
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self._flush()
        self._listen()

    def finish(self, reason: str | None = None) -> None:
        """End both sides. Does nothing the second time."""
        if self._finished:
            return
        self._finished = True
        if self._socket is not None:
            self._pump.watch(self._socket, 0, self._ready)
            # Under the lock: the transport's thread may be writing to it just now.
            with self._lock:
                self._socket.close()
        with self._lock:
            self._backlog.clear()
        if self.channel is not None and not self.channel.closed:
            self.channel.close()
        self._done(self, reason)

    def _ready(self, events: int) -> None:
        if self._finished:  # by another socket of the same round
            return
        if events & WRITE:
            self._flush()
        if events & READ and not self._finished:
            self._read()

    def _read(self) -> None:
        channel, sock = self.channel, self._socket
        assert channel is not None and sock is not None
        for _ in range(_TURN):
            room = min(channel.out_window_size, _CHUNK_BYTES, channel.out_max_packet_size - 64)
            if room <= 0 or self._remote_closed:
                self._listen()
                return
            try:
                data = sock.recv(room)
            except BlockingIOError:
                return
            except OSError as error:
                self.finish(f"the connection here broke: {error.strerror or error}")
                return
            if not data:
                self._local_ended = True
                self._listen()
                channel.shutdown_write()
                self._end_if_over()
                return
            whole = len(data) < room
            if len(data) < _SMALL_BYTES:
                self._acknowledge(sock)
            if self._screen is not None and self._client_here:
                data = self._screened(data)
                if not data:
                    return
            try:
                # Not send: what the screen held back can be more than one packet takes.
                channel.sendall(data)
            except OSError:
                self._listen()
                return
            self._count(len(data), 0)
            if whole:
                return

    def _acknowledge(self, sock: socket.socket) -> None:
        """Have the system say at once that a small piece has come.

        An adb server leaves Nagle's algorithm on for what it has accepted (it turns it off for what it
        connects): two small packets of adbd one after the other, as each answer is, would wait 40 ms
        for a delayed acknowledgement. Linux alone lets the receiver help (tcp(7), TCP_QUICKACK), until
        its next own decision, hence each time.
        """
        if _QUICK_ACK is not None:
            with contextlib.suppress(OSError):  # a socket pair has no such option
                sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)

    def _screened(self, data: bytes) -> bytes:
        """What may go on of the client's first bytes and these; b"" while that is not known."""
        assert self._screen is not None
        self._head += data
        verdict = self._screen(self._head)
        if verdict is None:
            return b""
        head, self._head = self._head, b""
        if not verdict:
            self._screen = None
            return head
        self._screen = lambda _more: None
        self._pump.call(lambda: self._refuse(verdict))
        return b""

    def _refuse(self, answer: bytes) -> None:
        if self._finished:
            return
        with contextlib.suppress(OSError):
            if self._client_here and self._socket is not None:
                self._socket.send(answer)
            elif self.channel is not None:
                self.channel.sendall(answer)
        self.finish("a request that is not let through")

    def _listen(self) -> None:
        """Watch the socket for what can be used now."""
        if self._finished or self._socket is None:
            return
        channel = self.channel
        wanted = WRITE if self._writing else 0
        if channel is not None and channel.active and not self._local_ended and not self._remote_closed:
            wanted |= READ if channel.out_window_size > 0 else 0
        if wanted != self._events:
            self._events = wanted
            self._pump.watch(self._socket, wanted, self._ready)

    def _flush(self) -> None:
        """Hand the socket what came while it was not ready."""
        with self._lock:
            self._write_backlog()
        self._grant()
        if not self._backlog and self._remote_ended and not self._flushed_end and self._socket is not None:
            self._flushed_end = True
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_WR)
        self._end_if_over()
        self._listen()

    def _write_backlog(self) -> None:
        """Write what can be written. With the lock held."""
        if self._socket is None:
            return
        while self._backlog:
            # One big write instead of many: each gives the interpreter's lock away and has to get it back.
            size, count = 0, 0
            for count, piece in enumerate(self._backlog, 1):  # noqa: B007
                size += len(piece)
                if size >= _WRITE_BYTES:
                    break
            whole = memoryview(b"".join(self._backlog.popleft() for _ in range(count)))
            sent = self._write(whole)
            if sent < size:
                self._backlog.appendleft(whole[sent:])
                break
        self._writing = bool(self._backlog)

    def _write(self, data: bytes | memoryview) -> int:
        """Write to the socket; how much it took. With the lock held.

        A program that no longer reads may still have something to say: what comes for it is taken
        and dropped, and its own end is waited for.
        """
        assert self._socket is not None
        taken = len(data)
        if not self._deaf:
            try:
                taken = self._socket.send(data)
            except BlockingIOError:
                return 0
            except OSError:
                self._deaf = True
        self._consumed += taken
        return taken

    def _grant(self) -> None:
        """Give back the window that was used up, and more of it to a reader that keeps up."""
        with self._lock:
            amount, self._consumed = self._consumed, 0
            if amount * 4 > self._window and not self._backlog and self._window < MAX_WINDOW_BYTES:
                amount += self._window
                self._window *= 2
        if amount and self.channel is not None and not self._remote_ended:
            self._transport.grant(self.channel, amount)

    def _end_if_over(self) -> None:
        if self._finished or self._backlog:
            return
        if self._remote_closed or (self._local_ended and (self._flushed_end or self._deaf)):
            self.finish()

    # In the transport's thread: never blocks.

    def opened(self) -> None:
        """The far machine has connected; `channel` can be used."""
        self._pump.call(self._listen)

    def refused(self, code: int, text: str) -> None:
        """The far machine could not or would not connect."""
        self._pump.call(lambda: self.finish(_refusal(code, text)))

    def received(self, data: bytes) -> None:
        """Data for the socket: written at once if it takes it."""
        if self._screen is not None and not self._client_here:
            data = self._screened(data)
            if not data:
                return
        self._count(0, len(data))
        rest = memoryview(data)
        with self._lock:
            if self._finished:
                return
            if not self._backlog and self._socket is not None:
                rest = rest[self._write(data) :]
            if rest:
                self._backlog.append(rest)
            blocked = bool(self._backlog) and not self._writing and self._socket is not None
            self._writing = self._writing or blocked
            due = self._consumed * 8 > self._window
            over = self._deaf and self._local_ended
        if blocked or over:
            self._pump.call(self._flush)
        elif due:
            self._pump.call(self._grant)

    def writable(self) -> None:
        """The far machine takes more."""
        if not self._events & READ:
            self._pump.call(self._listen)

    def ended(self) -> None:
        """The far side sends no more."""
        self._remote_ended = True
        self._pump.call(self._flush)

    def closed(self) -> None:
        """The channel is gone."""
        self._remote_ended = self._remote_closed = True
        self._pump.call(self._closed)

    def _closed(self) -> None:
        if self._socket is None:
            self.finish()
        self._flush()


def _refusal(code: int, text: str) -> str:
    # RFC 4254 section 5.1
    names = {1: "not allowed by the server (AllowTcpForwarding, PermitOpen)", 4: "the server has no room"}
    return names.get(code) or f"the far machine cannot connect: {text or 'no reason given'}"
