"""How long a tunnel needs until it carries again: links cut and healed, sshd restarted, between real hosts.

Three hosts in network namespaces (laptop, jump host, server) with real sshds and a real adb server. A
program on the server asks that adb server through the tunnel twenty times a second. The peer is what
people do by hand: `ssh -R` in a loop as autossh runs it, with keepalives as short as ours, at the same
time through the same links. Its usual trouble: the server still holds its broken session, with the port.
"""

from __future__ import annotations

import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.report import Measure
from tests.e2e.support import WHEEL_ADB
from tests.e2e.tunnel_world import devkit
from tests.support.answers import Answers
from tests.support.host import Host, Link
from tests.support.hosts import Hosts

ROUNDS, QUICK_ROUNDS = 3, 1
CUTS_S, QUICK_CUTS_S = (2, 4, 8, 20), (2, 4)
GOAL_S = 3.0
FAR_DELAY_S = 0.05  # each way: 100 ms there and back
PEER_PORT = 26000
# The peer is not waited for longer than this.
GIVE_UP_S = 30.0
_UP_TIMEOUT_S = 90.0

_PEER = """\
while :; do
    ssh -N -o ServerAliveInterval=1 -o ServerAliveCountMax=4 -o ConnectTimeout=2 \\
        -o ExitOnForwardFailure=yes -R {port}:127.0.0.1:5037 server
    sleep 1
done
"""


def run(*, quick: bool) -> list[Measure]:
    """Each trouble a few times; the worst of ours counts."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    cuts = QUICK_CUTS_S if quick else CUTS_S
    measures = []
    with tempfile.TemporaryDirectory(prefix="devkit-recovery-") as base, Hosts(Path(base)) as hosts:
        hosts.laptop.run(WHEEL_ADB, "start-server")
        with _tunnels(hosts) as (ours, peer):
            for far in (False, True):
                hosts.laptop_jump.shape(delay_s=FAR_DELAY_S if far else 0)
                for name, trouble in _troubles(hosts, cuts):
                    full = f"{name}, {'100 ms' if far else 'no delay'}"
                    measures.append(_measure(full, hosts, trouble, ours, peer, rounds))
    return measures


def _troubles(hosts: Hosts, cuts: tuple[int, ...]) -> list[tuple[str, Callable[[], float]]]:
    """What breaks; each returns when it was mended."""

    def cut(link: Link, seconds: float) -> float:
        with link.broken():
            time.sleep(seconds)
        return time.monotonic()

    def restart(host: Host) -> float:
        host.restart_sshd()
        return time.monotonic()

    found: list[tuple[str, Callable[[], float]]] = []
    for link in hosts.links:
        found += [(f"{link.name} cut for {s} s", lambda link=link, s=s: cut(link, s)) for s in cuts]
    for host in (hosts.jump, hosts.server):
        found.append((f"sshd of {host.name} restarted", lambda host=host: restart(host)))
    return found


def _measure(
    name: str, hosts: Hosts, trouble: Callable[[], float], ours: Answers, peer: Answers, rounds: int
) -> Measure:
    our_s, peer_s = [], []
    for _ in range(rounds):
        _both_carry(hosts, ours, peer)
        healed = trouble()
        back = ours.back_after(healed, GIVE_UP_S)
        our_s.append(GIVE_UP_S if back is None else back)
        back = peer.back_after(healed, GIVE_UP_S)
        peer_s.append(GIVE_UP_S if back is None else back)
        print(f"{name}: {our_s[-1]:.2f} s, peer {peer_s[-1]:.2f} s", file=sys.stderr, flush=True)
    worst = max(our_s)
    return Measure(
        name, "s", statistics.median(our_s), statistics.median(peer_s), statistics.pstdev(our_s),
        worst, "s at worst", f"< {GOAL_S:g} s", worst < GOAL_S,
    )  # fmt: skip


def _both_carry(hosts: Hosts, ours: Answers, peer: Answers) -> None:
    """Wait until both tunnels work; the peer's dead session is ended for it where it still holds the port."""
    if peer.back_after(time.monotonic(), 5.0) is None:
        hosts.server.restart_sshd()
    for tunnel in (peer, ours):
        if tunnel.back_after(time.monotonic(), _UP_TIMEOUT_S) is None:
            raise RuntimeError("a tunnel does not come up again")


@contextlib.contextmanager
def _tunnels(hosts: Hosts) -> Iterator[tuple[Answers, Answers]]:
    up = devkit(hosts.laptop, "tunnel", "up", "server", "--detach", "--json")
    if up.code != 0:
        raise RuntimeError(up.out + up.err)
    loop = hosts.laptop.start(
        ["sh", "-c", _PEER.format(port=PEER_PORT)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    ours, peer = Answers(hosts.server, up.data["port"]), Answers(hosts.server, PEER_PORT)
    try:
        yield ours, peer
    finally:
        for each in (ours, peer):
            each.close()
        loop.kill()
        loop.wait()
        devkit(hosts.laptop, "tunnel", "down")
