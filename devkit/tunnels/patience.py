"""How long a tunnel that comes back waits for machines: what each last needed decides.

A short wait notices soon that a network is back; one that never grows would give up a slow machine for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

# Of one attempt. Within it the machine is dialled anew every REDIAL_S: the system itself repeats the first
# packet of a lost connection after 1, 3 and 7 s only (tcp(7), tcp_syn_retries), and the network may be back
# just after that. A name is looked up once an attempt.
CONNECT_S = 5.0
REDIAL_S = 0.5
# From a connection to the first byte of the server, and without a byte while keys are agreed on. A loaded
# sshd takes a while; a link that breaks again must not hold an attempt for long.
SILENCE_S = 3.0
MAX_SILENCE_S = 30.0
_TIMES_NEEDED = 3.0
# Between two attempts; the last one goes on while the outage is young.
_PAUSES_S = (0.0, 0.2, 0.4, 0.8)
_YOUNG_S = 120.0
_OLD_PAUSE_S = 2.0
# A server that takes connections and drops them may be fending somebody off (sshd_config(5):
# PerSourcePenalties, MaxStartups): it is not asked again and again.
_FENDING_OFF = ("closed", "not-ssh", "protocol")
_POLITE_ATTEMPTS = 6
_POLITE_PAUSE_S = 5.0


@dataclass(frozen=True)
class Waits:
    """For one machine, in seconds.

    Attributes:
        connect_s: until the connection is there.
        silence_s: until the server says something, and between two things it says before the login.
        redial_s: another connection is tried beside one that does not answer after so long; None: never.
    """

    connect_s: float
    silence_s: float
    redial_s: float | None = None


@dataclass
class Patience:
    """What the machines of one tunnel needed so far; `logged_in`: with what one logged in there."""

    logged_in: dict[str, str] = field(default_factory=dict)
    _needed_s: dict[str, float] = field(default_factory=dict)
    _in_vain: dict[str, int] = field(default_factory=dict)

    def waits(self, machine: str) -> Waits:
        """For the next attempt: longer where it was slow, twice as long after each one in vain."""
        least = max(SILENCE_S, _TIMES_NEEDED * self._needed_s.get(machine, 0.0))
        return Waits(CONNECT_S, min(MAX_SILENCE_S, least * 2 ** self._in_vain.get(machine, 0)), REDIAL_S)

    def spoke(self, machine: str, longest_s: float) -> None:
        """It got through the key exchange; `longest_s` was its longest silence."""
        self._needed_s[machine] = longest_s
        self._in_vain.pop(machine, None)

    def was_silent(self, machine: str) -> None:
        """It took the connection, and then said nothing for as long as it was waited for."""
        self._in_vain[machine] = self._in_vain.get(machine, 0) + 1


def pause_s(
    reason: str, attempt: int, outage_s: float, scatter: Callable[[float, float], float] = random.uniform
) -> float:
    """Seconds until the next attempt, scattered: many laptops lose one server at the same moment.

    Args:
        reason: of `TunnelError`.
        attempt: how many were made in vain, 0 when the connection has just broken.
        outage_s: how long it has been down.
    """
    if reason in _FENDING_OFF and attempt >= _POLITE_ATTEMPTS:
        return _POLITE_PAUSE_S * scatter(0.8, 1.2)
    if outage_s > _YOUNG_S:
        return _OLD_PAUSE_S * scatter(0.8, 1.0)
    return _PAUSES_S[min(attempt, len(_PAUSES_S) - 1)] * scatter(0.6, 1.0)
