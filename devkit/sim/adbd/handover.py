"""Connections arrive from the phone's link as descriptors, and can be taken back while they are in use."""

from __future__ import annotations

import json
import os
import select
import socket
import threading
import weakref
from collections.abc import Callable
from typing import Any, cast

from devkit.sim.adbd.log import log
from devkit.sim.adbd.packets import HEADER_BYTES

_MESSAGE_BYTES = 4096


class Connection:
    """A connection to an adb server. The socket below may change while it is in use.

    The bytes of a stream stay in order over a change: whoever holds the old socket then only reads on
    where this side has stopped, and writes what this side hands over.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._next: socket.socket | None = None
        self._wakeup = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        self._poll.register(self._wakeup, select.POLLIN)
        self._lock = threading.Lock()
        # Nobody is in the middle of sending over a socket that is given away.
        self._sending = threading.Lock()
        self._swapped: Any = None
        self._closed = False

    def recv_into(self, buffer: memoryview, count: int = 0, flags: int = 0) -> int:
        """As socket's."""
        # A change happens before a packet: the rest of one that has begun comes over the old socket.
        if len(buffer) <= HEADER_BYTES:
            while any(fd == self._wakeup for fd, _ in self._poll.poll()):
                self._change()
        return self._sock.recv_into(buffer, count, flags)

    def sendall(self, data: Any) -> None:
        """As socket's."""
        with self._sending:
            self._sock.sendall(data)

    def sendmsg(self, buffers: Any) -> int:
        """As socket's."""
        with self._sending:
            return self._sock.sendmsg(buffers)

    def setsockopt(self, *arguments: Any) -> None:
        """The link has set what is needed."""

    def shutdown(self, how: int) -> None:
        """As socket's."""
        self._sock.shutdown(how)

    def close(self) -> None:
        """As socket's."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._sock.close()
            os.close(self._wakeup)
            if self._next is not None:
                self._next.close()
                self._swapped(None)

    def swap(self, sock: socket.socket, swapped: Any) -> None:
        """Go on over another socket as soon as possible.

        Args:
            swapped: called with the old socket then, with None if the connection ends before.
        """
        with self._lock:
            if self._closed or self._next is not None:
                sock.close()
                swapped(None)
                return
            self._next = sock
            self._swapped = swapped
            os.eventfd_write(self._wakeup, 1)

    def _change(self) -> None:
        with self._sending, self._lock:
            os.eventfd_read(self._wakeup)
            assert self._next is not None
            old, self._sock, self._next = self._sock, self._next, None
            self._poll.unregister(old)
            self._poll.register(self._sock, select.POLLIN)
            swapped, self._swapped = self._swapped, None
        swapped(old)


class Handover:
    """The phone's end of the channel. It accepts connections like a listening socket.

    Args:
        refresh: called when the phone's faults have changed; tells what could not be done.
    """

    def __init__(self, channel: socket.socket, refresh: Callable[[], str | None] = lambda: None) -> None:
        self._channel = channel
        self._refresh = refresh
        self._open: weakref.WeakValueDictionary[int, Connection] = weakref.WeakValueDictionary()

    def accept(self) -> tuple[socket.socket, None]:
        """The next connection; takes care of the link's other wishes meanwhile.

        Raises:
            OSError: the link is gone for good.
        """
        while True:
            message, fds, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, 1)
            if not message:
                raise OSError("the link has closed the channel")
            wish = json.loads(message)
            sock = socket.socket(fileno=fds[0]) if fds else None
            if "new" in wish and sock is not None:
                connection = Connection(sock)
                self._open[wish["new"]] = connection
                # It has what the transport uses of a socket.
                return cast(socket.socket, connection), None
            if "swap" in wish and sock is not None:
                self._swap(wish["swap"], sock)
            elif "drop" in wish:
                self._drop(wish["drop"])
            elif "refresh" in wish:
                answer = {"refreshed": True, "problem": self._refresh()}
                self._channel.send(json.dumps(answer).encode())

    def listen(self, port: int) -> None:
        """Have the link take connections at this port of the phone's Wi-Fi address too; 0: no longer."""
        self._channel.send(json.dumps({"tcp": port}).encode())

    def turn_away(self, timeout_s: float) -> None:
        """Refuse the next connection, if one comes in time: adbd is not running."""
        if not select.select([self._channel], [], [], timeout_s)[0]:
            return
        message, fds, _, _ = socket.recv_fds(self._channel, _MESSAGE_BYTES, 1)
        for fd in fds:
            os.close(fd)
        wish = json.loads(message) if message else {}
        if "swap" in wish:
            self._channel.send(json.dumps({"swapped": wish["swap"]}).encode())
        elif "refresh" in wish:
            # adbd reads everything when it starts.
            self._channel.send(json.dumps({"refreshed": True, "problem": None}).encode())

    def _swap(self, number: int, sock: socket.socket) -> None:
        def answer(old: socket.socket | None) -> None:
            fds = [] if old is None else [old.fileno()]
            try:
                socket.send_fds(self._channel, [json.dumps({"swapped": number}).encode()], fds)
            except OSError as error:
                log(f"cannot give a connection back: {error}")
            if old is not None:
                old.close()

        connection = self._open.get(number)
        if connection is None:
            sock.close()
            answer(None)
        else:
            connection.swap(sock, answer)

    def _drop(self, numbers: list[int]) -> None:
        for connection in [self._open[number] for number in numbers if number in self._open]:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
