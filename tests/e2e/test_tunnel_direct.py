"""The way without jump hosts: found between real hosts, proposed, and taken as proposed."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.e2e.support import WHEEL_ADB
from tests.e2e.tunnel_world import Net, devkit, net, ssh_to_laptop, world

__all__ = ["net", "world"]


def checked(net: Net) -> Any:
    done = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed", "--json")
    assert done.code == 0, done.out + done.err
    return done.data


@pytest.fixture
def own_adb(net: Net) -> Any:
    yield net.laptop.run(WHEEL_ADB, "start-server")
    net.laptop.run(WHEEL_ADB, "kill-server", check=False)


def test_none_where_no_network_is_shared(net: Net) -> None:
    found = checked(net)
    assert found["direct"] is None
    assert "direct" not in [link["id"] for link in found["links"]]


@pytest.mark.usefixtures("own_adb")
def test_a_vpn_is_proposed_and_works_as_proposed(net: Net) -> None:
    hosts = net.hosts
    with hosts.vpn("100.64.9", net.laptop, net.server), ssh_to_laptop(net, net.server):
        command = f"devkit tunnel up {net.laptop.user}@100.64.9.1 --from server"
        direct = checked(net)["direct"]
        assert direct["works"] and direct["command"] == command, direct
        assert (direct["here"]["kind"], direct["there"]["address"]) == ("Tailscale", "100.64.9.2")
        shown = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed").out
        assert f"the faster link, on the server: {command}\n" in shown
        # `up` says the same, and goes on as it was asked to.
        up = net.up()
        assert up.code == 0 and command in up.err
        state = net.status()
        assert state["direct"]["command"] == command and state["links"][0]["id"] == "ssh:jump"
        assert devkit(net.laptop, "tunnel", "down").code == 0

        words = shlex.split(command)[1:]
        there = devkit(net.server, *words, "--accept-new", "--detach", "--name", "vpn")
        assert there.code == 0, there.err
        try:
            listed = devkit(net.server, "device", "list", "--json").data
            assert [each["origin"] for each in listed["servers"]] == ["tunnel"]
        finally:
            devkit(net.server, "tunnel", "down")


def test_not_proposed_when_it_is_taken_already(net: Net) -> None:
    with net.hosts.vpn("100.64.9", net.laptop, net.server), ssh_to_laptop(net, net.server):
        host = f"{net.server.user}@100.64.9.2"
        done = devkit(
            net.laptop, "tunnel", "check", host, "-s", "sim:p", "--no-speed", "--json", "--accept-new"
        )
        assert done.code == 0 and done.data["direct"] is None, done.out


@pytest.mark.slow
def test_why_a_shared_vpn_does_not_do(net: Net) -> None:
    hosts = net.hosts
    with hosts.vpn("100.64.9", net.laptop, net.server) as cable:
        assert "no SSH server listens" in checked(net)["direct"]["problem"]
        up = net.up()
        assert up.code == 0 and "--from server" not in up.err
        assert devkit(net.laptop, "tunnel", "down").code == 0
        with ssh_to_laptop(net, net.server):
            with cable.broken():
                assert "does not reach 100.64.9.1:22" in checked(net)["direct"]["problem"]
            net.server.restart_sshd(AllowTcpForwarding="remote")
            try:
                assert "AllowTcpForwarding" in checked(net)["direct"]["problem"]
            finally:
                net.server.restart_sshd()


def test_another_network_of_the_same_numbers(net: Net) -> None:
    """The server's neighbour at that address is somebody else: its host key says so."""
    hosts = net.hosts
    with (
        hosts.vpn("100.64.8", net.laptop, hosts.jump),
        ssh_to_laptop(net, net.server),
        hosts.vpn("100.64.9", hosts.jump, net.server, "tailscale1"),
    ):
        hosts.jump.ip("addr", "add", "100.64.8.1/32", "dev", "lo")
        net.server.ip("route", "add", "100.64.8.0/24", "via", "100.64.9.1", "dev", "tailscale1", "onlink")
        try:
            # On J the laptop's address is J's own, so that S finds J's sshd there.
            direct = checked(net)["direct"]
            assert not direct["works"] and "another machine answers" in direct["problem"], direct
        finally:
            hosts.jump.ip("addr", "del", "100.64.8.1/32", "dev", "lo")
