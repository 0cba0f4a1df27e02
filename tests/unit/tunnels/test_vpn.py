"""Addresses of VPNs, from what Linux, macOS and Windows print."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devkit.tunnels import vpn
from devkit.tunnels.direct import candidates, server_command
from devkit.tunnels.vpn import (
    EASYTIER,
    LAN,
    OTHER_VPN,
    TAILSCALE,
    WIREGUARD,
    ZEROTIER,
    InterfaceAddress,
    parse_any,
    parse_easytier_node,
    parse_ifconfig,
    parse_ip_json,
    parse_ip_lines,
    parse_ipconfig,
    parse_powershell,
    parse_tailscale_status,
)

DATA = Path(__file__).parents[2] / "data/network"
REPO = Path(__file__).parents[3]


def data(name: str) -> str:
    return (DATA / name).read_text("utf-8")


def kinds(found: tuple[InterfaceAddress, ...]) -> dict[str, tuple[str, int]]:
    return {each.address: (each.kind, each.prefix) for each in found}


def test_linux() -> None:
    # Not loopback, link-local, Docker's own, or an interface that is down.
    assert kinds(parse_ip_json(data("ip-addr-linux.json"))) == {
        "192.168.1.39": (LAN, 24),
        "100.91.70.66": (TAILSCALE, 32),
        "fd7a:115c:a1e0::f03b:4643": (TAILSCALE, 128),
        "10.8.0.2": (WIREGUARD, 24),
        "10.147.17.5": (ZEROTIER, 24),
        "10.126.126.3": (OTHER_VPN, 24),
    }
    assert kinds(parse_ip_lines(data("ip-o-addr.txt"))) == {
        "10.20.30.40": (LAN, 24),
        "100.101.102.103": (TAILSCALE, 32),
        "10.8.0.6": (OTHER_VPN, 32),
    }
    assert kinds(parse_ifconfig(data("ifconfig-linux.txt"))) == {
        "10.20.30.40": (LAN, 24),
        "100.101.102.103": (TAILSCALE, 32),
    }


def test_macos() -> None:
    assert kinds(parse_ifconfig(data("ifconfig-macos.txt"))) == {
        "192.168.1.42": (LAN, 24),
        # utun4 says nothing, its address does.
        "100.91.70.66": (TAILSCALE, 32),
        "fd7a:115c:a1e0::f03b:4643": (TAILSCALE, 48),
        "10.8.0.6": (OTHER_VPN, 32),
        "10.147.17.5": (ZEROTIER, 24),
    }


def test_windows() -> None:
    found = kinds(parse_powershell("\ufeff" + data("get-netipaddress.json")))
    assert found == {
        "fd7a:115c:a1e0::f03b:4643": (TAILSCALE, 128),
        "100.91.70.66": (TAILSCALE, 32),
        "10.144.144.1": (EASYTIER, 24),
        "10.147.17.5": (ZEROTIER, 24),
        "192.168.1.24": (LAN, 24),
    }
    single = '{"InterfaceAlias": "Tailscale", "IPAddress": "100.64.0.7", "PrefixLength": 32}'
    assert kinds(parse_powershell(single)) == {"100.64.0.7": (TAILSCALE, 32)}
    assert kinds(parse_ipconfig(data("ipconfig.txt"))) == {
        "100.101.102.103": (TAILSCALE, 32),
        "2001:db8::1": (LAN, 64),
        "192.168.1.24": (LAN, 24),
    }
    assert kinds(parse_ipconfig(data("ipconfig-zh.txt"))) == {
        "100.101.102.103": (TAILSCALE, 32),
        "192.168.1.5": (LAN, 24),
    }


def test_whatever_a_server_prints() -> None:
    for name, count in (("ip-addr-linux.json", 6), ("ip-o-addr.txt", 3), ("ifconfig-macos.txt", 5)):
        assert len(parse_any(data(name))) == count
    for rubbish in ("", "sh: ip: not found\n", "[", '[{"ifname": 5}]', '[{"ifname": "x", "flags": ["UP"]}]'):
        assert parse_any(rubbish) == ()
    for parse in (parse_ip_json, parse_powershell, parse_ipconfig, parse_tailscale_status):
        assert parse("no such thing {") == ()
        assert parse("null") == ()


def test_programs_of_vpns() -> None:
    assert parse_tailscale_status(data("tailscale-status.json")) == (
        ("build-01", ("100.101.102.103", "fd7a:115c:a1e0::6565:6667")),
        ("phone", ()),
    )
    assert parse_easytier_node(data("easytier-node.json")) == "10.126.126.3"
    for none_yet in ('{"ipv4_addr": ""}', "{}", "[]", "Error: rpc"):
        assert parse_easytier_node(none_yet) is None


def test_easytiers_program_names_its_interface(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Its interface is called tun0 on Linux, like that of any other VPN."""
    (tmp_path / "node.json").write_text(data("easytier-node.json"))
    for name, text in (("easytier-cli", f"cat '{tmp_path}/node.json'"), ("ip", f"cat '{DATA}/{_IP}'")):
        file = tmp_path / name
        file.write_text(f"#!/bin/sh\n{text}\n")
        file.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(sys, "platform", "linux")
    found = {each.kind: each for each in vpn.local_addresses()}
    assert found[EASYTIER].address == "10.126.126.3" and OTHER_VPN not in found


_IP = "ip-addr-linux.json"


def test_what_may_be_one_network() -> None:
    def address(interface: str, text: str) -> InterfaceAddress:
        number, _, prefix = text.partition("/")
        return InterfaceAddress(interface, number, int(prefix))

    tail = address("tailscale0", "100.91.70.66/32")
    assert tail.shares_network(address("utun4", "100.101.102.103/32"))
    assert not tail.shares_network(address("tailscale0", "fd7a:115c:a1e0::1/128"))
    # A provider's address of that range is no VPN, and a machine is not its own neighbour.
    assert not tail.shares_network(address("eth0", "100.101.102.103/32"))
    assert not tail.shares_network(tail)
    assert address("wg0", "10.8.0.2/32").shares_network(address("wg1", "10.8.0.1/24"))
    assert not address("wg0", "10.8.0.2/24").shares_network(address("wg0", "10.9.0.1/24"))
    assert address("eth0", "192.168.1.5/24").shares_network(address("wlan0", "192.168.1.7/24"))
    assert not address("eth0", "10.8.0.5/24").shares_network(address("tun0", "10.8.0.7/24"))
    mine = [address("eth0", "192.168.1.5/24"), tail]
    theirs = [address("eth0", "192.168.1.7/24"), address("tailscale0", "100.101.102.103/32")]
    assert [own.kind for own, _ in candidates(mine, theirs)] == [TAILSCALE, LAN]
    # The connection that there is takes that way already.
    assert [own.kind for own, _ in candidates(mine, theirs, ("100.91.70.66", "100.101.102.103"))] == [LAN]
    assert server_command("fd7a::1").endswith("@[fd7a::1] --from server")


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="network namespaces are Linux'")
@pytest.mark.parametrize("kind", ["tun", "veth"])
def test_a_real_interface(kind: str) -> None:
    """In a network of its own, where this machine's address is Tailscale's."""
    make = {
        "tun": "ip tuntap add dev tailscale0 mode tun",
        "veth": "ip link add tailscale0 type veth peer name far",
    }[kind]
    script = (
        f"{make} && ip addr add 100.64.7.7/32 dev tailscale0 && ip link set tailscale0 up && exec "
        f"'{sys.executable}' -c 'from devkit.tunnels.vpn import local_addresses as f; "
        'print([(a.kind, a.address, a.prefix) for a in f() if ":" not in a.address])\''
    )
    if shutil.which("unshare") is None or shutil.which("ip", path="/usr/sbin:/sbin:/usr/bin:/bin") is None:
        pytest.skip("unshare (util-linux) and ip (iproute2) are needed")
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--net", "sh", "-c", script],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/sbin:/sbin:/usr/bin:/bin", "PYTHONPATH": str(REPO)},
    )
    if done.returncode != 0 and ("unshare" in done.stderr or "not permitted" in done.stderr):
        pytest.skip(f"not allowed here: {done.stderr.strip()}")
    assert done.stdout.strip() == "[('Tailscale', '100.64.7.7', 32)]", done.stderr
