"""A local TCP port whose one client is joined to a socket that leads to the phone."""

from __future__ import annotations

import contextlib
import socket
import threading

from devkit.errors import DebugError

_CHUNK_BYTES = 65536
LOOPBACK = "127.0.0.1"


class Relay:
    """Joins the first client of a loopback port to `upstream`. Use as a context manager.

    One client only: a gdbserver takes one connection. The end of either side ends both; the
    listener is closed as soon as the client is there, so that nothing else can reach the phone.
    """

    def __init__(self, upstream: socket.socket) -> None:
        self._upstream = upstream
        self._client: socket.socket | None = None
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.bind((LOOPBACK, 0))
            self._listener.listen(1)
        except OSError as error:
            self._listener.close()
            raise DebugError("no port on 127.0.0.1 can be opened", evidence=str(error)) from None
        self._threads: list[threading.Thread] = []
        self.bytes_up = 0
        self.bytes_down = 0

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
        # shutdown wakes a thread that blocks in accept or recv; close alone does not.
        for end in (self._listener, self._client, self._upstream):
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
            client, _ = self._listener.accept()
        except OSError:
            return
        self._client = client
        self._listener.close()
        for end in (client, self._upstream):
            end.settimeout(None)
            with contextlib.suppress(OSError):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._spawn(self._pump, client, self._upstream, True)
        self._pump(self._upstream, client, False)

    def _pump(self, source: socket.socket, target: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(_CHUNK_BYTES):
                target.sendall(data)
                if up:
                    self.bytes_up += len(data)
                else:
                    self.bytes_down += len(data)
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
