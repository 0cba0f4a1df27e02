"""The loop of the link's process: connections handed over, or their bytes held back and cut."""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
import time
from dataclasses import asdict
from typing import Any, NoReturn

from devkit.sim import namespaces
from devkit.sim.link_orders import BACKLOG, MESSAGE_BYTES, OFFLINE, UNPLUGGED, LinkOrder, LinkReport
from devkit.sim.links import LinkSettings
from devkit.sim.shaping import Direction, Lane, LinkCut

_TAKE_BACK_PATIENCE_S = 1.0
_REFRESH_PATIENCE_S = 15.0
_SOCKET_BUFFER_BYTES = 256 * 1024


def run_link(
    listener: socket.socket,
    channel: socket.socket,
    orders: socket.socket,
    supervisor: int,
    keep_fds: set[int],
) -> NoReturn:
    """Be the link's process until the supervisor ends."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        namespaces.die_with_parent()
        if os.getppid() == supervisor:
            namespaces.close_fds_except(
                {1, 2, listener.fileno(), channel.fileno(), orders.fileno()} | keep_fds
            )
            namespaces.set_process_title("devkit-link")
            LinkLoop(listener, channel, orders).run()
    finally:
        os._exit(1)


class _Pair:
    """A connection whose bytes run through here."""

    def __init__(
        self, outer: socket.socket, inner: socket.socket, up: Direction, down: Direction, *, wireless: bool
    ) -> None:
        self.wireless = wireless
        for sock in (outer, inner):
            sock.setblocking(False)
            # The queue is ours; large buffers of the kernel would be a second one.
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
        self.outer = outer
        self.inner = inner
        self.up = Lane(outer, inner, up)
        self.down = Lane(inner, outer, down)

    def close(self, *, reset: bool) -> None:
        if reset:
            self.outer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.outer.close()
        self.inner.close()


class LinkLoop:
    """The link's one loop.

    Args:
        orders: a SEQPACKET socket to the supervisor.
    """

    def __init__(self, listener: socket.socket, channel: socket.socket, orders: socket.socket) -> None:
        self._listener = listener
        self._channel = channel
        self._orders = orders
        self._order = LinkOrder()
        self._up, self._down = Direction(), Direction()
        self._pairs: list[_Pair] = []
        self._unanswered: list[socket.socket] = []
        self._next_id = 1
        self._direct: set[int] = set()
        # Of these the ones that came over the Wi-Fi: a pulled cable does not end them.
        self._wireless_ids: set[int] = set()
        self._wireless: socket.socket | None = None
        self._tcp_port = 0
        self._taken_back: dict[int, socket.socket] = {}
        self._answer_at: float | None = None
        self._refreshing = False
        self._problem: str | None = None
        self._cuts = 0
        self._bytes_up = self._bytes_down = 0
        listener.setblocking(False)

    def run(self) -> None:
        """Serve until the supervisor is gone."""
        while True:
            now = time.monotonic()
            reads: list[Any] = [self._orders, self._channel]
            if self._order.state != UNPLUGGED:
                reads.append(self._listener)
            if self._wireless is not None:
                reads.append(self._wireless)
            writes: list[Any] = []
            wake_at = self._answer_at
            for pair in self._pairs:
                for lane in (pair.up, pair.down):
                    if lane.wants_read:
                        reads.append(lane.source)
                    if lane.due is None:
                        continue
                    if lane.due <= now:
                        writes.append(lane.sink)
                    elif wake_at is None or lane.due < wake_at:
                        wake_at = lane.due
            patience = None if wake_at is None else max(0.0, wake_at - now)
            # select and not epoll, whose timeouts are whole milliseconds.
            ready, _, _ = select.select(reads, writes, [], patience)
            if self._orders in ready and not self._take_order():
                return
            if self._channel in ready:
                self._take_acknowledgement()
            if self._listener in ready:
                self._accept(self._listener)
            if self._wireless is not None and self._wireless in ready:
                self._accept(self._wireless)
            self._pump(set(ready))
            self._answer_when_done()

    # ---- orders

    def _take_order(self) -> bool:
        message = self._orders.recv(MESSAGE_BYTES)
        if not message:
            return False
        data = json.loads(message)
        data["settings"] = LinkSettings.from_dict(data["settings"])
        order, before = LinkOrder(**data), self._order
        self._order = order
        if order.settings != before.settings:
            now = time.monotonic()
            self._up.set(order.settings.rate_up_bits_s, order.settings.delay_up_s)
            self._down.set(order.settings.rate_down_bits_s, order.settings.delay_down_s)
            for pair in self._pairs:
                pair.up.reschedule(now)
                pair.down.reschedule(now)
        if order.cut != before.cut:
            self._arm_cut()
        if order.state != before.state:
            self._enter(order.state)
        elif order.drop:
            self._drop_all()
        if order.wifi != before.wifi:
            self._listen_on_wifi()
        if order.needs_bytes:
            self._take_back()
        self._problem = None
        self._refreshing = order.refresh
        if order.refresh:
            self._tell({"refresh": True})
        patience = _REFRESH_PATIENCE_S if order.refresh else _TAKE_BACK_PATIENCE_S
        self._answer_at = time.monotonic() + patience
        return True

    def _arm_cut(self) -> None:
        self._up.cut_after_bytes = self._order.cut_up_bytes
        self._down.cut_after_bytes = self._order.cut_down_bytes

    def _enter(self, state: str) -> None:
        self._drop(wireless=False)
        if state == UNPLUGGED:
            # The port stays bound, so nobody else can take it meanwhile.
            self._listener.shutdown(socket.SHUT_RDWR)
        else:
            self._listener.listen(BACKLOG)

    def _listen_on_wifi(self) -> None:
        """Where adbd listens in TCP mode has changed: by `tcpip`, `usb`, a restart or another address."""
        if self._wireless is not None:
            self._wireless.close()
            self._wireless = None
        self._drop(wireless=True)
        if self._order.wifi is None or not self._tcp_port:
            return
        try:
            self._wireless = socket.create_server((self._order.wifi, self._tcp_port), backlog=BACKLOG)
            self._wireless.setblocking(False)
        except OSError as error:
            sys.stderr.write(f"cannot listen at {self._order.wifi}:{self._tcp_port}: {error}\n")

    def _answer_when_done(self) -> None:
        if self._answer_at is None:
            return
        if (self._taken_back or self._refreshing) and time.monotonic() < self._answer_at:
            return
        if self._refreshing:
            self._problem = "the phone's adbd does not answer"
        self._answer_at = None
        self._refreshing = False
        up = self._bytes_up + sum(pair.up.moved_bytes for pair in self._pairs)
        down = self._bytes_down + sum(pair.down.moved_bytes for pair in self._pairs)
        report = LinkReport(self._cuts, up, down, self._problem)
        self._orders.send(json.dumps(asdict(report)).encode())

    # ---- connections

    def _accept(self, listener: socket.socket) -> None:
        wireless = listener is self._wireless
        try:
            outer, _ = listener.accept()
        except OSError:
            return
        outer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._order.state == OFFLINE and not wireless:
            self._unanswered.append(outer)
            return
        number = self._next_id
        self._next_id += 1
        if wireless:
            self._wireless_ids.add(number)
        if not self._order.needs_bytes:
            self._tell({"new": number}, outer)
            self._direct.add(number)
            outer.close()
            return
        inner, theirs = socket.socketpair()
        self._tell({"new": number}, theirs)
        theirs.close()
        self._pairs.append(_Pair(outer, inner, self._up, self._down, wireless=wireless))

    def _take_back(self) -> None:
        """Ask adbd for its connections; it goes on with one end of a pair of ours."""
        for number in self._direct:
            inner, theirs = socket.socketpair()
            self._tell({"swap": number}, theirs)
            theirs.close()
            self._taken_back[number] = inner
        self._direct.clear()

    def _take_acknowledgement(self) -> None:
        message, fds, _, _ = socket.recv_fds(self._channel, MESSAGE_BYTES, 1)
        if not message:
            return
        answer = json.loads(message)
        if "tcp" in answer:
            # adbd says it whenever it starts: connections of the one before have ended with it.
            if answer["tcp"] != self._tcp_port:
                self._tcp_port = answer["tcp"]
                self._listen_on_wifi()
            return
        if "refreshed" in answer:
            self._refreshing = False
            self._problem = answer["problem"]
            return
        inner = self._taken_back.pop(answer["swapped"], None)
        if inner is not None and fds:
            outer = socket.socket(fileno=fds[0])
            wireless = answer["swapped"] in self._wireless_ids
            self._pairs.append(_Pair(outer, inner, self._up, self._down, wireless=wireless))
        elif inner is not None:
            inner.close()

    def _tell(self, message: dict[str, Any], sock: socket.socket | None = None) -> None:
        fds = [] if sock is None else [sock.fileno()]
        socket.send_fds(self._channel, [json.dumps(message).encode()], fds)

    def _drop_all(self) -> None:
        self._drop(wireless=False)
        self._drop(wireless=True)

    def _drop(self, *, wireless: bool) -> None:
        """Break off the connections over the cable, or those over the Wi-Fi."""
        for pair in [pair for pair in self._pairs if pair.wireless == wireless]:
            self._forget(pair, reset=True)
        if not wireless:
            for sock in self._unanswered:
                sock.close()
            self._unanswered = []
        ids = {
            each for each in (*self._direct, *self._taken_back) if (each in self._wireless_ids) == wireless
        }
        if ids:
            self._tell({"drop": sorted(ids)})
        self._direct -= ids
        for number in ids & self._taken_back.keys():
            self._taken_back.pop(number).close()

    def _forget(self, pair: _Pair, *, reset: bool) -> None:
        self._bytes_up += pair.up.moved_bytes
        self._bytes_down += pair.down.moved_bytes
        self._pairs.remove(pair)
        pair.close(reset=reset)

    # ---- bytes

    def _pump(self, ready: set[Any]) -> None:
        now = time.monotonic()
        for pair in list(self._pairs):
            try:
                for lane in (pair.up, pair.down):
                    if lane.source in ready:
                        lane.read(now)
                    lane.write(now)
                if pair.up.is_done or pair.down.is_done:
                    self._forget(pair, reset=False)
            except LinkCut:
                self._cut()
                return
            except OSError:
                self._forget(pair, reset=True)

    def _cut(self) -> None:
        self._cuts += 1
        self._drop_all()
        if self._order.cut_repeats:
            self._arm_cut()
        else:
            self._up.cut_after_bytes = self._down.cut_after_bytes = None
