"""The adb half of `devkit tunnel check`: adb on the server, the laptop's adb server, its phones."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from devkit.device import AdbServer, Device, find_adb
from devkit.device.adb_program import find_version_clash
from devkit.device.connection import server_version
from devkit.device.listeners import listening_ports
from devkit.device.listing import list_server
from devkit.errors import LAPTOP, PHONE, SERVER, DevkitError, TunnelError
from devkit.tunnels.connection import Link
from devkit.tunnels.far_adb import FarAdb, look_at_far_adb
from devkit.tunnels.spec import ExtraPort
from devkit.tunnels.step import BROKEN, NOT_CHECKED, OK, WARNING, Step, evidence_of

_SAME_TOOLS = "install the same platform-tools on both machines"


def far_adb(link: Link) -> Iterator[Step]:
    """The server's own adb: devkit needs none, but one of another version ends adb servers."""
    titles = ("adb on the server", "adb server there")
    try:
        far = look_at_far_adb(link)
    except TunnelError as error:
        for id_, title in zip(("server-adb", "server-adb-server"), titles, strict=True):
            yield Step(id_, SERVER, title, NOT_CHECKED, error.what)
        return
    yield _far_program(far, titles[0])
    yield _far_server(far, titles[1])


def laptop_adb(server: AdbServer, adb: Path | None) -> Iterator[Step]:
    """The adb server on this machine, and the program that people would use with it."""
    try:
        version = server_version(server)
    except DevkitError as error:
        yield Step("adb", LAPTOP, "adb server", BROKEN, evidence_of(error), error.hints)
        return
    evidence = f"listens at {server.address} of the laptop, version {version}"
    try:
        program = find_adb(adb)
    except DevkitError:
        yield Step("adb", LAPTOP, "adb server", OK, f"{evidence}; no adb program here")
        return
    clash = find_version_clash(version, program)
    if clash is not None:
        yield Step(
            "adb", LAPTOP, "adb server", WARNING, f"{evidence}\n{clash.explain(program, server)}",
            (_SAME_TOOLS, f"set adb.path to the adb of that server instead of {program.path}"),
        )  # fmt: skip
        return
    yield Step(
        "adb", LAPTOP, "adb server", OK,
        f"{evidence}, as {program.path} (platform-tools {program.version_string}) has it",
    )  # fmt: skip


def clash_on_laptop(server: AdbServer, adb: Path | None) -> str | None:
    """What would end the laptop's adb server: its adb program of another version. None: nothing would."""
    try:
        program = find_adb(adb)
        clash = find_version_clash(server_version(server), program)
    except DevkitError:
        return None
    return clash.explain(program, server) if clash else None


def phones(server: AdbServer, serial: str | None, ports: Sequence[ExtraPort]) -> Iterator[Step]:
    """The phones behind an adb server, and whether programs on them listen where ports lead."""
    try:
        entries = list_server(server)
    except DevkitError:
        yield Step("phone", PHONE, "phone", NOT_CHECKED)
        return
    wanted = [entry for entry in entries if serial in (None, entry.serial)]
    if not wanted:
        what = f"{serial} is not listed" if serial else "the adb server lists none"
        yield Step("phone", PHONE, "phone", BROKEN, what, ("devkit device list",))
    for entry in wanted:
        title = f"phone {entry.serial}"
        if not entry.usable:
            yield Step(f"phone:{entry.serial}", PHONE, title, BROKEN, entry.state, (entry.hint,))
            continue
        device = Device(entry.serial, server)
        answers = _phone_socket(device, title)
        yield answers
        # Which of several phones a tunnel's port leads to is the tunnel's own affair.
        if ports and answers.state == OK and len(wanted) == 1:
            yield from _listeners(device, ports)


def _far_program(far: FarAdb, title: str) -> Step:
    if far.path is None:
        return Step("server-adb", SERVER, title, OK, "none on its PATH; devkit there needs none")
    if far.protocol is None:
        return Step("server-adb", SERVER, title, WARNING, f"{far.path} does not run")
    evidence = f"{far.path}, platform-tools {far.release}, version {far.protocol}"
    try:
        here = find_adb()
    except DevkitError:
        return Step("server-adb", SERVER, title, OK, evidence)
    if here.protocol != far.protocol:
        return Step(
            "server-adb", SERVER, title, WARNING,
            f"{evidence}; this machine's {here.path} (platform-tools {here.version_string}) speaks version"
            f" {here.protocol}: each would end the other's adb server (the tunnel does not let it)",
            (_SAME_TOOLS,),
        )  # fmt: skip
    return Step("server-adb", SERVER, title, OK, evidence)


def _far_server(far: FarAdb, title: str) -> Step:
    id_ = "server-adb-server"
    if far.danger is not None:
        return Step(id_, SERVER, title, WARNING, far.danger, (_SAME_TOOLS,))
    if far.server is not None:
        return Step(
            id_, SERVER, title, OK,
            f"version {far.server} answers at {far.address} of the server: its own, or one that is forwarded",
        )  # fmt: skip
    if far.listens is False:
        return Step(id_, SERVER, title, OK, f"none at {far.address} of the server; none is needed or started")
    return Step(id_, SERVER, title, NOT_CHECKED, far.problem or "not known")


def _phone_socket(device: Device, title: str) -> Step:
    started = time.monotonic()
    try:
        said = device.shell("echo devkit").text.strip()
    except DevkitError as error:
        return Step(f"phone:{device.serial}", PHONE, title, BROKEN, error.what, error.hints)
    took = (time.monotonic() - started) * 1000
    state = OK if said == "devkit" else BROKEN
    return Step(f"phone:{device.serial}", PHONE, title, state, f"answers a shell in {took:.0f} ms")


def _listeners(device: Device, ports: Sequence[ExtraPort]) -> Iterator[Step]:
    """Whether somebody listens where the extra ports lead. Nothing is dialled."""
    try:
        listening = listening_ports(device)
    except DevkitError as error:
        listening, why = None, error.what
    else:
        why = "the phone does not show what listens on it (/proc/net/tcp)"
    silent = [port for port in ports if listening is not None and port.phone not in listening]
    for port in ports:
        id_, title = f"listener:{port.phone}", f"the phone's port {port.phone}"
        if listening is None:
            yield Step(id_, PHONE, title, NOT_CHECKED, why)
        elif port not in silent:
            yield Step(id_, PHONE, title, OK, "a program on the phone listens")
        else:
            yield Step(id_, PHONE, title, WARNING, *_silent(port, alone=len(silent) == 1 < len(ports)))


def _silent(port: ExtraPort, *, alone: bool) -> tuple[str, tuple[str, ...]]:
    evidence = (
        f"nothing listens on the phone's port {port.phone}: what connects to {port.server} is let go at once"
    )
    hints = [f"start it on the phone, as: lldb-server platform --server --listen 127.0.0.1:{port.phone}"]
    if alone:
        evidence += (
            "\nof lldb-server's two ports this is the one that is missing (older ones open the second while a"
            " program is debugged); without it LLDB says 'failed to connect port' or"
            " 'failed to get reply to handshake packet'"
        )
        hints = [f"lldb-server platform … --gdbserver-port {port.phone}"]
    return evidence, tuple(hints)
