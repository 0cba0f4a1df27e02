"""How soon a tunnel carries again. The exact goal is held by `python -m benchmarks tunnel_recovery`."""

from __future__ import annotations

import time

import pytest

from tests.e2e.support import WHEEL_ADB, eventually
from tests.e2e.tunnel_world import Net, devkit, net, world
from tests.support.answers import Answers

__all__ = ["net", "world"]

# The goal is 3 s on a machine that does nothing else.
LIMIT_S = 5.0


@pytest.mark.slow
def test_a_cut_link_far_away(net: Net) -> None:
    """100 ms there and back; each retry of TCP itself would come later than the last."""
    net.hosts.laptop_jump.shape(delay_s=0.05)
    assert net.up().code == 0
    port = net.status()["port"]
    answers = Answers(net.server, port)
    try:
        assert answers.back_after(time.monotonic(), 20) is not None
        with net.hosts.laptop_jump.broken():
            time.sleep(7)
        took = answers.back_after(time.monotonic(), 20)
        assert took is not None and took < LIMIT_S, took
    finally:
        answers.close()
    state = net.status()
    assert state["port"] == port and state["reconnects"] == 1, state


@pytest.mark.slow
def test_a_busy_slow_link_is_not_given_up(net: Net) -> None:
    """Pings wait behind a transfer for longer than four of them may take on a free link."""
    net.hosts.laptop_jump.shape(delay_s=0.02, rate_bits_s=2e6)
    assert net.up().code == 0
    big = net.server.home / "big file"
    big.write_bytes(bytes(1_000_000) + b"x" * 3_000_000)
    adb = {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{net.status()['port']}"}
    for words in (("push", "-Z", big, "/data/local/tmp/big"), ("pull", "-Z", "/data/local/tmp/big", big)):
        net.server.run(WHEEL_ADB, "-s", net.phone["serial"], *words, timeout_s=120, **adb)
    state = net.status()
    assert state["state"] == "up" and state["reconnects"] == 0, state


def test_only_what_broke_is_made_again(net: Net) -> None:
    """The login on the jump host outlives the server's sshd; its own end is a new login."""

    def logins() -> int:
        return net.hosts.jump.log.read_text().count("Accepted publickey")

    def came_back(times: int) -> bool:
        state = net.status()
        return bool(state["state"] == "up" and state["reconnects"] == times)

    assert net.up().code == 0
    before = logins()
    net.server.kill_sshd()
    assert eventually(lambda: net.status()["state"] == "down", 30)
    time.sleep(2)  # some attempts in vain
    net.server.start_sshd()
    assert eventually(lambda: came_back(1), 30)
    assert logins() == before
    net.hosts.jump.restart_sshd()
    assert eventually(lambda: came_back(2), 30)
    assert logins() == before + 1
    # Nothing of it outlives the tunnel.
    assert devkit(net.laptop, "tunnel", "down").code == 0
    assert eventually(lambda: len(net.hosts.jump.pids_called("sshd")) == 1, 10)
