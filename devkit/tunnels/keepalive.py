"""Whether a connection still answers, and how fast: pings whose replies are awaited."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from devkit.tunnels.pump import Pump

if TYPE_CHECKING:
    from devkit.tunnels.hops import Hop
    from devkit.tunnels.transport import Request

INTERVAL_S = 5.0
COUNT = 3
# sshd answers requests it does not know with a failure; that is an answer, too.
PING = "keepalive@openssh.com"
_ROUND_TRIPS_MORE = 4
_MOST_MORE_S = 30.0


class Keepalive(threading.Thread):
    """Pings every hop. The pump sends: a thread that is stuck in a write could not keep time.

    Args:
        interval_s: seconds between two pings of a hop.
        count: a hop from which nothing came for `count` intervals after a ping is dead; on a slow link
            it gets some of its own round trips more.
        dead: told the index of the first such hop and the seconds of silence; called once.
    """

    def __init__(
        self,
        hops: Sequence[Hop],
        pump: Pump,
        interval_s: float,
        count: int,
        dead: Callable[[int, float], None],
    ) -> None:
        super().__init__(name=f"devkit keepalive {hops[-1].way.name}", daemon=True)
        self._hops = hops
        self._pump = pump
        self._interval_s = interval_s
        self._count = count
        self._dead = dead
        self._over = threading.Event()
        self._pings: list[_Ping | None] = [None] * len(hops)

    def stop(self) -> None:
        """End it; does not wait."""
        self._over.set()

    def run(self) -> None:
        """Until `stop`, or until a hop is dead."""
        while True:
            silent = [self._look(index, hop) for index, hop in enumerate(self._hops)]
            if max(silent) > 1:
                # Through a dead hop nothing comes from those behind it either, and one of their pings
                # may have been sent a moment earlier: the first one that is as silent is to blame.
                index = next(i for i, each in enumerate(silent) if each > 0.5)
                self._dead(index, silent[index] * self._patience_s(self._hops[index]))
                return
            if self._over.wait(self._interval_s):
                return

    def _look(self, index: int, hop: Hop) -> float:
        """Send the next ping if the last one was answered; else the share of the patience that is used up."""
        ping = self._pings[index]
        if ping is not None and ping.request is not None and ping.request.latency_s is not None:
            hop.latency_s = ping.request.latency_s
            ping = None
        if ping is None:
            self._pings[index] = ping = _Ping()
            self._pump.call(lambda p=ping: p.send(hop))  # type: ignore[misc]
            return 0.0
        # Whatever else came is a sign of life as well: an answer may queue behind a big transfer.
        silent_s = time.monotonic() - max(ping.asked, hop.transport.wire.last_moved)
        return silent_s / self._patience_s(hop)

    def _patience_s(self, hop: Hop) -> float:
        # A ping queues behind what is sent: where that takes seconds, some more are no sign of death.
        more = min(_ROUND_TRIPS_MORE * (hop.latency_s or 0.0), _MOST_MORE_S)
        return self._interval_s * self._count + more


class _Ping:
    def __init__(self) -> None:
        self.asked = time.monotonic()
        self.request: Request | None = None

    def send(self, hop: Hop) -> None:
        self.request = hop.transport.ask(PING)
