"""Links of the tunnels that this machine keeps up, and of those that arrive here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from devkit.device import AdbServer
from devkit.device.connection import server_version
from devkit.device.listing import list_server
from devkit.doctor.report import BROKEN, NOT_CHECKED, NOT_NEEDED, OK, WARNING, Link, Repair, Section
from devkit.doctor.roles import LAPTOP, SERVER, Roles, section_of
from devkit.errors import DevkitError
from devkit.tunnels import state
from devkit.tunnels.spec import SERVER_SIDE
from devkit.tunnels.state import TunnelRecord

_STATES = {state.UP: OK, state.DOWN: BROKEN, state.WAITING: NOT_CHECKED, state.CONNECTING: WARNING}


def examine_tunnels(
    links: list[Link], roles: Roles, records: Sequence[TunnelRecord], arrivals: Sequence[AdbServer]
) -> None:
    """One link for each link of each tunnel; nothing is dialled but adb servers that arrive here."""
    if not records and not arrivals:
        text = "none is up: phones are those of this machine's adb server"
        Section(roles.own_adb, links).add("tunnel", "tunnel", NOT_NEEDED, text)
    for record in records:
        _examine_record(links, record)
    for server in arrivals:
        _examine_arrival(Section(LAPTOP, links), server)


def _examine_record(links: list[Link], record: TunnelRecord) -> None:
    host = record.spec["host"]
    if not record.alive:
        kept_by = SERVER if record.spec.get("side") == SERVER_SIDE else LAPTOP
        Section(kept_by, links).add(
            f"tunnel:{record.name}", f"tunnel {record.name}", BROKEN,
            f"its process ({record.pid}) has ended" + (f"; log: {record.log}" if record.log else ""),
            [f"devkit tunnel up {host} --detach"],
            Repair(f"forgets the ended tunnel {record.name}", lambda: _forget(record)),
        )  # fmt: skip
        return
    for link in record.links:
        found = _STATES.get(str(link["state"]), WARNING)
        Section(section_of(str(link["machine"]), record), links).add(
            f"tunnel:{record.name}:{link['id']}", f"{record.name}: {link['title']}", found,
            _evidence(link), [f"devkit tunnel check {host}"] if found == BROKEN else (),
        )  # fmt: skip


def _examine_arrival(section: Section, server: AdbServer) -> None:
    id_, title = f"tunnel:{server.label}", f"tunnel {server.label}"
    try:
        version = server_version(server, timeout_s=5)
        phones = list_server(server)
    except DevkitError as error:
        evidence = f"arrives at {server.address}, but the laptop's adb server does not answer: {error.what}"
        section.add(id_, title, BROKEN, evidence, ["on the laptop: devkit tunnel status; devkit device list"])
        return
    usable = [phone.serial for phone in phones if phone.usable]
    listed = ", ".join(f"{phone.serial} ({phone.state})" for phone in phones) or "no phone"
    section.add(
        id_, title, OK if usable else WARNING,
        f"arrives at {server.address}, adb version {version}: {listed}",
        () if usable else ["on the laptop: devkit device list"],
    )  # fmt: skip


def _evidence(link: Mapping[str, Any]) -> str:
    parts = [str(link["evidence"])] if link["evidence"] else []
    if link["latency_ms"] is not None:
        parts.append(f"{link['latency_ms']:.0f} ms")
    if link["reconnects"]:
        parts.append(f"came back {link['reconnects']} times")
    return ", ".join(parts)


def _forget(record: TunnelRecord) -> str:
    state.remove(record.name)
    return f"forgot the ended tunnel {record.name}"
