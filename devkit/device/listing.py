"""The phones that adb servers list, and reaching those servers (the default one may be started)."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit import output, process
from devkit.device import failures
from devkit.device.adb_program import find_adb
from devkit.device.connection import ask
from devkit.device.failures import hint_for
from devkit.device.servers import AdbServer, known_servers, server_address
from devkit.errors import DevkitError, ToolMissing

LIST_TIMEOUT_S = 5.0
START_TIMEOUT_S = 30.0

_FIELD = re.compile(r"(usb|product|model|device|transport_id):(\S*)\Z")
_HEADER = "List of devices attached"
_NO_PERMISSIONS = "no permissions"


@dataclass(frozen=True)
class DeviceEntry:
    """One line of `adb devices -l`.

    Attributes:
        state: adb's word ("device" is the usable one); unknown words are kept as they are.
        detail: what adb adds to the state, as the reason for "no permissions".
        usb: the bus position, None for phones on a network.
        server: the adb server that listed it; None for a parsed text.
    """

    serial: str
    state: str
    detail: str | None = None
    product: str | None = None
    model: str | None = None
    device: str | None = None
    transport_id: int | None = None
    usb: str | None = None
    server: AdbServer | None = None

    @property
    def usable(self) -> bool:
        return self.state == "device"

    @property
    def hint(self) -> str:
        """What to do to make it usable; empty when it is."""
        if self.state == "offline" and not self.usb and ":" in self.serial:
            return f"devkit device connect {self.serial}"
        return hint_for(self.state)


@dataclass(frozen=True)
class Inventory:
    """What all adb servers list.

    Attributes:
        effective: the server that the user means.
        servers: those that answered, the effective one first.
        problems: why others did not. `effective_problem` is the effective server's.
    """

    effective: AdbServer
    servers: tuple[AdbServer, ...]
    entries: tuple[DeviceEntry, ...]
    effective_problem: DevkitError | None = None
    problems: tuple[DevkitError, ...] = ()


def parse_devices(text: str, server: AdbServer | None = None) -> list[DeviceEntry]:
    """Parse the answer to `host:devices-l`, or what `adb devices` or `adb devices -l` prints."""
    lines = [line.strip() for line in text.splitlines()]
    if _HEADER in lines:
        # What comes before is the client's talk about starting a server.
        lines = lines[lines.index(_HEADER) + 1 :]
    entries = []
    for line in lines:
        words = line.split()
        if len(words) < 2 or line.startswith("* "):
            continue
        fields: dict[str, str] = {}
        state_words: list[str] = []
        for word in words[1:]:
            match = _FIELD.match(word)
            if match:
                fields[match.group(1)] = match.group(2)
            elif not fields:
                state_words.append(word)
        state, detail = " ".join(state_words), None
        if state.startswith(_NO_PERMISSIONS):
            detail = state[len(_NO_PERMISSIONS) :].strip() or None
            state = _NO_PERMISSIONS
        number = fields.get("transport_id", "")
        entries.append(
            DeviceEntry(
                serial=words[0],
                state=state or "unknown",
                detail=detail,
                product=fields.get("product"),
                model=fields.get("model"),
                device=fields.get("device"),
                transport_id=int(number) if number.isdigit() else None,
                usb=fields.get("usb"),
                server=server,
            )
        )
    return entries


def list_server(server: AdbServer, *, timeout_s: float = LIST_TIMEOUT_S) -> list[DeviceEntry]:
    """The phones one server lists.

    Raises:
        ServerUnreachable: no server answers there. Nothing is started.
        OperationTimeout: something listens there but says nothing.
        DeviceError: the server refused or broke off.
    """
    return parse_devices(ask(server, "host:devices-l", timeout_s=timeout_s), server)


def list_devices(
    *,
    environ: Mapping[str, str] | None = None,
    configured_server: str | None = None,
    configured_adb: Path | None = None,
    may_start: bool = True,
) -> Inventory:
    """All phones of the server the user means and of those that devkit itself brought here.

    When nobody asked for an address, nothing listens at the default one and devkit knows no
    other server (also none that does not answer now), the user's adb is started there, and a note says so.

    Args:
        may_start: False only looks.

    Raises:
        ConfigError: the server's address cannot be understood.
    """
    environ = os.environ if environ is None else environ
    effective = server_address(environ, configured_server)
    servers: list[AdbServer] = []
    entries: list[DeviceEntry] = []
    problems: list[DevkitError] = []
    for server in known_servers():
        # The registry knows more (its label) about an address that the user may also have set.
        if server.same_address(effective):
            effective = AdbServer(effective.host, effective.port, server.origin, server.label, server.serials)
            continue
        try:
            entries += list_server(server)
            servers.append(server)
        except DevkitError as error:
            problems.append(error)
    effective_problem: DevkitError | None = None
    try:
        known_others = bool(servers or problems)
        entries[:0] = _list_effective(
            effective, environ, configured_adb, may_start=may_start and not known_others
        )
        servers.insert(0, effective)
    except DevkitError as error:
        effective_problem = error
    return Inventory(effective, tuple(servers), tuple(entries), effective_problem, tuple(problems))


def start_default_server(
    server: AdbServer, configured_adb: Path | None = None, environ: Mapping[str, str] | None = None
) -> None:
    """Start the user's adb server at the default address and say so.

    Raises:
        ToolMissing: no adb program was found.
        ToolFailed, OperationTimeout: it did not start.
    """
    program = find_adb(configured_adb, environ)
    output.current().note(
        f"no adb server at {server.address}: starting {program.path}"
        f" (platform-tools {program.version_string})"
    )
    process.run([program.path, "start-server"], timeout_s=START_TIMEOUT_S)


def _list_effective(
    server: AdbServer, environ: Mapping[str, str], configured_adb: Path | None, *, may_start: bool
) -> list[DeviceEntry]:
    try:
        return list_server(server)
    except failures.ServerUnreachable as error:
        if not (error.refused and server.is_default and may_start):
            raise
        try:
            start_default_server(server, configured_adb, environ)
        except ToolMissing as missing:
            raise ToolMissing(
                f"no adb server runs at {server.address} and no adb program was found to start one",
                evidence=missing.evidence,
                hints=[*missing.hints, "devkit sim start (a virtual phone needs none)"],
            ) from None
    return list_server(server)
