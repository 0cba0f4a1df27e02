"""Connections that are tried anew beside those that do not answer: the first that does is taken."""

from __future__ import annotations

import contextlib
import errno
import os
import queue
import selectors
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from devkit.tunnels.patience import Waits

if TYPE_CHECKING:
    from paramiko.channel import Channel

# 10035: WSAEWOULDBLOCK, what Windows says for "in progress".
_UNDER_WAY = (0, errno.EINPROGRESS, errno.EWOULDBLOCK, 10035)


def connect(
    address: Any,
    waits: Waits,
    *,
    family: int = socket.AF_INET,
    kind: int = socket.SOCK_STREAM,
    protocol: int = 0,
) -> socket.socket:
    """A connected TCP socket, in blocking mode.

    Args:
        address, family, kind, protocol: as `getaddrinfo` gives them.

    Raises:
        OSError: the first answer was a refusal, or (TimeoutError) none came in `waits.connect_s`.
    """
    end = time.monotonic() + waits.connect_s
    next_s = 0.0
    dialled: list[socket.socket] = []
    won: socket.socket | None = None
    with selectors.DefaultSelector() as selector:
        try:
            while (now := time.monotonic()) < end:
                if now >= next_s:
                    sock = socket.socket(family, kind, protocol)
                    dialled.append(_dial(sock, address))
                    selector.register(dialled[-1], selectors.EVENT_WRITE)
                    next_s = end if waits.redial_s is None else now + waits.redial_s
                for key, _ in selector.select(max(0.0, min(end, next_s) - now)):
                    answered = key.fileobj
                    assert isinstance(answered, socket.socket)
                    code = answered.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                    if code:
                        raise OSError(code, os.strerror(code))
                    won = answered
                    won.setblocking(True)
                    return won
            raise TimeoutError("timed out")
        finally:
            for sock in dialled:
                if sock is not won:
                    sock.close()


def open_channel(opened: Callable[[float], Channel], waits: Waits) -> Channel:
    """An open channel through a jump host.

    Args:
        opened: asks for one and waits so many seconds for the answer; raises when there is none.

    Raises:
        Exception: that of the first attempt that failed.
    """
    if waits.redial_s is None:
        return opened(waits.connect_s)
    end = time.monotonic() + waits.connect_s
    answers: queue.SimpleQueue[Channel | Exception] = queue.SimpleQueue()
    lock = threading.Lock()
    decided = False

    def attempt() -> None:
        got: Channel | Exception
        try:
            got = opened(max(0.1, end - time.monotonic()))
        except Exception as error:
            got = error
        with lock:
            late = decided
            if not late:
                answers.put(got)
        if late and not isinstance(got, Exception):
            with contextlib.suppress(Exception):
                got.close()

    try:
        while True:
            threading.Thread(target=attempt, name="devkit redial", daemon=True).start()
            more = time.monotonic() + waits.redial_s < end
            try:
                # The attempts themselves end at that time.
                got = answers.get(timeout=waits.redial_s if more else waits.connect_s)
            except queue.Empty:
                continue
            if isinstance(got, Exception):
                raise got
            return got
    finally:
        with lock:
            decided = True
        while not answers.empty():
            spare = answers.get()
            if not isinstance(spare, Exception):
                spare.close()


def _dial(sock: socket.socket, address: Any) -> socket.socket:
    sock.setblocking(False)
    try:
        code = sock.connect_ex(address)
    except BaseException:
        sock.close()
        raise
    if code not in _UNDER_WAY:
        sock.close()
        raise OSError(code, os.strerror(code))
    return sock
