"""Phones on a network: having an adb server connect to them, pair with them, and forget them.

The adb server does the work, so it is the adb server's machine that must reach the phone. Failures come
as OKAY too: only the text tells. The texts, tried on adb 29 and 36 and read in client/transport_local.cpp
and client/adb_wifi.cpp (older ones in adb_client.c up to platform-tools 27):

host:connect
    worked: `connected to A`, `already connected to A`
    did not: `failed to connect to 'A': REASON`, `failed to connect to A`, `failed to authenticate to A`
    (29 and later), `failed to resolve host: …`, `bad port number …`, `empty address`;
    old: `unable to connect to A: REASON`, `cannot resolve host …`
host:disconnect
    worked: `disconnected A`
    did not: FAIL `no such device 'A'`; old: OKAY with `No such device A`
host:pair
    worked: `Successfully paired to A [guid=…]`
    did not: `Failed: …`, `Invalid port …`, `Failed to parse address …`, in OKAY (30 to 34) or as FAIL
    after OKAY (36); FAIL `unknown host service` before 30
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass

from devkit import output
from devkit.device.connection import ask, ask_in_two_steps
from devkit.device.failures import hint_for
from devkit.device.listing import list_server
from devkit.device.servers import AdbServer
from devkit.errors import HERE, PHONE, DeviceError, DevkitError, UsageError

DEFAULT_PORT = 5555
# adb itself waits 10 s for a phone that does not answer.
CONNECT_TIMEOUT_S = 25.0
PAIR_TIMEOUT_S = 60.0
ONLINE_TIMEOUT_S = 5.0
ATTEMPTS = 3
_PAUSE_S = 0.1

_CONNECTED = re.compile(r"(already )?connected to (\S+)\s*\Z")
_PAIRED = re.compile(r"Successfully paired to (\S+)")
_ADDRESS = re.compile(r"(\[[0-9A-Fa-f:.%\w]+\]|[^\s:\[\]]+)(?::(\d{1,5}))?\Z")


class CannotConnect(DeviceError):
    """An adb server does not reach a phone. `reason`: adb's words."""

    reason = ""


@dataclass(frozen=True)
class Connected:
    """A phone that an adb server is connected to.

    Attributes:
        serial: how the adb server calls it.
        how: "connected", "already connected", or "reconnected" when a dead connection was replaced.
    """

    serial: str
    how: str


def parse_address(text: str, *, default_port: int | None = DEFAULT_PORT) -> str:
    """`HOST:PORT` as adb takes it, for HOST, HOST:PORT or [IPv6]:PORT.

    Raises:
        UsageError: it is no address, or has no port where one is needed.
    """
    match = _ADDRESS.match(text)
    port = int(match.group(2)) if match and match.group(2) else default_port
    if match is None or port is None or not 0 < port < 65536:
        needed = "HOST:PORT" if default_port is None else "HOST, HOST:PORT or [IPv6]:PORT"
        raise UsageError(
            f"{text!r} is not the address of a phone",
            hints=[f"write {needed}, for example 192.168.1.23:{default_port or 37123}"],
        )
    return f"{match.group(1)}:{port}"


def connect(server: AdbServer, address: str) -> Connected:
    """Have a server connect to a phone once, and judge its answer by the text.

    Raises:
        CannotConnect: it does not; carries the server's words and what they mean.
        ServerUnreachable, OperationTimeout: the server does not answer.
    """
    text = ask(
        server, f"host:connect:{address}", doing=f"connecting to {address}", timeout_s=CONNECT_TIMEOUT_S
    ).strip()
    match = _CONNECTED.match(text)
    if match:
        return Connected(match.group(2), "already connected" if match.group(1) else "connected")
    error = CannotConnect(
        f"the adb server at {server.address} does not reach the phone at {address}",
        where=place_of(server),
        evidence=f"adb says: {text}",
        hints=_connect_hints(server, address, text),
    )
    if text.startswith("failed to authenticate"):
        error = CannotConnect(
            f"the phone at {address} does not trust this adb server yet",
            where=PHONE,
            evidence=f"adb says: {text}",
            hints=[hint_for("unauthorized"), f"then: devkit device connect {address}"],
        )
    error.reason = text
    raise error


def bring_online(server: AdbServer, address: str) -> Connected:
    """Have a server connect to a phone until it is usable there.

    A phone that has restarted stays `offline` while adb calls it "already connected": such a connection
    is closed and made anew.

    Raises:
        CannotConnect: it cannot be reached, or stays offline or unauthorized.
        ServerUnreachable, OperationTimeout: the server does not answer.
    """
    how = ""
    state = ""
    for _ in range(ATTEMPTS):
        found = connect(server, address)
        state = _settled_state(server, found.serial)
        if state == "device":
            return Connected(found.serial, how or found.how)
        if state in ("unauthorized", "authorizing"):
            break
        output.current().detail(f"{found.serial} is {state}: closing the dead connection and connecting anew")
        disconnect(server, found.serial)
        how = "reconnected"
    error = CannotConnect(
        f"the phone at {address} is connected but {state}",
        where=PHONE,
        evidence=f"adb server {server.address}: {address} {state}",
        hints=[
            hint_for(state)
            if state != "offline"
            else "wake the phone and switch its Wi-Fi or USB debugging off and on",
            f"then: devkit device connect {address}",
        ],
    )
    error.reason = state
    raise error


def disconnect(server: AdbServer, serial: str) -> bool:
    """Have a server forget a network phone. False when it did not know it.

    Raises:
        ServerUnreachable, OperationTimeout, DeviceError: the server does not do it.
    """
    try:
        text = ask(server, f"host:disconnect:{serial}", doing=f"disconnecting {serial}")
    except DeviceError as error:
        if error.evidence and "no such device" in error.evidence.lower():
            return False
        raise
    if text.lower().startswith("no such device"):
        return False
    if not text.startswith("disconnected"):
        raise DeviceError(
            f"the adb server at {server.address} does not disconnect {serial}",
            where=place_of(server),
            evidence=f"adb says: {text}",
            hints=["devkit device list"],
        )
    return True


def pair(server: AdbServer, address: str, code: str) -> str:
    """Have a server pair with a phone (wireless debugging, Android 11 and later).

    The code is not part of any message.

    Returns:
        the server's words.

    Raises:
        DeviceError: it does not; carries the server's words and what they mean.
        ServerUnreachable, OperationTimeout: the server does not answer.
    """
    doing = f"pairing with {address}"
    try:
        text = ask_in_two_steps(
            server, f"host:pair:{code}:{address}", doing=doing, timeout_s=PAIR_TIMEOUT_S
        ).strip()
    except DeviceError as error:
        if "unknown host service" not in (error.evidence or ""):
            raise
        raise DeviceError(
            f"the adb server at {server.address} is too old to pair",
            where=place_of(server),
            evidence=error.evidence,
            hints=["install platform-tools 30 or later there", "devkit device tcpip (over USB) needs none"],
        ) from None
    if _PAIRED.match(text):
        return text
    raise DeviceError(
        f"the adb server at {server.address} could not pair with the phone at {address}",
        where=place_of(server),
        evidence=f"adb says: {text}",
        hints=_pair_hints(text, address),
    )


def place_of(server: AdbServer) -> str:
    """The machine on which a server does its work, for messages."""
    return HERE if server.is_local else f"the adb server's machine ({server.host})"


def _settled_state(server: AdbServer, serial: str) -> str:
    """The phone's state once it is a final one, or after a while; "not listed" when it is gone."""
    deadline = time.monotonic() + ONLINE_TIMEOUT_S
    while True:
        states = {entry.serial: entry.state for entry in list_server(server)}
        state = states.get(serial, "not listed")
        if state in ("device", "unauthorized") or time.monotonic() >= deadline:
            return state
        time.sleep(_PAUSE_S)


def _connect_hints(server: AdbServer, address: str, text: str) -> list[str]:
    host, _, port = address.rpartition(":")
    machine = "this machine" if server.is_local else server.host
    lowered = text.lower()
    if "resolve" in lowered:
        return [f"check the name: ping {host} (on {machine})"]
    if "refused" in lowered:
        return [
            f"nothing listens at port {port} of {host}: plug the cable in and run `devkit device tcpip`"
            " (TCP mode ends when the phone restarts)",
            "with wireless debugging the port is another each time: see Settings > Developer options",
        ]
    if "bad port" in lowered or "empty address" in lowered:
        return ["devkit device connect 192.168.1.23:5555"]
    return [
        f"are {machine} and the phone in the same network? ping {host} (on {machine})",
        "networks for guests keep devices apart: use another network, or the cable",
        "the phone may have another address now: plug the cable in and run `devkit device connect`",
    ]


def _pair_hints(text: str, address: str) -> list[str]:
    lowered = text.lower()
    if "wrong password" in lowered or "dropped" in lowered:
        return ["the code is another each time: read it anew on the phone, and leave its dialog open"]
    if "parse" in lowered or "invalid port" in lowered:
        return ["devkit device pair 192.168.1.23:37123 (address and port of the phone's pairing dialog)"]
    return [
        "on the phone: Settings > Developer options > Wireless debugging > Pair device with pairing code;"
        f" leave that dialog open, and take address and port from it (not {address} of the page before it)",
        "the machine of the adb server and the phone must be in the same network",
    ]


def reason_of(error: DevkitError) -> str:
    """One line for a table: the server's own words where there are some."""
    return error.reason if isinstance(error, CannotConnect) and error.reason else error.what
