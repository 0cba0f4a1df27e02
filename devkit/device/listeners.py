"""TCP ports at which programs on the phone listen. Nothing is dialled: a gdbserver takes one connection."""

from __future__ import annotations

import re

from devkit.device.phone import Device

# Local address, remote address, state (0A: TCP_LISTEN, include/net/tcp_states.h).
_LINE = re.compile(r"\s*\d+:\s+[0-9A-F]+:([0-9A-F]{4})\s+[0-9A-F]+:[0-9A-F]{4}\s+([0-9A-F]{2})\s")
_SCRIPT = "cat /proc/net/tcp /proc/net/tcp6 2>/dev/null"


def listening_ports(device: Device) -> frozenset[int] | None:
    """The ports that listen on the phone, IPv4 and IPv6; None when the phone does not tell.

    Raises:
        DeviceError, OperationTimeout: the phone does not answer.
    """
    return parse_listening(device.shell(_SCRIPT).text)


def parse_listening(text: str) -> frozenset[int] | None:
    """The listening ports in /proc/net/tcp and tcp6; None when there is no table: the phone hides it."""
    if "local_address" not in text:
        return None
    found = [match for line in text.splitlines() if (match := _LINE.match(line))]
    return frozenset(int(match.group(1), 16) for match in found if match.group(2) == "0A")
