"""Where a phone can be reached over a network, from what its `ip`, `ifconfig` or `netcfg` print.

Shapes read here: `ip route` and `ip addr` of toybox and iproute2 (Android 5 to 16), `ifconfig` of toybox
and of the older toolbox, `netcfg` (Android 4), and the property that old DHCP clients leave.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass

# One shell, one round trip; what a phone lacks stays empty.
ADDRESS_SCRIPT = """\
ip route 2>/dev/null
ip -o -4 addr 2>/dev/null || ip addr 2>/dev/null
ifconfig 2>/dev/null
netcfg 2>/dev/null
echo "dhcp-wlan0 $(getprop dhcp.wlan0.ipaddress)\""""

_IPV4 = r"(\d{1,3}(?:\.\d{1,3}){3})"
_ROUTE = re.compile(rf"(?:\S+\s+)+?dev\s+(\S+)\s.*?\bsrc\s+{_IPV4}(?:\s|$)")
_ONE_LINE = re.compile(rf"\d+:\s+(\S+?)(?:@\S+)?\s+inet\s+{_IPV4}[/\s]")
_HEAD = re.compile(r"\d+:\s+(\S+?)(?:@\S+)?:\s+<(\S*)>")
_IFCONFIG_HEAD = re.compile(r"(\S+)\s+Link encap:")
_INSIDE = re.compile(rf"\s+inet\s+(?:addr:)?{_IPV4}[/\s]")
_TOOLBOX = re.compile(rf"(\S+):\s+ip\s+{_IPV4}\s+mask\s.*\[up\b")
_NETCFG = re.compile(rf"(\S+)\s+UP\s+{_IPV4}/\d")
_DHCP = re.compile(rf"dhcp-(\S+)\s+{_IPV4}\s*$")

# Beginnings of interfaces' names, as vendors use them; the first is what to try first.
_KINDS = (
    ("Wi-Fi", ("wlan", "wifi", "mlan")),
    ("Ethernet", ("eth",)),
    ("hotspot", ("ap", "swlan", "softap", "wigig")),
    ("VPN", ("tun", "tailscale", "wg", "ppp", "ipsec")),
    ("USB network", ("rndis", "usb", "ncm")),
    ("Bluetooth", ("bt-pan", "bnep")),
    ("Wi-Fi Direct", ("p2p",)),
)
_OTHER = "other"
# The phone itself, and mobile networks, whose operators let nobody in.
_NEVER = ("lo", "dummy", "rmnet", "r_rmnet", "ccmni", "cc2mni", "pdp", "seth", "wwan", "clat", "v4-", "sit")


@dataclass(frozen=True)
class PhoneAddress:
    """An IPv4 address of the phone. `kind`: "Wi-Fi", "Ethernet", "hotspot", "VPN", …"""

    address: str
    interface: str
    kind: str


def parse_addresses(text: str) -> tuple[PhoneAddress, ...]:
    """The addresses at which a phone may be reached, the likeliest first, each once.

    Addresses of loopback, of mobile networks, and link-local ones are left out.
    """
    found: dict[str, PhoneAddress] = {}
    interface, is_up = "", True
    for raw in text.replace("\r\n", "\n").splitlines():
        line = raw.rstrip()
        head = _HEAD.match(line) or _IFCONFIG_HEAD.match(line)
        if head:
            interface = head.group(1)
            is_up = head.re is _IFCONFIG_HEAD or "UP" in head.group(2).split(",")
            continue
        inside = _INSIDE.match(line + " ")
        if inside:
            if is_up:
                _add(found, interface, inside.group(1))
            continue
        for pattern in (_ONE_LINE, _ROUTE, _TOOLBOX, _NETCFG, _DHCP):
            match = pattern.match(line + " ")
            if match:
                _add(found, match.group(1), match.group(2))
                break
    order = [kind for kind, _ in _KINDS] + [_OTHER]
    return tuple(sorted(found.values(), key=lambda each: (order.index(each.kind), each.interface)))


def _add(found: dict[str, PhoneAddress], interface: str, address: str) -> None:
    try:
        number = ipaddress.IPv4Address(address)
    except ValueError:
        return
    if number.is_unspecified or number.is_link_local or number.is_multicast:
        return
    if not interface or interface.startswith(_NEVER) or address in found:
        return
    kind = next((kind for kind, starts in _KINDS if interface.startswith(starts)), _OTHER)
    found[address] = PhoneAddress(address, interface, kind)
