"""The phone's Wi-Fi: an address of this machine's loopback network, on which adbd listens in TCP mode."""

from __future__ import annotations

import ipaddress

from devkit.errors import UsageError

# In the folder that the phone's programs can read; `ip` and `ifconfig` show what it holds.
WIFI_FILE = "wlan0"
NETWORK = ipaddress.ip_network("127.90.0.0/16")


def own_address(port: int) -> str:
    """The address of the phone whose cable is at a port: no other phone of this machine has it."""
    return f"127.90.{port >> 8}.{port & 255}"


def check_address(text: str) -> str:
    """An address that a phone can have.

    Raises:
        UsageError: it is none of 127.90.0.0/16. Other addresses would be open to other machines.
    """
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        address = None
    if not isinstance(address, ipaddress.IPv4Address) or address not in NETWORK:
        raise UsageError(
            f"{text!r} cannot be the Wi-Fi address of a virtual phone",
            hints=[f"an address of {NETWORK}, as 127.90.0.7", "devkit sim wifi --off"],
        )
    return str(address)
