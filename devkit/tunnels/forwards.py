"""Ports that lead through an SSH connection: `ssh -R` and `ssh -L`, several on one connection."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from devkit.errors import TunnelError
from devkit.tunnels.dialling import describe, dial
from devkit.tunnels.joint import Joint
from devkit.tunnels.model import Address, ForwardStatus, Screen, Target
from devkit.tunnels.pump import READ, Pump

if TYPE_CHECKING:
    from paramiko.channel import Channel

    from devkit.tunnels.transport import Transport

CLOSE_TIMEOUT_S = 5.0
_BACKLOG = 128
# Out of descriptors: the waiting client stays in the queue, so asking again at once would spin.
_ACCEPT_PAUSE_S = 0.5
_ACCEPTS_IN_A_ROW = 16
_REASON_TIMEOUT_S = 0.5


class Forward:
    """A listening port whose connections travel through a link; made by `Link.*_forward`.

    When the link breaks or is closed its listener is closed, too, so that clients fail at once.

    Attributes:
        kind: "remote" (listens on the far machine) or "local" (listens here).
        port: the port it listens on, also when 0 was asked for.
    """

    kind: str

    def __init__(
        self, pump: Pump, transport: Transport, target: Target, bind: str, port: int, screen: Screen | None
    ) -> None:
        self.bind = bind
        self._screen = screen
        self.port = port
        self._target = target
        self._pump = pump
        self._transport = transport
        self._joints: set[Joint] = set()
        self._total = 0
        self._bytes_out = 0
        self._bytes_in = 0
        self._last_error: str | None = None
        self._closed = threading.Event()
        self._closing = threading.Lock()

    def status(self) -> ForwardStatus:
        """What went through it so far."""
        return ForwardStatus(
            kind=self.kind,
            bind=self.bind,
            port=self.port,
            target=describe(self._target),
            open_connections=len(self._joints),
            total_connections=self._total,
            bytes_out=self._bytes_out,
            bytes_in=self._bytes_in,
            last_error=self._last_error,
        )

    def why(self) -> str | None:
        """Why the last connection failed; its client may hear of the end a moment earlier."""
        deadline = time.monotonic() + _REASON_TIMEOUT_S
        while self._last_error is None and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._last_error

    def close(self) -> None:
        """Stop listening and end its connections. Does nothing the second time."""
        with self._closing:
            if self._closed.is_set():
                return
            self._unlisten()
            ended = threading.Event()

            def work() -> None:
                self._end_all()
                ended.set()

            if self._pump.call(work):
                ended.wait(CLOSE_TIMEOUT_S)
            self._closed.set()

    def end(self) -> None:
        """The link is gone: close the listener and all connections. In the pump's thread."""
        self._closed.set()
        self._unlisten_here()
        self._end_all()

    def __enter__(self) -> Forward:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _unlisten(self) -> None:
        """Stop listening, from any thread."""
        raise NotImplementedError

    def _unlisten_here(self) -> None:
        """Stop listening, in the pump's thread and without the far machine."""

    def _end_all(self) -> None:
        for joint in list(self._joints):
            joint.finish()

    def _joint(self) -> Joint:
        joint = Joint(
            self._pump, self._transport, self._counted, self._ended,
            screen=self._screen, client_here=self.kind == "local",
        )  # fmt: skip
        self._joints.add(joint)
        self._total += 1
        return joint

    def _counted(self, out: int, into: int) -> None:
        # Each of the two is counted by one thread alone.
        self._bytes_out += out
        self._bytes_in += into

    def _ended(self, joint: Joint, reason: str | None) -> None:
        self._joints.discard(joint)
        if reason is not None:
            self._last_error = reason


class RemoteForward(Forward):
    """The far machine listens; each of its connections is joined to the target here.

    Args:
        cancel: tells the far machine to stop listening.
    """

    kind = "remote"

    def __init__(
        self,
        pump: Pump,
        transport: Transport,
        target: Target,
        bind: str,
        port: int,
        screen: Screen | None,
        cancel: Callable[[RemoteForward], None],
    ) -> None:
        super().__init__(pump, transport, target, bind, port, screen)
        self._cancel = cancel
        # False while devkit itself connects to the port to see whether it is reachable.
        self.open = True

    def take(self, channel: Channel) -> Joint | None:
        """A connection arrived. In the transport's thread."""
        if self._closed.is_set() or not self.open:
            return None
        joint = self._joint()
        joint.channel = channel
        self._pump.call(lambda: self._dial(joint))
        return joint

    def _dial(self, joint: Joint) -> None:
        def dialled(sock: socket.socket | None, reason: str) -> None:
            if sock is not None:
                joint.join(sock)
            else:
                joint.finish(f"{describe(self._target)} cannot be reached from here: {reason}")

        dial(self._pump, self._target, dialled)

    def _unlisten(self) -> None:
        self._cancel(self)


class LocalForward(Forward):
    """A listener here; the far machine connects to the target for each of its connections."""

    kind = "local"

    def __init__(
        self, pump: Pump, transport: Transport, target: Address, bind: str, port: int, screen: Screen | None
    ) -> None:
        self._listener = _listen(bind, port)
        super().__init__(pump, transport, target, bind, self._listener.getsockname()[1], screen)
        self._address = target
        pump.call(lambda: pump.watch(self._listener, READ, self._accept))

    def _accept(self, _events: int) -> None:
        for _ in range(_ACCEPTS_IN_A_ROW):
            try:
                sock, origin = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._pause()
                    self._last_error = str(error.strerror)
                return
            joint = self._joint()
            joint.join(sock)
            joint.channel = self._transport.open_stream(joint, self._address, (origin[0], origin[1]))

    def _pause(self) -> None:
        self._pump.watch(self._listener, 0, self._accept)
        timer = threading.Timer(_ACCEPT_PAUSE_S, lambda: self._pump.call(self._resume))
        timer.daemon = True
        timer.start()

    def _resume(self) -> None:
        if self._listener.fileno() >= 0:
            self._pump.watch(self._listener, READ, self._accept)

    def _unlisten(self) -> None:
        self._pump.call(self._unlisten_here)

    def _unlisten_here(self) -> None:
        if self._listener.fileno() >= 0:
            self._pump.watch(self._listener, 0, self._accept)
            self._listener.close()


def _listen(bind: str, port: int) -> socket.socket:
    """A listening socket; raises TunnelError."""
    family = socket.AF_INET6 if ":" in bind else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind((bind, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        hints = [f"see who listens: ss -ltnp 'sport = :{port}'", "take another port, or 0 for any free one"]
        raise TunnelError(
            f"this machine cannot listen on {bind}:{port}: {error.strerror or error}",
            reason="address-in-use",
            hints=hints if port else (),
        ) from None
    listener.setblocking(False)
    return listener
