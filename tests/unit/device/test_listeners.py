"""Which ports listen on a phone, from its /proc/net/tcp."""

from __future__ import annotations

from pathlib import Path

from devkit.device.listeners import parse_listening

TABLE = (Path(__file__).parents[2] / "data/network/proc-net-tcp.txt").read_text()


def test_listeners_of_both_families() -> None:
    # 5040 is only a connection.
    assert parse_listening(TABLE) == {5039, 5555}


def test_nothing_listens() -> None:
    assert parse_listening(TABLE.splitlines()[0] + "\n") == frozenset()


def test_a_phone_that_hides_it() -> None:
    assert parse_listening("") is None
    assert parse_listening("cat: /proc/net/tcp: Permission denied\n") is None
