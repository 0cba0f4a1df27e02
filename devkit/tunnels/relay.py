"""A local TCP port whose one client is joined to a socket that leads to the phone."""

from __future__ import annotations

import contextlib
import select
import socket
import threading

from devkit.errors import DebugError
from devkit.tunnels.ahead import AnswersAhead

_CHUNK_BYTES = 65536
_POLL_S = 0.1
LOOPBACK = "127.0.0.1"


def open_listener() -> socket.socket:
    """A socket that listens on a free port of 127.0.0.1, for one client after the other.

    Raises:
        DebugError: there is none.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.bind((LOOPBACK, 0))
        listener.listen(1)
    except OSError as error:
        listener.close()
        raise DebugError("no port on 127.0.0.1 can be opened", evidence=str(error)) from None
    return listener


class Relay:
    """Joins the first client of a loopback port to `upstream`. Use as a context manager.

    One client only: a gdbserver takes one connection. The end of either side ends both; the
    listener is closed as soon as the client is there, so that nothing else can reach the phone.

    Args:
        upstream: the socket that leads to the phone.
        listener: a listening socket of the caller's, which stays open; None: one is made.
        ahead: answers for an LLDB whose process stands still; None: bytes pass as they are.

    Attributes:
        connected: set when the client is there.
        ended: set when the client or the phone's side has ended.
    """

    def __init__(
        self,
        upstream: socket.socket,
        listener: socket.socket | None = None,
        *,
        ahead: AnswersAhead | None = None,
    ) -> None:
        self._ahead = ahead
        # Both directions may have something for the client.
        self._sending = threading.Lock()
        self._upstream = upstream
        self._client: socket.socket | None = None
        self._owns_listener = listener is None
        self._listener = listener or open_listener()
        self._closed = threading.Event()
        self._threads: list[threading.Thread] = []
        self.bytes_up = 0
        self.bytes_down = 0
        self.connected = threading.Event()
        self.ended = threading.Event()

    @property
    def saved_round_trips(self) -> int:
        """How many questions of LLDB have not waited for the link."""
        return self._ahead.saved if self._ahead is not None else 0

    @property
    def port(self) -> int:
        """The port on 127.0.0.1 to connect to."""
        port: int = self._listener.getsockname()[1]
        return port

    def __enter__(self) -> Relay:
        # Asked for now: the listener is closed once the client is there.
        self._spawn(self._accept)
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """End both connections and wait for the threads."""
        self._closed.set()
        # shutdown wakes a thread that blocks in accept or recv; close alone does not.
        for end in (self._listener if self._owns_listener else None, self._client, self._upstream):
            if end is not None:
                with contextlib.suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()
        for thread in self._threads:
            thread.join(2)

    def _spawn(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        try:
            while not self._owns_listener and not select.select([self._listener], [], [], _POLL_S)[0]:
                if self._closed.is_set():
                    return
            client, _ = self._listener.accept()
        except (OSError, ValueError):
            return
        self._client = client
        if self._owns_listener:
            self._listener.close()
        self.connected.set()
        for end in (client, self._upstream):
            end.settimeout(None)
            with contextlib.suppress(OSError):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._spawn(self._pump, client, self._upstream, True)
        self._pump(self._upstream, client, False)

    def _pass(self, data: bytes, source: socket.socket, target: socket.socket, up: bool) -> None:
        if self._ahead is None:
            target.sendall(data)
            return
        if not up:
            with self._sending:
                target.sendall(self._ahead.down(data))
            return
        with self._sending:
            onward, back = self._ahead.up(data)
            if back:
                source.sendall(back)
        target.sendall(onward)

    def _pump(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                if up:
                    self.bytes_up += len(data)
                else:
                    self.bytes_down += len(data)
                self._pass(data, source, target, up)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self.ended.set()
