"""What is known of each link of a running tunnel, kept for `devkit tunnel status`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from devkit.device.listing import DeviceEntry
from devkit.errors import LAPTOP, PHONE, SERVER, DevkitError, TunnelError
from devkit.tunnels.model import LinkStatus
from devkit.tunnels.spec import ADBD, SERVER_SIDE, TunnelSpec
from devkit.tunnels.state import CONNECTING, DOWN, UP, WAITING, LinkState, TunnelRecord


class Board:
    """The links in their order: logins hop by hop, the port, the adb server, the phones.

    Args:
        chain: the machines of the SSH connection as the user names them, the last one the far end.
    """

    def __init__(self, spec: TunnelSpec, chain: Sequence[str], *, token: str, log: Path | None) -> None:
        self._spec = spec
        self._token, self._log = token, log
        self._started = time.time()
        self._state = CONNECTING
        self._port: int | None = None
        self._reconnects = 0
        self._last_error: str | None = None
        self.direct: Mapping[str, Any] | None = None
        far = LAPTOP if spec.side == SERVER_SIDE else SERVER
        self._hops = [
            LinkState(f"ssh:{name}", f"SSH login on {name}", far if name == chain[-1] else name)
            for name in chain
        ]
        what = "the phone's adbd" if spec.mode == ADBD else "the adb server"
        self._port_link = LinkState("port", f"port for {what}", SERVER)
        self._adb = LinkState("adb", "adb server", LAPTOP)
        self._phones: dict[str, LinkState] = {}
        self._extra = [
            LinkState(f"forward:{port.server}", f"port {port.server} to the phone's {port.phone}", SERVER)
            for port in spec.extra
        ]

    def connecting(self) -> None:
        """The first attempt begins. Later ones leave shown what is broken."""
        self._hops[0].turn(CONNECTING)

    def logged_in(self, status: LinkStatus) -> None:
        """All hops answer."""
        for link, hop in zip(self._hops, status.hops, strict=False):
            link.turn(UP, f"{hop.login}, {hop.auth}, {hop.cipher}")

    def came_up(self, port: int) -> None:
        """Everything works."""
        if self._last_error is not None:
            self._reconnects += 1
        self._state, self._port = UP, port
        self._port_link.turn(UP, f"{self._spec.bind}:{port}")
        for link, wanted in zip(self._extra, self._spec.extra, strict=True):
            link.turn(UP, f"{self._spec.bind}:{wanted.server}")

    def measured(self, status: LinkStatus) -> None:
        """Latencies and bytes of a connection that lives."""
        for link, hop in zip(self._hops, status.hops, strict=False):
            link.latency_ms = hop.latency_ms
        for link, forward in zip((self._port_link, *self._extra), status.forwards, strict=False):
            link.bytes_in, link.bytes_out = forward.bytes_in, forward.bytes_out

    def phone_listens(self, ports: frozenset[int] | None) -> None:
        """Where programs on the phone listen: an extra port that leads to nobody waits for one."""
        if self._state != UP:
            return
        for link, wanted in zip(self._extra, self._spec.extra, strict=True):
            at = f"{self._spec.bind}:{wanted.server}"
            if ports is not None and wanted.phone not in ports:
                link.turn(WAITING, f"{at}; nothing listens on the phone's port {wanted.phone}")
            else:
                link.turn(UP, at)

    def went_down(self, error: DevkitError) -> None:
        """The link that the error names is down, those behind it wait for it."""
        text = error.what + (f": {error.evidence}" if error.evidence else "")
        self._state, self._last_error = DOWN, text
        self._port = None
        links = [*self._hops, self._port_link, *self._extra]
        broken = 0
        if isinstance(error, TunnelError):
            if error.reason in ("forward-denied", "address-in-use"):
                broken = len(self._hops)
            elif error.link is not None:
                broken = min(error.link, len(self._hops) - 1)
        for index, link in enumerate(links):
            if index == broken:
                link.turn(DOWN, error.what, error=text)
            else:
                link.turn(UP if index < broken else WAITING)

    def phones(self, server_is_up: bool, problem: str | None, entries: Sequence[DeviceEntry]) -> None:
        """What the adb server on the laptop lists."""
        self._adb.turn(UP if server_is_up else DOWN, problem or "answers", error=problem)
        listed = {entry.serial: entry for entry in entries}
        for serial in listed:
            self._phones.setdefault(serial, LinkState(f"phone:{serial}", f"phone {serial}", PHONE))
        for serial, link in self._phones.items():
            entry = listed.get(serial)
            if entry is None:
                link.turn(DOWN if server_is_up else WAITING, "gone", error="it was gone")
            elif entry.usable:
                link.turn(UP, entry.state)
            else:
                hint = f"{entry.state}: {entry.hint}" if entry.hint else entry.state
                link.turn(DOWN, hint, error=entry.state)

    def phone_at_server(self, state: str) -> None:
        """What the server's own adb says of the phone (ADBD mode)."""
        if state == "device":
            self._port_link.turn(UP, f"{self._spec.bind}:{self._port}, the server's adb is connected")
        else:
            self._port_link.evidence = f"{self._spec.bind}:{self._port}, the server's adb says: {state}"

    def record(self, pid: int) -> TunnelRecord:
        """What the tunnel's file shall say now."""
        links = (*self._hops, self._port_link, *self._extra, self._adb, *self._phones.values())
        return TunnelRecord(
            name=self._spec.name,
            pid=pid,
            token=self._token,
            started=self._started,
            state=self._state,
            spec=self._spec.as_dict(),
            links=tuple(dict(link.__dict__) for link in links),
            port=self._port,
            reconnects=self._reconnects,
            last_error=self._last_error,
            log=str(self._log) if self._log else None,
            direct=self.direct,
        )
