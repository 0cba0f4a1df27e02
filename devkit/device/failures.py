"""What adb servers and phones say when they refuse, turned into errors with the next step."""

from __future__ import annotations

import re

from devkit.device.servers import AdbServer
from devkit.errors import HERE, PHONE, DeviceError, OperationTimeout

# Words in `adb devices -l` -> what to do about it.
STATE_HINTS = {
    "unauthorized": "unlock the phone and allow debugging for this host's key"
    " (the host that runs the adb SERVER)",
    "authorizing": "wait a moment: the phone is asking; unlock it and allow debugging",
    "offline": "reconnect: adb reconnect offline",
    "connecting": "wait a moment: the adb server is still connecting",
    "no permissions": "udev rule / plugdev group on the adb server's host",
    "bootloader": "boot the phone into Android: fastboot reboot",
    "recovery": "boot the phone into Android: adb reboot",
    "rescue": "boot the phone into Android: adb reboot",
    "sideload": "finish or cancel the sideload on the phone, then boot into Android",
}
_UNKNOWN_STATE_HINT = "devkit does not know this state; it needs `device`: replug or restart the phone"

# What the server's FAIL says -> the state it means (transport.cpp, acquire_one_transport).
_STATE_TEXTS = (
    ("unauthorized", "unauthorized"),
    ("still authorizing", "authorizing"),
    ("still connecting", "connecting"),
    ("offline", "offline"),
    ("insufficient permissions", "no permissions"),
    ("no permissions", "no permissions"),
)
_NOT_FOUND = re.compile(r"device '.*' not found|device not found|no devices/emulators found|unknown device")


class ServerUnreachable(DeviceError):
    """No adb server answers at an address. `refused`: nothing listens there."""

    refused = False


class NothingListens(DeviceError):
    """The phone has nobody at the socket that was dialled (adb says `closed`)."""


class NoPhone(DeviceError):
    """No adb server that was asked lists a phone."""


class DeviceNotReady(DeviceError):
    """The phone is known but not usable. `state` is the word `adb devices` shows, or "not found"."""

    state = ""


class PhoneLost(DeviceError):
    """The connection to the phone broke off in the middle of something."""


def hint_for(state: str) -> str:
    """What to do about a state of `adb devices`; empty for `device`."""
    return "" if state == "device" else STATE_HINTS.get(state, _UNKNOWN_STATE_HINT)


def refusal(text: str, *, server: AdbServer, serial: str | None, doing: str) -> DeviceError:
    """The error for a FAIL of the adb server.

    Args:
        text: the server's words.
        serial: the phone that was asked for, None for a request to the server itself.
        doing: what was being done, as "running getprop".
    """
    evidence = f"the adb server at {server.address} says: {text}"
    if serial is None:
        return DeviceError(f"the adb server refused {doing}", evidence=evidence)
    if _NOT_FOUND.search(text):
        error = DeviceNotReady(
            f"the phone {serial} is not connected ({doing})",
            evidence=evidence,
            hints=["devkit device list"],
        )
        error.state = "not found"
        return error
    for words, state in _STATE_TEXTS:
        if words in text:
            error = DeviceNotReady(
                f"the phone {serial} is {state} ({doing})",
                where=PHONE,
                evidence=evidence,
                hints=[hint_for(state)],
            )
            error.state = state
            return error
    return DeviceError(f"the phone {serial} refused {doing}", where=PHONE, evidence=evidence)


def unreachable(server: AdbServer, reason: str, *, refused: bool) -> ServerUnreachable:
    """The error for an address at which no adb server answers."""
    hints = []
    if server.label:
        hints.append(f"devkit {server.origin} status")
    elif server.is_default:
        hints.append("adb start-server")
    else:
        where = server.host if not server.is_local else "its machine"
        hints.append(
            f"start the adb server on {where}, or bring back the tunnel that ends at port {server.port}"
        )
        hints.append(f"the address comes from {server.origin}: correct or unset it")
    error = ServerUnreachable(
        f"no adb server answers at {server.address}",
        evidence=f"{reason} (address from {server.origin})",
        hints=hints,
    )
    error.refused = refused
    return error


def silent(server: AdbServer, *, serial: str | None, doing: str, timeout_s: float) -> OperationTimeout:
    """The error for an answer that did not come in time."""
    if serial is None:
        return OperationTimeout(
            f"the adb server at {server.address} did not answer within {timeout_s:g} s ({doing})",
            where=HERE,
            hints=[
                "is it an adb server that listens there? `adb devices` must answer too",
                "adb kill-server && adb start-server (on the server's machine)",
            ],
        )
    return OperationTimeout(
        f"the phone {serial} did not answer within {timeout_s:g} s ({doing})",
        where=PHONE,
        evidence=f"adb server {server.address}",
        hints=["devkit device list", "adb reconnect, or replug the phone"],
    )


def broke_off(
    server: AdbServer, *, serial: str | None, doing: str, reason: str = "the connection was closed"
) -> DeviceError:
    """The error for a connection that ended in the middle of something."""
    if serial is None:
        return DeviceError(
            f"the adb server at {server.address} broke the connection off ({doing})",
            evidence=reason,
            hints=["is it an adb server that listens there? `adb devices` must answer too"],
        )
    return PhoneLost(
        f"the connection to the phone {serial} broke off ({doing})",
        where=PHONE,
        evidence=f"{reason} (adb server {server.address})",
        hints=["devkit device list", "check the cable or the network, then run the command again"],
    )
