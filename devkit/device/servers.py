"""Which adb servers there are: the one the user means, and those that devkit itself brought here."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit import paths, process
from devkit.errors import ConfigError

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 5037

_LOOPBACK = ("127.0.0.1", "localhost", "::1")


@dataclass(frozen=True)
class AdbServer:
    """The address of an adb server.

    Attributes:
        origin: who named it: "default", the name of a variable, "adb.server", "sim" or "tunnel".
        label: the name of the virtual phone or tunnel that brought it here.
        serials: the phones behind it that were known when it was registered.
    """

    host: str
    port: int
    origin: str
    label: str | None = None
    serials: tuple[str, ...] = ()

    @property
    def address(self) -> str:
        """host:port, as adb and people write it."""
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_default(self) -> bool:
        """Whether nobody asked for an address: only then devkit may start a server there."""
        return self.origin == "default"

    @property
    def is_local(self) -> bool:
        """Whether its address is on this machine (its host may still be behind a tunnel).

        Ports that `adb forward` opens are on the server's machine, so with a remote one they
        are of no use here.
        """
        return self.host in _LOOPBACK

    @property
    def name(self) -> str:
        """How `-s` and messages call it: "sim:NAME" for a registered one, else its address."""
        return f"{self.origin}:{self.label}" if self.label else self.address

    @property
    def environment(self) -> dict[str, str]:
        """The variables that make adb programs use it. A literal address never starts a server."""
        return {"ADB_SERVER_SOCKET": f"tcp:{self.address}"}

    def same_address(self, other: AdbServer) -> bool:
        """Whether both name one socket."""
        return self.port == other.port and (
            self.host == other.host or (self.host in _LOOPBACK[:2] and other.host in _LOOPBACK[:2])
        )


def server_address(environ: Mapping[str, str], configured: str | None) -> AdbServer:
    """The adb server that the user means.

    adb's own order (`adb help`, "environment variables"), with devkit's setting before it:
    `adb.server`, ADB_SERVER_SOCKET, ANDROID_ADB_SERVER_ADDRESS / _PORT, 127.0.0.1:5037.

    Raises:
        ConfigError: a value is no address devkit can use.
    """
    if configured:
        return _parse(configured, "adb.server")
    socket_spec = environ.get("ADB_SERVER_SOCKET")
    if socket_spec:
        if not socket_spec.startswith("tcp:"):
            raise ConfigError(
                "devkit reaches adb servers by TCP only",
                evidence=f"ADB_SERVER_SOCKET={socket_spec}",
                hints=["ADB_SERVER_SOCKET=tcp:HOST:PORT", "unset ADB_SERVER_SOCKET"],
            )
        return _parse(socket_spec, "ADB_SERVER_SOCKET")
    host = environ.get("ANDROID_ADB_SERVER_ADDRESS") or ""
    port = environ.get("ANDROID_ADB_SERVER_PORT") or ""
    if port:
        number = _port(port, "ANDROID_ADB_SERVER_PORT", port)
        return AdbServer(host or DEFAULT_HOST, number, "ANDROID_ADB_SERVER_PORT")
    if host:
        return AdbServer(host, DEFAULT_PORT, "ANDROID_ADB_SERVER_ADDRESS")
    return AdbServer(DEFAULT_HOST, DEFAULT_PORT, "default")


def known_servers() -> list[AdbServer]:
    """The servers that virtual phones and tunnels of this user keep alive, oldest file name first.

    Entries of processes that have ended, and files that are no valid entry, are left out.
    """
    return [server for _, server, alive in _registered() if alive]


def stale_registrations() -> list[Path]:
    """Entries of processes that have ended: nobody reads them any more."""
    return [file for file, _, alive in _registered() if not alive]


def _registered() -> Iterator[tuple[Path, AdbServer, bool]]:
    """The entries of the registry, and whether the process that wrote each of them lives."""
    try:
        files = sorted(paths.adb_server_registry().glob("*.json"))
    except OSError:
        return
    for file in files:
        try:
            entry = json.loads(file.read_text(encoding="utf-8"))
            server = AdbServer(
                host=str(entry["host"]),
                port=int(entry["port"]),
                origin=str(entry["origin"]),
                label=str(entry["label"]) if entry.get("label") else None,
                serials=tuple(str(serial) for serial in entry.get("serials") or ()),
            )
            pid = int(entry["pid"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            continue
        yield file, server, process.is_alive(pid)


def _parse(text: str, origin: str) -> AdbServer:
    """`HOST:PORT`, `PORT` or either after `tcp:`, the forms of adb's socket_spec.cpp."""
    rest = text[4:] if text.startswith("tcp:") else text
    host, separator, port = rest.rpartition(":")
    if not separator and not rest.isdigit():
        host, port = rest, str(DEFAULT_PORT)
    host = host.strip("[]") or DEFAULT_HOST
    return AdbServer(host, _port(port, origin, text), origin)


def _port(text: str, origin: str, whole: str) -> int:
    if text.isascii() and text.isdigit() and 0 < int(text) < 65536:
        return int(text)
    raise ConfigError(
        f"{origin} is not the address of an adb server",
        evidence=f"{origin}={whole}",
        hints=["write HOST:PORT, for example 127.0.0.1:5037"],
    )
