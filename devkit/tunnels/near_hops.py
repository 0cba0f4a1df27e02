"""Logins that outlive a broken link: when only the way behind a jump host broke, that login is used again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from devkit.errors import TunnelError
from devkit.tunnels import keepalive
from devkit.tunnels.model import HostPlan

if TYPE_CHECKING:
    from devkit.tunnels.hops import Hop

# A failure that says nothing about the logins before it, and that a new session there would not mend: an old
# one keeps the configuration, and the addresses, that its sshd once read.
_BEHIND = ("lost", "timeout", "refused", "unreachable", "closed")
# After so many attempts in vain all is made anew, whatever the reason.
_MOST_USES = 20
_LEAST_WAIT_S = 0.5
_ROUND_TRIPS = 4


class NearHops:
    """Holds them between two connections of one tunnel."""

    def __init__(self) -> None:
        self._hops: list[Hop] = []
        self._uses = 0

    def keep(self, hops: Sequence[Hop], failure: TunnelError | None) -> None:
        """Take over the hops before the one that failed, if another attempt can use them; end the rest."""
        count = 0
        if failure is not None and failure.reason in _BEHIND and self._uses < _MOST_USES:
            count = min(failure.link or 0, len(hops))
        live = 0
        while live < count and hops[live].transport.is_active():
            live += 1
        _end(hops[live:])
        self._hops = list(hops[:live])
        if not live:
            self._uses = 0

    def take(self, plans: Sequence[HostPlan]) -> list[Hop]:
        """Those that the way begins with and that answer; they are the caller's then. The rest is ended."""
        hops, self._hops = self._hops, []
        fits = 0
        while fits < min(len(hops), len(plans) - 1) and hops[fits].plan == plans[fits]:
            fits += 1
        _end(hops[fits:])
        hops = hops[:fits]
        if hops:
            self._uses += 1
            wait_s = max(_LEAST_WAIT_S, _ROUND_TRIPS * (hops[-1].latency_s or 0.0))
            request = hops[-1].transport.ask(keepalive.PING)
            if not request.wait(wait_s) or request.lost:
                _end(hops)
                return []
        return hops

    def carried(self) -> None:
        """The connection works: what was in vain before does not count any more."""
        self._uses = 0

    def close(self) -> None:
        """End what is held."""
        _end(self._hops)
        self._hops = []


def _end(hops: Sequence[Hop]) -> None:
    for hop in reversed(hops):
        hop.close()
