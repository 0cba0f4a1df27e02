"""Which addresses of a machine belong to a VPN: Tailscale, EasyTier, WireGuard, ZeroTier, others.

Only what the machine itself lists is read; nothing is sent anywhere.
"""

from __future__ import annotations

import ipaddress
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit import process
from devkit.errors import DevkitError

TAILSCALE, EASYTIER, WIREGUARD, ZEROTIER = "Tailscale", "EasyTier", "WireGuard", "ZeroTier"
OTHER_VPN, LAN = "VPN", "LAN"
_TIMEOUT_S = 10.0

# https://tailscale.com/kb/1015/100.x-addresses and /1033/ip-and-dns-addresses. Providers use the first
# range, too (RFC 6598), on interfaces of other names.
_TAILSCALE_RANGES = (ipaddress.ip_network("100.64.0.0/10"), ipaddress.ip_network("fd7a:115c:a1e0::/48"))
# Beginnings of names, in lower case. On Windows EasyTier's begin with et_; on Linux they are tunN.
_NAMES = (
    (TAILSCALE, ("tailscale",)),
    (EASYTIER, ("easytier", "et_")),
    (WIREGUARD, ("wg", "wireguard")),
    (ZEROTIER, ("zt", "zerotier", "feth")),
)
# macOS calls every tunnel utunN, whoever made it.
_TUNNELS = ("tun", "tap", "utun", "ppp", "openvpn", "wintun")
# Networks that end inside one machine: containers, virtual machines, Windows' own switches.
_INNER = (
    "lo", "docker", "br-", "veth", "virbr", "vethernet", "cni", "flannel", "cali", "lxc", "lxd", "podman",
    "vmnet", "vboxnet", "bridge", "vmware", "virtualbox", "dummy", "awdl", "llw", "anpi",
)  # fmt: skip
_CONTAINER_MARKS = ("/.dockerenv", "/run/.containerenv")

_IP_LINE = re.compile(r"\d+:\s+(\S+?)(?:@\S+)?\s+inet6?\s+(\S+)(?:\s+peer\s+(\S+))?")
_IFCONFIG_HEAD = re.compile(r"(\S+?):?\s+(?:flags=\w+<(\S*)>|Link encap:)")
_IFCONFIG_INET = re.compile(r"\s+inet\s+(?:addr:)?([\d.]+)(?:\s+-->\s+\S+)?(?:.*?netmask\s+(\S+))?")
_IFCONFIG_INET6 = re.compile(r"\s+inet6\s+([0-9a-fA-F:]+)(?:%\S+)?\s+prefixlen\s+(\d+)")
_IPCONFIG_HEAD = re.compile(r"(?=\S).*?(?:[Aa]dapter|适配器)\s+(.+?)\s*[:：]\s*$")
_IPCONFIG_ADDRESS = re.compile(r"\s+IPv[46].*?:\s+([0-9a-fA-F.:]+)")
_IPCONFIG_MASK = re.compile(r"\s+\S.*:\s+(255\.[\d.]+)\s*$")

_WINDOWS_SCRIPT = (
    "[Console]::OutputEncoding = [Text.Encoding]::UTF8; "
    "@(Get-NetIPAddress | Select-Object InterfaceAlias, IPAddress, PrefixLength) | ConvertTo-Json"
)


@dataclass(frozen=True)
class InterfaceAddress:
    """One address of one interface of a machine that is up. `prefix`: bits of its network."""

    interface: str
    address: str
    prefix: int

    @property
    def kind(self) -> str:
        """TAILSCALE, EASYTIER, …; LAN for an ordinary network."""
        name = self.interface.lower()
        for kind, starts in _NAMES:
            if name.startswith(starts):
                return kind
        if name.startswith(_TUNNELS):
            return TAILSCALE if self._is_tailscale else OTHER_VPN
        return LAN

    @property
    def is_vpn(self) -> bool:
        """Whether the interface is one of a VPN."""
        return self.kind != LAN

    def shares_network(self, other: InterfaceAddress) -> bool:
        """Whether a machine with that address may be a neighbour: one network by its numbers.

        Whether it is one has to be tried: two homes use 192.168.1.0/24.
        """
        mine, theirs = ipaddress.ip_address(self.address), ipaddress.ip_address(other.address)
        if mine.version != theirs.version or mine == theirs:
            return False
        if self._is_tailscale and other._is_tailscale:
            # Each node has a /32 of its own there.
            return self.is_vpn and other.is_vpn
        if self._is_single or other._is_single:
            # WireGuard's and point-to-point addresses often have no network.
            return self.is_vpn and self.kind == other.kind
        return self.is_vpn == other.is_vpn and (mine in other._network and theirs in self._network)

    @property
    def _network(self) -> ipaddress.IPv4Network | ipaddress.IPv6Network:
        return ipaddress.ip_network(f"{self.address}/{self.prefix}", strict=False)

    @property
    def _is_single(self) -> bool:
        return self._network.num_addresses == 1

    @property
    def _is_tailscale(self) -> bool:
        address = ipaddress.ip_address(self.address)
        return any(address in network for network in _TAILSCALE_RANGES)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**self.__dict__, "kind": self.kind}


def local_addresses() -> tuple[InterfaceAddress, ...]:
    """The addresses of this machine at which another one may reach it. Empty when nothing tells."""
    for argv, parse in _readers():
        try:
            done = process.run(argv, timeout_s=_TIMEOUT_S, check=False)
        except DevkitError:
            continue
        found = parse(done.text)
        if found:
            return _with_easytier(found)
    return ()


def parse_any(text: str) -> tuple[InterfaceAddress, ...]:
    """Whatever of the shapes below it is: what a server prints that was asked without knowing its system."""
    stripped = text.lstrip()
    if stripped.startswith("[") and '"ifname"' in text:
        return parse_ip_json(stripped)
    return parse_ip_lines(text) or parse_ifconfig(text)


def parse_ip_json(text: str) -> tuple[InterfaceAddress, ...]:
    """`ip -j addr` of iproute2 (4.14 and later)."""
    try:
        interfaces = json.loads(text)
    except ValueError:
        return ()
    found = []
    for interface in interfaces if isinstance(interfaces, list) else ():
        if not isinstance(interface, dict) or "UP" not in interface.get("flags", ()):
            continue
        for info in interface.get("addr_info") or ():
            found.append((str(interface.get("ifname", "")), info.get("local"), info.get("prefixlen")))
    return _usable(found)


def parse_ip_lines(text: str) -> tuple[InterfaceAddress, ...]:
    """`ip -o addr` of iproute2 and busybox."""
    found = []
    for line in text.splitlines():
        match = _IP_LINE.match(line)
        if match:
            address, _, prefix = match.group(2).partition("/")
            # With a peer the prefix is the peer's.
            found.append((match.group(1), address, prefix or (match.group(3) or "").partition("/")[2]))
    return _usable(found)


def parse_ifconfig(text: str) -> tuple[InterfaceAddress, ...]:
    """`ifconfig` of macOS and the BSDs, and of Linux' net-tools."""
    found: list[tuple[str, Any, Any]] = []
    interface, is_up = "", True
    for line in text.splitlines():
        head = _IFCONFIG_HEAD.match(line)
        if head:
            interface = head.group(1)
            is_up = head.group(2) is None or "UP" in head.group(2).split(",")
            continue
        match = _IFCONFIG_INET.match(line)
        if match and is_up:
            found.append((interface, match.group(1), _bits(match.group(2))))
        match = _IFCONFIG_INET6.match(line)
        if match and is_up:
            found.append((interface, match.group(1), match.group(2)))
    return _usable(found)


def parse_powershell(text: str) -> tuple[InterfaceAddress, ...]:
    """`Get-NetIPAddress | Select-Object InterfaceAlias, IPAddress, PrefixLength | ConvertTo-Json`."""
    try:
        rows = json.loads(text.lstrip("\ufeff"))
    except ValueError:
        return ()
    # A single one comes without brackets.
    rows = rows if isinstance(rows, list) else [rows]
    return _usable(
        (str(row.get("InterfaceAlias", "")), row.get("IPAddress"), row.get("PrefixLength"))
        for row in rows
        if isinstance(row, dict)
    )


def parse_ipconfig(text: str) -> tuple[InterfaceAddress, ...]:
    """`ipconfig` of Windows, where PowerShell may not run; in English, German, Chinese."""
    found: list[tuple[str, Any, Any]] = []
    interface = ""
    for line in text.splitlines():
        head = _IPCONFIG_HEAD.match(line)
        if head:
            interface = head.group(1)
            continue
        match = _IPCONFIG_ADDRESS.match(line)
        if match:
            bits = 32 if "." in match.group(1) else 64
            found.append((interface, match.group(1), bits))
            continue
        match = _IPCONFIG_MASK.match(line)
        if match and found:
            found[-1] = (*found[-1][:2], _bits(match.group(1)))
    return _usable(found)


def parse_tailscale_status(text: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """(name, addresses) of the peers that are online, from `tailscale status --json`."""
    try:
        peers = (json.loads(text).get("Peer") or {}).values()
        found = []
        for peer in peers:
            if peer.get("Online"):
                name = str(peer.get("DNSName") or "").partition(".")[0] or str(peer.get("HostName") or "?")
                found.append((name, tuple(str(each) for each in peer.get("TailscaleIPs") or ())))
    except (ValueError, AttributeError):
        return ()
    return tuple(sorted(found))


def parse_easytier_node(text: str) -> str | None:
    """The machine's address in the network, from `easytier-cli -o json node`; None without one."""
    try:
        address = str(json.loads(text)["ipv4_addr"]).partition("/")[0]
        return str(ipaddress.IPv4Address(address))
    except (ValueError, KeyError, TypeError):
        return None


def tailscale_peers() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The peers that Tailscale says are online; empty where its program is not there or says nothing."""
    for program in ("tailscale", "/Applications/Tailscale.app/Contents/MacOS/Tailscale"):
        try:
            done = process.run([program, "status", "--json"], timeout_s=_TIMEOUT_S, check=False)
        except DevkitError:
            continue
        return parse_tailscale_status(done.text)
    return ()


def missing_tun() -> str | None:
    """Why this machine can have no VPN of its own: it has no TUN device. None when it has one."""
    if not sys.platform.startswith("linux"):
        return None
    tun = Path("/dev/net/tun")
    if tun.exists() and os.access(tun, os.R_OK | os.W_OK):
        return None
    if any(Path(mark).exists() for mark in _CONTAINER_MARKS):
        return "this container has none"
    return f"{tun} is not there"


def _readers() -> Sequence[tuple[list[str], Any]]:
    if sys.platform == "win32":
        powershell = ["powershell", "-NoProfile", "-NonInteractive", "-Command", _WINDOWS_SCRIPT]
        return (powershell, parse_powershell), (["ipconfig"], parse_ipconfig)
    if sys.platform == "darwin":
        return ((["/sbin/ifconfig"], parse_ifconfig),)
    # Not on an ordinary user's PATH everywhere.
    return (
        (["ip", "-j", "addr"], parse_ip_json),
        (["/sbin/ip", "-j", "addr"], parse_ip_json),
        (["ip", "-o", "addr"], parse_ip_lines),
        (["ifconfig"], parse_ifconfig),
    )


def _with_easytier(found: tuple[InterfaceAddress, ...]) -> tuple[InterfaceAddress, ...]:
    """On Linux and macOS its interface has a name that others use, too: its program tells which it is."""
    if not any(each.kind == OTHER_VPN for each in found):
        return found
    try:
        done = process.run(["easytier-cli", "-o", "json", "node"], timeout_s=_TIMEOUT_S, check=False)
    except DevkitError:
        return found
    own = parse_easytier_node(done.text)
    return tuple(
        InterfaceAddress(f"easytier ({each.interface})", each.address, each.prefix)
        if each.address == own
        else each
        for each in found
    )


def _usable(found: Iterable[tuple[str, Any, Any]]) -> tuple[InterfaceAddress, ...]:
    usable = []
    for interface, address, prefix in found:
        try:
            number = ipaddress.ip_address(str(address))
            bits = int(prefix) if prefix not in (None, "") else number.max_prefixlen
        except ValueError:
            continue
        if number.is_loopback or number.is_link_local or number.is_multicast or number.is_unspecified:
            continue
        if interface.lower().startswith(_INNER) or not 0 < bits <= number.max_prefixlen:
            continue
        usable.append(InterfaceAddress(interface, str(number), bits))
    return tuple(usable)


def _bits(mask: str | None) -> int | None:
    """0xffffff00 or 255.255.255.0 → 24; None for what is no mask."""
    if not mask:
        return None
    try:
        number = int(mask, 16) if mask.startswith("0x") else int(ipaddress.IPv4Address(mask))
    except ValueError:
        return None
    return bin(number).count("1")
