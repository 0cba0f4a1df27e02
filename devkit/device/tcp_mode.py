"""Switching a phone's adbd to the network and back: `tcpip` and `usb`, with what belongs around them."""

from __future__ import annotations

import contextlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit import output
from devkit.device import network, network_memory
from devkit.device.addresses import ADDRESS_SCRIPT, PhoneAddress, parse_addresses
from devkit.device.connection import Deadline, wait_for
from devkit.device.network_memory import NetworkPhone
from devkit.device.servers import AdbServer
from devkit.errors import PHONE, DeviceError, OperationTimeout

if TYPE_CHECKING:
    from devkit.device.phone import Device

ANSWER_TIMEOUT_S = 10.0
# adbd ends, and init starts it again: a second or two on phones.
RESTART_TIMEOUT_S = 15.0
_PAUSE_S = 0.3
_LOOK_SCRIPT = """\
echo "devkit-serial $(getprop ro.serialno)"
echo "devkit-model $(getprop ro.product.model)"
echo "devkit-port $(getprop service.adb.tcp.port) $(getprop persist.adb.tcp.port)"
"""
_MARK = re.compile(r"^devkit-(serial|model|port)[ \t]*(.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class NetworkLook:
    """What a phone says about itself and the networks it is in.

    Attributes:
        tcp_port: where its adbd listens, None when it does not (wireless debugging does not count).
    """

    serial_number: str
    model: str
    tcp_port: int | None
    addresses: tuple[PhoneAddress, ...]


def look_at(device: Device) -> NetworkLook:
    """Ask a phone for its serial number, TCP port and addresses: one round trip."""
    text = device.shell(_LOOK_SCRIPT + ADDRESS_SCRIPT).text
    said = dict(_MARK.findall(text))
    ports = [int(word) for word in said.get("port", "").split() if word.isdigit() and 0 < int(word) < 65536]
    return NetworkLook(
        said.get("serial", ""), said.get("model", ""), ports[0] if ports else None, parse_addresses(text)
    )


def choose_addresses(device: Device, look: NetworkLook, wanted: str | None) -> list[str]:
    """The hosts to try, best first: the wanted one, or all that the phone tells.

    Raises:
        DeviceError: it is in no network.
    """
    if wanted is not None:
        return [wanted]
    if not look.addresses:
        raise DeviceError(
            f"the phone {device.serial} is in no network that leads to it",
            where=PHONE,
            evidence="its `ip route`, `ip addr` and `ifconfig` show no address of Wi-Fi or Ethernet",
            hints=[
                "switch Wi-Fi on on the phone, then: devkit device tcpip",
                "devkit device shell -- ip addr (what it says itself)",
                "devkit device tcpip --address IP (if you know better)",
                "over USB no network is needed: devkit works as it is",
            ],
        )
    return [each.address for each in look.addresses]


def switch(device: Device, service: str) -> str:
    """Have adbd restart with `tcpip:PORT` or `usb:` and return what it says.

    Raises:
        DeviceError: the phone refuses; carries its words.
    """
    with contextlib.closing(device.dial(service, doing=f"switching it by `{service.rstrip(':')}`")) as sock:
        text = b""
        deadline = Deadline(ANSWER_TIMEOUT_S)
        while not deadline.passed():
            if not wait_for(sock, read=True, timeout_s=deadline.left_s())[0]:
                break
            # The connection may break where it should end: adbd restarts.
            with contextlib.suppress(ConnectionError):
                if piece := sock.recv(4096):
                    text += piece
                    continue
            break
    said = text.decode("utf-8", "replace").strip()
    if not said.startswith("restarting in"):
        raise DeviceError(
            f"the phone {device.serial} does not restart its adbd ({service.rstrip(':')})",
            where=PHONE,
            evidence=said or "it said nothing",
            hints=["devkit device list", f"adb -s {device.serial} {service.rstrip(':').replace(':', ' ')}"],
        )
    return said


def go_to_network(device: Device, *, port: int, address: str | None = None) -> NetworkPhone:
    """Switch a phone to TCP mode, have its adb server connect to it there, and remember it.

    When no address leads to the phone, it is switched back: an adb port that nobody uses is a shell on
    the phone for everybody in its network.

    Raises:
        DeviceError: it is in no network, refuses, cannot be reached there, or another phone answers.
    """
    look = look_at(device)
    hosts = choose_addresses(device, look, address)
    restarts = look.tcp_port != port
    if restarts:
        output.current().detail(f"{device.serial}: {switch(device, f'tcpip:{port}')}")
    problems: list[DeviceError] = []
    for host in hosts:
        try:
            phone = connect_to(device, look, f"{host}:{port}")
        except network.CannotConnect as error:
            problems.append(error)
            if error.where == PHONE:
                raise
        else:
            if restarts and device.serial == f"{host}:{look.tcp_port}":
                network.disconnect(device.server, device.serial)
            return phone
    # A phone that was in TCP mode before may have been asked over just that connection.
    undone = _undo(device) if restarts and look.tcp_port is None else ""
    raise DeviceError(
        f"the phone {device.serial} was switched to the network but is not reached there{undone}",
        where=problems[-1].where,
        evidence="\n".join(problem.evidence or problem.what for problem in problems),
        hints=problems[-1].hints,
    )


def connect_to(device: Device, look: NetworkLook, address: str) -> NetworkPhone:
    """Connect the phone's adb server to it over the network, check that it is the same phone, remember it.

    Raises:
        CannotConnect: it cannot be reached there in time.
        DeviceError: another phone answers there.
    """
    deadline = time.monotonic() + RESTART_TIMEOUT_S
    while True:
        try:
            found = network.bring_online(device.server, address)
            break
        except network.CannotConnect as error:
            # While adbd restarts nothing listens there.
            if "refused" not in error.reason.lower() or time.monotonic() >= deadline:
                raise
            time.sleep(_PAUSE_S)
    phone = NetworkPhone(found.serial, look.serial_number, look.model, device.server.address)
    check_identity(device.server, phone, is_new=found.how == "connected")
    network_memory.remember_phone(phone)
    return phone


def check_identity(server: AdbServer, phone: NetworkPhone, *, is_new: bool) -> NetworkLook:
    """Make sure that the phone at an address is the expected one: routers hand addresses on.

    Args:
        is_new: the connection was just made; if it leads to a stranger it is closed again.

    Raises:
        DeviceError: it is another phone.
    """
    from devkit.device.phone import Device

    look = look_at(Device(phone.address, server))
    if phone.serial_number and look.serial_number and look.serial_number != phone.serial_number:
        if is_new:
            network.disconnect(server, phone.address)
        raise DeviceError(
            f"another phone answers at {phone.address}",
            where=PHONE,
            evidence=f"expected {phone.title}, found {look.model} {look.serial_number}",
            hints=[
                f"devkit device connect {phone.address} (if that is the phone you mean now)",
                f"devkit device disconnect {phone.serial_number} --forget (forget the one of before)",
            ],
        )
    return look


def _undo(device: Device) -> str:
    """Switch back to USB over the connection that is still there; what became of it, for a message."""
    deadline = time.monotonic() + RESTART_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            switch(device, "usb:")
            return "; it was switched back"
        except (DeviceError, OperationTimeout):
            time.sleep(_PAUSE_S)
    return "; switching it back failed: devkit device usb"
