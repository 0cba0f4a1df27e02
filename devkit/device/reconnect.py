"""Connecting to remembered phones again, also when their addresses have changed since."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from devkit import output
from devkit.device import network, network_memory, tcp_mode
from devkit.device.connection import ask
from devkit.device.listing import DeviceEntry, Inventory
from devkit.device.network_memory import NetworkPhone
from devkit.device.servers import AdbServer
from devkit.errors import DeviceError, DevkitError

# NAME\tTYPE\tHOST:PORT, as client/transport_mdns.cpp prints what it has heard of.
_MDNS = re.compile(r"(adb-\S+?)\t_adb(?:-tls-connect)?\._tcp\.?\t(\S+:\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    """What became of one phone.

    Attributes:
        how: "connected", "already connected", "reconnected", "found again", or "failed".
        via: how a new address was found: the serial over which the phone was asked, or "mDNS".
        error: why it failed.
    """

    phone: NetworkPhone
    how: str
    via: str | None = None
    error: DevkitError | None = None


def server_of(phone: NetworkPhone, inventory: Inventory) -> AdbServer:
    """The adb server that was connected to it, if that one is here; else the one the user means."""
    return next((each for each in inventory.servers if each.address == phone.server), inventory.effective)


def reconnect(phone: NetworkPhone, inventory: Inventory) -> Outcome:
    """Connect to a remembered phone: where it was, else where it says, over another connection, it is now.

    Never raises a DeviceError: what went wrong is in the outcome.
    """
    server = server_of(phone, inventory)
    try:
        found = network.bring_online(server, phone.address)
        look = tcp_mode.check_identity(server, phone, is_new=found.how == "connected")
        here = replace(
            phone,
            address=found.serial,
            serial_number=look.serial_number,
            model=look.model,
            server=server.address,
        )
        network_memory.remember_phone(here)
        return Outcome(here, found.how)
    except DeviceError as error:
        first = error
    try:
        again = _over_another_connection(phone, server, inventory.entries) or _by_mdns(phone, server)
    except DevkitError as error:
        return Outcome(phone, "failed", error=error)
    return again or Outcome(phone, "failed", error=first)


def _over_another_connection(
    phone: NetworkPhone, server: AdbServer, entries: Sequence[DeviceEntry]
) -> Outcome | None:
    """The phone is on a cable too: it knows its address, and can be switched to the network anew."""
    from devkit.device.phone import Device

    if not phone.serial_number:
        return None
    for entry in entries:
        if not entry.usable or entry.server is None or not entry.server.same_address(server):
            continue
        if entry.serial == phone.address or (entry.usb and entry.serial != phone.serial_number):
            continue
        device = Device(entry.serial, entry.server)
        if tcp_mode.look_at(device).serial_number != phone.serial_number:
            continue
        output.current().note(f"{phone.address} does not answer: asking {phone.title} over {entry.serial}")
        return Outcome(tcp_mode.go_to_network(device, port=phone.port), "found again", via=entry.serial)
    return None


def _by_mdns(phone: NetworkPhone, server: AdbServer) -> Outcome | None:
    """Phones with wireless debugging announce themselves, with their serial number and port."""
    if not phone.serial_number:
        return None
    try:
        heard = ask(server, "host:mdns:services", doing="asking what phones announce themselves")
    except DevkitError:
        return None  # An adb server of before platform-tools 30, or one without mDNS.
    for name, address in _MDNS.findall(heard):
        if name != f"adb-{phone.serial_number}" and not name.startswith(f"adb-{phone.serial_number}-"):
            continue
        if address == phone.address:
            continue
        found = network.bring_online(server, address)
        here = replace(phone, address=found.serial, server=server.address)
        tcp_mode.check_identity(server, here, is_new=found.how == "connected")
        network_memory.remember_phone(here)
        return Outcome(here, "found again", via="mDNS")
    return None
