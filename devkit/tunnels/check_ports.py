"""Which ports of the server are there already: those of tunnels that run on this machine."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Sequence

from devkit.device import AdbServer
from devkit.device.connection import server_version
from devkit.errors import SERVER, DevkitError, TunnelError
from devkit.tunnels import state
from devkit.tunnels.connection import Link
from devkit.tunnels.spec import ADBD, SERVER_SIDE, ExtraPort, TunnelSpec
from devkit.tunnels.state import TunnelRecord
from devkit.tunnels.step import BROKEN, NOT_CHECKED, OK, Step

_TIMEOUT_S = 5.0


def running_tunnels(host: str) -> list[TunnelRecord]:
    """The tunnels of this user to that host, from this machine."""
    return [
        record
        for record in state.load_all()
        if record.alive and record.spec.get("host") == host and record.spec.get("side") != SERVER_SIDE
    ]


def extra_ports(records: Sequence[TunnelRecord]) -> list[ExtraPort]:
    """Their further ports."""
    return [port for record in records for port in _spec(record).extra]


def provided_ports(link: Link, records: Sequence[TunnelRecord]) -> Iterator[Step]:
    """One step for each port: on which machine it listens, who provides it, whether it does."""
    if not records:
        yield Step(
            "tunnel", SERVER, "tunnel", NOT_CHECKED, "none from here is up: devkit tunnel up makes its ports"
        )
    for record in records:
        spec = _spec(record)
        by = f"the tunnel {record.name} provides it (pid {record.pid})"
        if record.port is None:
            yield Step(
                f"tunnel:{record.name}", SERVER, f"tunnel {record.name}", BROKEN,
                record.last_error or "it is down", (f"devkit tunnel status {record.name}",),
            )  # fmt: skip
            continue
        what = "the phone's adbd" if spec.mode == ADBD else "the laptop's adb server"
        evidence = f"listens on the server's {spec.bind}, leads to {what}; {by}"
        yield _port(link, record.port, evidence, ask_adb=spec.mode != ADBD)
        for extra in spec.extra:
            evidence = f"listens on the server's {spec.bind}, leads to the phone's port {extra.phone}; {by}"
            yield Step(f"port:{extra.server}", SERVER, f"port {extra.server}", OK, evidence)


def _port(link: Link, port: int, evidence: str, *, ask_adb: bool) -> Step:
    id_, title = f"port:{port}", f"port {port}"
    try:
        with link.local_forward(("127.0.0.1", port)) as back:
            if ask_adb:
                version = server_version(AdbServer("127.0.0.1", back.port, "tunnel"), timeout_s=_TIMEOUT_S)
                return Step(id_, SERVER, title, OK, f"{evidence}\nversion {version} answers there")
            with socket.create_connection(("127.0.0.1", back.port), _TIMEOUT_S) as probe:
                probe.settimeout(0.2)
                ended = False
                with contextlib.suppress(TimeoutError):
                    ended = not probe.recv(1)
                if not ended:
                    return Step(id_, SERVER, title, OK, evidence)
            reason = back.why() or "it was closed at once"
    except (OSError, DevkitError) as error:
        if isinstance(error, TunnelError) and not link.alive:
            raise
        reason = back.why() or str(error)
    if "not allowed" in reason:
        return Step(id_, SERVER, title, OK, f"{evidence} (not tried: the server opens no connections for us)")
    return Step(id_, SERVER, title, BROKEN, f"{evidence}\nbut there: {reason}", ("devkit tunnel status",))


def _spec(record: TunnelRecord) -> TunnelSpec:
    return TunnelSpec.from_dict(record.spec)
