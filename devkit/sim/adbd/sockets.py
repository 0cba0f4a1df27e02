"""Sockets of the phone: the services `tcp:`, `localabstract:`, `localreserved:`, `localfilesystem:`."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from devkit.sim.adbd.bridge import bridge_socket
from devkit.sim.adbd.log import log
from devkit.sim.adbd.streams import Stream

CONNECT_TIMEOUT_S = 5.0
RESERVED_FOLDER = "/dev/socket/"
_LOCAL_HOSTS = ("", "localhost", "127.0.0.1")


@dataclass(frozen=True)
class SocketSpec:
    """An address in adb's notation: a port of the phone's loopback, or the name of a local socket."""

    port: int | None = None
    name: bytes | None = None


def parse_spec(text: str) -> SocketSpec | None:
    """Understand `tcp:PORT`, `tcp:PORT:HOST` (old clients), `tcp:HOST:PORT` and the `local*:` kinds.

    Only the phone itself can be the host, as in adbd since Android 9. None when it is no such address.
    """
    kind, colon, rest = text.partition(":")
    if not colon:
        return None
    if kind == "tcp":
        first, _, second = rest.partition(":")
        port, host = (first, second) if first.isdigit() else (second, first)
        if not (port.isascii() and port.isdigit()) or int(port) > 65535 or host not in _LOCAL_HOSTS:
            return None
        return SocketSpec(port=int(port))
    if kind == "localabstract":
        return SocketSpec(name=b"\0" + os.fsencode(rest))
    if kind in ("localreserved", "local"):
        return SocketSpec(name=os.fsencode(RESERVED_FOLDER + rest))
    if kind == "localfilesystem":
        return SocketSpec(name=os.fsencode(rest))
    return None


def dial(spec: SocketSpec) -> socket.socket:
    """Connect to an address of the phone.

    Raises:
        OSError: nobody listens there, or the name is too long.
    """
    sock = socket.socket(socket.AF_INET if spec.name is None else socket.AF_UNIX)
    try:
        sock.settimeout(CONNECT_TIMEOUT_S)
        if spec.name is None:
            sock.connect(("127.0.0.1", spec.port))
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        else:
            sock.connect(spec.name)
    except BaseException:
        sock.close()
        raise
    return sock


def listen(spec: SocketSpec) -> socket.socket:
    """Listen on an address of the phone (port 0: any free one).

    Raises:
        OSError: the address is taken or not allowed.
    """
    sock = socket.socket(socket.AF_INET if spec.name is None else socket.AF_UNIX)
    try:
        if spec.name is None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(("127.0.0.1", spec.port))
        else:
            sock.bind(spec.name)
        sock.listen()
    except BaseException:
        sock.close()
        raise
    return sock


def serve_socket(stream: Stream, spec: SocketSpec) -> None:
    """Connect a stream to a socket of the phone, or refuse it when nobody listens."""
    try:
        sock = dial(spec)
    except OSError as error:
        log(f"cannot connect to {spec}: {error}")
        stream.refuse()
        return
    stream.accept()
    bridge_socket(stream, sock)
