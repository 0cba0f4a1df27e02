"""What a tunnel shall do, as the user asked for it."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from devkit.errors import UsageError
from devkit.tunnels.model import LOOPBACK

ADB_SERVER, ADBD = "adb-server", "adbd"
MODES = (ADB_SERVER, ADBD)
LAPTOP_SIDE, SERVER_SIDE = "laptop", "server"

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")
_ANY = ("*",)
# What an adb server looks at for emulators (packages/modules/adb, client/transport_emulator.cpp).
_EMULATOR_PORTS = range(5555, 5586)
_LOOPBACKS = ("127.0.0.1", "::1", "localhost")


@dataclass(frozen=True)
class ExtraPort:
    """A port of the phone that shall be reachable on the server, too (platform-mode lldb-server)."""

    server: int
    phone: int


@dataclass(frozen=True)
class TunnelSpec:
    """One tunnel.

    Attributes:
        host: the other machine, as `ssh` takes it.
        name: what `status` and `down` call it here.
        label: what the server calls it (`-s tunnel:LABEL`): the laptop's host name.
        mode: ADB_SERVER (the laptop's adb server is offered to the server) or ADBD (one phone's
            adbd is, and the server's own adb connects to it).
        side: where this runs: LAPTOP_SIDE logs in to the server, SERVER_SIDE to the laptop.
        adb: HOST:PORT of the adb server on the laptop; None: as `server_address` finds it.
        serial: the phone of ADBD mode and of extra ports; None: the only one.
        port: the port on the server; 0: a free one.
        bind: the address on the server that it listens on.
    """

    host: str
    name: str
    mode: str = ADB_SERVER
    side: str = LAPTOP_SIDE
    adb: str | None = None
    serial: str | None = None
    port: int = 0
    bind: str = LOOPBACK
    label: str = "laptop"
    extra: tuple[ExtraPort, ...] = ()
    accept_new: bool = False
    ssh_config: str | None = None

    @property
    def is_exposed(self) -> bool:
        """Whether machines other than the server itself could connect."""
        return self.bind not in _LOOPBACKS

    def as_dict(self) -> dict[str, Any]:
        """As state files and the detached process read it."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TunnelSpec:
        """The inverse of `as_dict`."""
        extra = tuple(ExtraPort(**port) for port in data.get("extra", ()))
        return replace(cls(**{**data, "extra": ()}), extra=extra)


def name_for(host: str) -> str:
    """A tunnel's name from the host: `dev@build.example.com:2222` → `build.example.com`."""
    bare = host.removeprefix("ssh://").rpartition("@")[2].partition("/")[0]
    bare = bare[1:].partition("]")[0] if bare.startswith("[") else bare.partition(":")[0]
    return re.sub(r"[^A-Za-z0-9._-]+", "-", bare).strip("-.")[:63] or "tunnel"


def check_name(name: str) -> str:
    """The name itself.

    Raises:
        UsageError: it cannot be a file's name on every system.
    """
    if not _NAME.match(name):
        raise UsageError(
            f"{name!r} cannot be the name of a tunnel",
            hints=["letters, digits, dots, dashes and underscores; at most 63"],
        )
    return name


def check_spec(spec: TunnelSpec) -> TunnelSpec:
    """The spec itself.

    Raises:
        UsageError: what it asks for contradicts itself, whatever the server would say.
    """
    if spec.side == SERVER_SIDE and spec.mode == ADBD:
        raise UsageError(
            "--from server has the adb-server mode only",
            hints=["devkit device connect PHONE-IP reaches a phone in the same network without a tunnel"],
        )
    ports = [port for port in (spec.port, *(extra.server for extra in spec.extra)) if port]
    twice = sorted({port for port in ports if ports.count(port) > 1})
    if twice:
        raise UsageError(
            f"port {twice[0]} of the server can be used once only",
            hints=["--forward SERVER:PHONE, with another number for the server"],
        )
    if spec.mode == ADBD and spec.port in _EMULATOR_PORTS:
        raise UsageError(
            f"port {spec.port} of the server cannot be the phone's",
            evidence="adb servers take what listens from 5555 to 5585 for emulators",
            hints=["leave out --port: a free one is taken"],
        )
    if spec.bind not in _ANY and spec.bind not in _LOOPBACKS:
        try:
            ipaddress.ip_address(spec.bind)
        except ValueError:
            raise UsageError(
                f"--bind {spec.bind!r} is no address of a machine",
                hints=["leave it out: 127.0.0.1 is enough for programs on the server"],
            ) from None
    if spec.serial == "":
        raise UsageError("-s needs a phone's serial", hints=["devkit device list"])
    return spec


def refuse_other(spec: TunnelSpec, running: TunnelSpec, port: int | None) -> None:
    """Nothing, when a running tunnel does what is asked for: more ports are fine.

    Args:
        port: on which the running one listens now, chosen or found free.

    Raises:
        UsageError: it does something else.
    """
    asked, has = _options(spec), _options(running)
    if spec.port in (0, port):
        has["--port"] = asked["--port"]
    if set(spec.extra) <= set(running.extra):
        has["--forward"] = asked["--forward"]
    differ = [name for name in asked if asked[name] != has[name]]
    if differ:
        raise UsageError(
            f"the tunnel {running.name} is up already, with other options",
            evidence="\n".join(f"{name}: asked {asked[name]}, it has {has[name]}" for name in differ),
            hints=[f"devkit tunnel down {running.name}, then again"],
        )


def _options(spec: TunnelSpec) -> dict[str, str]:
    """What makes two tunnels different, as the command line says it."""
    return {
        "HOST": spec.host,
        "--from": spec.side,
        "--mode": spec.mode,
        "-s": spec.serial or spec.adb or "none",
        "--port": str(spec.port or "any"),
        "--bind": spec.bind,
        "--forward": " ".join(f"{extra.server}:{extra.phone}" for extra in spec.extra) or "none",
    }


def parse_extra_port(text: str) -> ExtraPort:
    """'31313' → the same port on both sides; '31400:31313' → server:phone.

    Raises:
        UsageError: it is neither.
    """
    server, colon, phone = text.partition(":")
    numbers = [server, phone if colon else server]
    if not all(n.isascii() and n.isdigit() and 0 < int(n) < 65536 for n in numbers):
        raise UsageError(
            f"--forward {text} is no port", hints=["--forward 31313", "--forward 31400:31313 (server:phone)"]
        )
    return ExtraPort(int(numbers[0]), int(numbers[1]))
