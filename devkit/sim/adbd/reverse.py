"""The service `reverse:`: listeners on the phone whose connections go to the adb server's machine."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass

from devkit.sim.adbd.bridge import bridge_socket
from devkit.sim.adbd.log import log
from devkit.sim.adbd.sockets import listen, parse_spec
from devkit.sim.adbd.streams import Stream

OPEN_TIMEOUT_S = 10.0

Opener = Callable[[str], Stream]


@dataclass
class _Listener:
    sock: socket.socket
    destination: str
    opener: Opener


class Listeners:
    """All reverse listeners of the daemon, by the phone's address as adb writes it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._table: dict[str, _Listener] = {}

    def answer(self, command: str, opener: Opener) -> bytes:
        """Carry out the part of the service name after `reverse:`; returns what the client reads.

        Args:
            opener: opens a stream on the connection that the request came over.
        """
        if command == "list-forward":
            # Unlike the host's list this one has no leading OKAY.
            return _text(self._list())
        if command == "killforward-all":
            self.remove_all()
            return b"OKAY"
        if command.startswith("killforward:"):
            return self._remove(command.removeprefix("killforward:"))
        if command.startswith("forward:"):
            return self._add(command.removeprefix("forward:"), opener)
        return _failure("not a reverse forwarding command")

    def remove_all(self, opener: Opener | None = None) -> None:
        """End all listeners, or those of one connection."""
        with self._lock:
            gone = [name for name, entry in self._table.items() if opener in (None, entry.opener)]
            entries = [self._table.pop(name) for name in gone]
        for entry in entries:
            _close_listener(entry.sock)

    def _list(self) -> str:
        with self._lock:
            return "".join(f"(reverse) {name} {entry.destination}\n" for name, entry in self._table.items())

    def _remove(self, name: str) -> bytes:
        with self._lock:
            entry = self._table.pop(name, None)
        if entry is None:
            return _failure(f"listener '{name}' not found")
        _close_listener(entry.sock)
        return b"OKAY"

    def _add(self, request: str, opener: Opener) -> bytes:
        arguments = request.removeprefix("norebind:")
        pieces = arguments.split(";")
        if len(pieces) != 2 or not all(pieces) or pieces[1].startswith("*"):
            return _failure(f"bad forward: {arguments}")
        name, destination = pieces
        spec = parse_spec(name)
        if spec is None:
            return _failure(f"cannot bind listener: unknown socket specification: {name}")
        with self._lock:
            if name in self._table:
                if arguments != request:
                    return _failure("cannot rebind existing socket")
                self._table[name].destination = destination
                self._table[name].opener = opener
                return b"OKAY"
            try:
                sock = listen(spec)
            except OSError as error:
                return _failure(f"cannot bind listener: {os.strerror(error.errno or 0)}")
            resolved = b""
            if spec.port == 0:
                port = sock.getsockname()[1]
                name = f"tcp:{port}"
                resolved = _text(str(port))
            entry = _Listener(sock, destination, opener)
            self._table[name] = entry
        threading.Thread(target=_accept_loop, args=(entry,), daemon=True).start()
        return b"OKAY" + resolved


def _accept_loop(entry: _Listener) -> None:
    with entry.sock:
        while True:
            try:
                sock, _ = entry.sock.accept()
            except OSError:
                return
            threading.Thread(target=_serve, args=(entry, sock), daemon=True).start()


def _serve(entry: _Listener, sock: socket.socket) -> None:
    if sock.family == socket.AF_INET:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    stream = entry.opener(entry.destination)
    if stream.wait_open(OPEN_TIMEOUT_S):
        bridge_socket(stream, sock)
    else:
        log(f"nobody answered at {entry.destination}")
        stream.close(flush=False)
        sock.close()


def _close_listener(sock: socket.socket) -> None:
    try:
        # Wakes the thread in accept, which then closes the socket.
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


def _text(content: str) -> bytes:
    data = content.encode("utf-8", "surrogateescape")
    return b"%04x" % len(data) + data


def _failure(message: str) -> bytes:
    return b"FAIL" + _text(message)
