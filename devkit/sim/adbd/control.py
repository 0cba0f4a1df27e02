"""Services that change or restart adbd itself: `root:`, `tcpip:`, `reboot:` and their like.

Texts and order are those of daemon/restart_service.cpp and daemon/services.cpp: the answer first, then
adbd ends and init starts it again with the properties that were set.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

CHANGED_PROPERTIES = Path("/dev/__properties__/changed")
ROOT_PROPERTY = "service.adb.root"
PORT_PROPERTY = "service.adb.tcp.port"
LASTING_PORT_PROPERTY = "persist.adb.tcp.port"
POWER_PROPERTY = "sys.powerctl"
# The most characters of a property that is not ro.
_VALUE_CHARACTERS = 91


@dataclass(frozen=True)
class ControlAnswer:
    """What such a service says and does.

    Args:
        text: for the client.
        changes: properties to set.
        ends: adbd ends after the answer.
        silent: the client hears nothing until the connection breaks (`reboot:`).
    """

    text: str
    changes: Mapping[str, str] = field(default_factory=dict)
    ends: bool = False
    silent: bool = False


def answer_control(service: str, properties: Mapping[str, str], *, is_root: bool) -> ControlAnswer | None:
    """What to do for a service; None when it is not one of these."""
    name, colon, argument = service.partition(":")
    if not colon:
        return None
    if name == "root":
        return _root(properties, is_root=is_root)
    if name == "unroot":
        if not is_root:
            return ControlAnswer("adbd not running as root\n")
        return ControlAnswer("restarting adbd as non root\n", {ROOT_PROPERTY: "0"}, ends=True)
    if name == "tcpip":
        number = re.match(r"\s*([+-]?\d+)", argument)
        if number is None:
            # Android 6 takes that for port 0, later ones refuse the service: both are an error.
            return ControlAnswer("invalid port 0\n")
        port = int(number[1])
        if port <= 0:
            return ControlAnswer(f"invalid port {port}\n")
        return ControlAnswer(f"restarting in TCP mode port: {port}\n", {PORT_PROPERTY: str(port)}, ends=True)
    if name == "usb":
        return ControlAnswer("restarting in USB mode\n", {PORT_PROPERTY: "0"}, ends=True)
    if name == "reboot":
        value = f"reboot,{argument}"
        if len(value) > _VALUE_CHARACTERS or "\n" in value:
            return ControlAnswer(f"reboot ({value}) failed\n")
        return ControlAnswer("", {POWER_PROPERTY: value}, ends=True, silent=True)
    return None


def set_property(name: str, value: str) -> None:
    """Change a property as adbd may, which is more than `setprop` lets the shell user.

    Raises:
        OSError: there is no room.
    """
    temporary = CHANGED_PROPERTIES / f".{name}.{secrets.token_hex(4)}"
    temporary.write_text(value + "\n", encoding="utf-8")
    os.replace(temporary, CHANGED_PROPERTIES / name)


def changed_property(name: str) -> str:
    """The value a property was changed to, "" when it was not."""
    try:
        return (CHANGED_PROPERTIES / name).read_text(encoding="utf-8", errors="replace").rstrip("\n")
    except OSError:
        return ""


def tcp_port() -> int:
    """The port at which adbd is to listen, 0 for none (daemon/main.cpp looks at the same two)."""
    for name in (PORT_PROPERTY, LASTING_PORT_PROPERTY):
        value = changed_property(name)
        if value:
            return int(value) if re.fullmatch(r"[0-9]{1,5}", value) and int(value) < 65536 else 0
    return 0


def _root(properties: Mapping[str, str], *, is_root: bool) -> ControlAnswer:
    if is_root:
        return ControlAnswer("adbd is already running as root\n")
    if properties.get("ro.debuggable") != "1":
        return ControlAnswer("adbd cannot run as root in production builds\n")
    return ControlAnswer("restarting adbd as root\n", {ROOT_PROPERTY: "1"}, ends=True)
