"""Connecting a forward's target: without a thread where an address is known, else in one of its own."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
from collections.abc import Callable

from devkit.errors import DevkitError
from devkit.tunnels.model import Target
from devkit.tunnels.pump import WRITE, Pump

DIAL_TIMEOUT_S = 20.0
# 10035: WSAEWOULDBLOCK, what Windows says for "in progress".
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, 10035)

# Gets the connected socket, or None and the reason.
Dialled = Callable[[socket.socket | None, str], None]


def describe(target: Target) -> str:
    """host:port, or what the dialler calls itself."""
    if callable(target):
        return str(getattr(target, "name", None) or getattr(target, "__name__", type(target).__name__))
    host, port = target
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def dial(pump: Pump, target: Target, dialled: Dialled) -> None:
    """Connect to `target`; `dialled` is called in the pump's thread, from which this is called, too."""
    family = None if callable(target) else _family(target[0])
    if callable(target) or family is None:
        threading.Thread(
            target=_dial_here, args=(pump, target, dialled), name="devkit dial", daemon=True
        ).start()
        return
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        code = sock.connect_ex(target)
    except OSError as error:
        code = error.errno or errno.EINVAL
    if code not in _UNDER_WAY:
        sock.close()
        dialled(None, os.strerror(code))
        return

    def connected(_events: int) -> None:
        pump.watch(sock, 0, connected)
        failure = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if failure:
            sock.close()
            dialled(None, os.strerror(failure))
        else:
            dialled(sock, "")

    pump.watch(sock, WRITE, connected)


def _family(host: str) -> socket.AddressFamily | None:
    for family in (socket.AF_INET, socket.AF_INET6):
        with contextlib.suppress(OSError):
            socket.inet_pton(family, host)
            return family
    return None


def _dial_here(pump: Pump, target: Target, dialled: Dialled) -> None:
    sock, reason = None, ""
    try:
        sock = target() if callable(target) else socket.create_connection(target, DIAL_TIMEOUT_S)
    except DevkitError as error:
        reason = error.what
    except OSError as error:
        reason = str(error.strerror or error)
    except Exception as error:  # of a dialler from outside: its connection fails, not the forward
        reason = f"{type(error).__name__}: {error}"
    if not pump.call(lambda: dialled(sock, reason)) and sock is not None:
        sock.close()
