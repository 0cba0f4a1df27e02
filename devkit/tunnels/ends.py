"""What a tunnel joins: the laptop's adb server, or a phone's adbd, with a port on the server."""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import time
from collections.abc import Callable
from typing import Protocol

from devkit import paths
from devkit.device import AdbServer, Device
from devkit.device.tcp_mode import look_at, switch
from devkit.errors import DeviceError, DevkitError, TunnelError
from devkit.tunnels.adb_gate import screen_request
from devkit.tunnels.connection import Link
from devkit.tunnels.extra_ports import PhonePort, PhonePorts, meant_phone
from devkit.tunnels.far_adb import look_at_far_adb, refuse_danger
from devkit.tunnels.far_side import FarSide, far_side_command, registry_entry
from devkit.tunnels.forwards import Forward
from devkit.tunnels.model import LOOPBACK
from devkit.tunnels.phones import PhoneWatch
from devkit.tunnels.spec import ADBD, SERVER_SIDE, TunnelSpec

DEFAULT_ADBD_PORT = 5555
_RESTART_S = 15.0
_STATE_EVERY_S = 5.0


class Ends(Protocol):
    """The near and far end of a tunnel for one mode. `make` and `unmake` are called for each connection."""

    port: int

    @property
    def watches_phones_before_login(self) -> bool:
        """Whether the adb server is on this machine, so that it can be looked at first."""

    @property
    def phone_ports(self) -> frozenset[int] | None:
        """Where programs on the phone listen, looked at when there are extra ports; None: not known."""

    def make(self, link: Link) -> None:
        """Ask for the ports and leave the entries."""

    def unmake(self) -> None:
        """Take everything of this connection away, also when it is broken."""

    def phones_changed(self) -> None:
        """The adb server lists other phones than before."""

    def tick(self) -> None:
        """Called a few times a second while the connection lives."""

    def finish(self) -> None:
        """The tunnel ends for good: undo what outlives a connection."""


def make_ends(spec: TunnelSpec, watch: PhoneWatch, token: str, say: Callable[[str], None]) -> Ends:
    """The ends that a tunnel asks for."""
    if spec.side == SERVER_SIDE:
        return _ServerSideEnds(spec, watch, token)
    kind = _AdbdEnds if spec.mode == ADBD else _AdbServerEnds
    return kind(spec, watch, token, say)


class _LaptopEnds:
    """What both modes have when the laptop logs in to the server."""

    watches_phones_before_login = True

    def __init__(self, spec: TunnelSpec, watch: PhoneWatch, token: str, say: Callable[[str], None]) -> None:
        self.port = spec.port
        self._spec, self._watch, self._token, self._say = spec, watch, token, say
        self._far: FarSide | None = None
        self._far_pid: int | None = None
        self._ports = PhonePorts(self._device)

    @property
    def phone_ports(self) -> frozenset[int] | None:
        return self._ports.listening

    def make(self, link: Link) -> None:
        stream = link.open_command(far_side_command(self._spec.label, self._token))
        self._far = FarSide(stream, name=self._spec.label, token=self._token)
        if self._far_pid is not None:
            self._far.retire(self._far_pid)
        self._far_pid = self._far.pid
        self._open(link)
        for extra in self._spec.extra:
            try:
                link.remote_forward(
                    functools.partial(self._dial_phone, extra.phone), bind=self._spec.bind, port=extra.server
                )
            except TunnelError as error:
                raise _with_free_port(link, error, self._spec.bind, f"--forward {{}}:{extra.phone}") from None

    def unmake(self) -> None:
        far, self._far = self._far, None
        if far is not None:
            far.close()

    def phones_changed(self) -> None: ...

    def tick(self) -> None:
        if self._spec.extra:
            self._ports.tick()

    def finish(self) -> None: ...

    def _open(self, link: Link) -> None:
        raise NotImplementedError

    def _device(self) -> Device:
        return meant_phone(self._watch, self._spec.serial)

    def _dial_phone(self, port: int) -> socket.socket:
        return self._device().dial(f"tcp:{port}", doing=f"reaching port {port} of the phone")

    def _listen(self, link: Link, listen: Callable[[int], Forward]) -> None:
        """The same port as before, so that what was told to the user stays true; else another."""
        try:
            forward = listen(self.port)
        except TunnelError as error:
            if error.reason != "address-in-use" or self._spec.port or not self.port:
                raise _with_free_port(link, error, self._spec.bind, "--port {}") from None
            forward = listen(0)
        self.port = forward.port


class _AdbServerEnds(_LaptopEnds):
    """The laptop's adb server is offered to the server: any number of phones, no TCP mode."""

    def _open(self, link: Link) -> None:
        server = self._watch.server
        self._listen(
            link,
            lambda port: link.remote_forward(
                (server.host, server.port), bind=self._spec.bind, port=port, screen=screen_request
            ),
        )
        self._register()

    def phones_changed(self) -> None:
        self._register()

    def _register(self) -> None:
        if self._far is not None:
            self._far.register(self.port, self._watch.serials)


class _AdbdEnds(_LaptopEnds):
    """One phone's adbd is offered to the server, whose own adb connects to it (as by hand)."""

    def __init__(self, spec: TunnelSpec, watch: PhoneWatch, token: str, say: Callable[[str], None]) -> None:
        super().__init__(spec, watch, token, say)
        self._switched: Device | None = None
        self._adbd_port = DEFAULT_ADBD_PORT
        self._usable: tuple[str, ...] = ()
        self._looked_at = 0.0

    @property
    def _address(self) -> str:
        return f"{LOOPBACK}:{self.port}"

    def _open(self, link: Link) -> None:
        refuse_danger(look_at_far_adb(link))
        self._prepare_phone()
        self._listen(
            link,
            lambda port: link.remote_forward(
                lambda: self._dial_phone(self._adbd_port), bind=self._spec.bind, port=port
            ),
        )
        self._join()

    def phones_changed(self) -> None:
        before, self._usable = self._usable, self._watch.serials
        came = set(self._usable) - set(before)
        if came and self._far is not None and (self._spec.serial is None or self._spec.serial in came):
            # Plugged in again or restarted: TCP mode may be gone, and the server's entry is stale.
            with contextlib.suppress(DeviceError):
                self._prepare_phone()
                self._join()

    def tick(self) -> None:
        super().tick()
        if self._far is None or time.monotonic() - self._looked_at < _STATE_EVERY_S:
            return
        self._looked_at = time.monotonic()
        if self._watch.serials and self._far.adb_state(self._address) not in ("device", "unauthorized"):
            with contextlib.suppress(TunnelError):
                self._join()

    def finish(self) -> None:
        if self._switched is not None:
            # The phone may be gone; then a restart ends its TCP mode.
            with contextlib.suppress(DevkitError):
                switch(self._switched, "usb:")
                self._say(f"the phone {self._switched.serial} is back to USB")

    def _prepare_phone(self) -> None:
        device = self._device()
        look = look_at(device)
        self._usable = self._watch.serials
        if look.tcp_port is not None:
            self._adbd_port = look.tcp_port
            return
        switch(device, f"tcpip:{DEFAULT_ADBD_PORT}")
        self._switched = device
        self._say(f"the phone {device.serial} listens at its port {DEFAULT_ADBD_PORT} (adb tcpip)")
        deadline = time.monotonic() + _RESTART_S
        while True:
            try:
                if look_at(Device(device.serial, device.server)).tcp_port is not None:
                    break
            except DevkitError:
                if time.monotonic() >= deadline:
                    raise
            time.sleep(0.2)
        self._adbd_port = DEFAULT_ADBD_PORT

    def _join(self) -> None:
        """Have the server's adb connect.

        Raises:
            TunnelError: it does not; a phone that does not trust the server's key yet counts as joined.
        """
        assert self._far is not None
        try:
            self._far.adb_connect(self._address)
        except TunnelError as error:
            if "failed to authenticate" not in (error.evidence or ""):
                raise
            self._say("the phone asks whether it trusts the server's adb: unlock it and allow debugging")
        self._looked_at = time.monotonic()


class _ServerSideEnds:
    """This machine is the server; the laptop's adb server is reached by a local port here."""

    watches_phones_before_login = False

    def __init__(self, spec: TunnelSpec, watch: PhoneWatch, token: str) -> None:
        self.port = spec.port
        self._spec, self._watch, self._token = spec, watch, token
        self._file = paths.adb_server_registry() / f"tunnel-{spec.label}.json"
        self._ports = PhonePorts(self._device)
        self._extra: list[PhonePort] = []

    @property
    def phone_ports(self) -> frozenset[int] | None:
        return self._ports.listening

    def make(self, link: Link) -> None:
        far = (LOOPBACK, self._watch.server.port)
        try:
            forward = link.local_forward(far, bind=self._spec.bind, port=self.port, screen=screen_request)
        except TunnelError as error:
            if error.reason != "address-in-use" or self._spec.port or not self.port:
                raise
            forward = link.local_forward(far, bind=self._spec.bind, port=0, screen=screen_request)
        self.port = forward.port
        self._watch.move(AdbServer(LOOPBACK, forward.port, "tunnel", self._spec.label))
        for extra in self._spec.extra:
            dial = functools.partial(self._dial_phone, extra.phone)
            self._extra.append(PhonePort(self._spec.bind, extra.server, dial))
        self._register()

    def unmake(self) -> None:
        for port in self._extra:
            port.close()
        self._extra = []
        with contextlib.suppress(OSError):
            self._file.unlink()

    def phones_changed(self) -> None:
        self._register()

    def tick(self) -> None:
        if self._spec.extra:
            self._ports.tick()

    def finish(self) -> None: ...

    def _device(self) -> Device:
        return meant_phone(self._watch, self._spec.serial)

    def _dial_phone(self, port: int) -> socket.socket:
        return self._device().dial(f"tcp:{port}", doing=f"reaching port {port} of the phone")

    def _register(self) -> None:
        entry = registry_entry(
            self._spec.label, self.port, self._watch.serials, pid=os.getpid(), token=self._token
        )
        paths.write_atomically(self._file, entry, mode=0o600)


def _with_free_port(link: Link, error: TunnelError, bind: str, option: str) -> TunnelError:
    """The error, with one port as a hint that the server grants: none of a range is tried in vain."""
    if error.reason == "address-in-use":
        with contextlib.suppress(TunnelError), link.remote_forward((LOOPBACK, 9), bind=bind) as granted:
            free = option.format(granted.port)
            error.hints = (*error.hints[:1], f"take another one, {free} is free")
    return error
