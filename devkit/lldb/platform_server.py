"""lldb-server's platform on the phone, and the ways by which LLDB's two platform plugins reach it.

remote-android asks an adb server itself, and needs its forwards on this machine. Where they open elsewhere
(an adb server behind a tunnel), remote-linux takes two ports that devkit carries, with the phone's numbers.
"""

from __future__ import annotations

import contextlib
import posixpath
import re
import secrets
import socket
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING

from devkit.device.forwards import forwards_land_here, forwards_to, remove_forward
from devkit.device.listeners import listening_ports
from devkit.errors import DebugError, DevkitError
from devkit.lldb.platform_commands import ANDROID, LINUX
from devkit.lldb.server import START_TIMEOUT_S, LldbServer
from devkit.tunnels.extra_ports import PhonePort
from devkit.tunnels.relay import LOOPBACK

if TYPE_CHECKING:
    from devkit.device import Device

# Below the ports that Linux and Android give to clients (32768 and up).
_PORTS = range(20000, 32768)
_PORT_TRIES = 50
_LISTENING = re.compile(rb"^devkit-listens (\d+)\s*$", re.MULTILINE)


class PlatformServer(LldbServer):
    """One `lldb-server platform` on the phone: it serves one LLDB, and ends when that has gone.

    Args:
        gdb_port: where it listens for the second connection, the debugged program's.
        working_dir: where programs start that LLDB gives none.
    """

    def __init__(self, device: Device, server: str, *, gdb_port: int, working_dir: str, app: str) -> None:
        super().__init__(device, server, launch=None, attach_pid=None, app=app)
        self._gdb_port = gdb_port
        self._working_dir = working_dir

    def shell_text(self) -> str:
        """The server beside a shell that says its port as soon as it listens."""
        from devkit.device import quote, quote_word

        file = quote_word(posixpath.join(posixpath.dirname(self._server), f".{self._name}"))
        command = platform_command(self._server, 0, self._gdb_port)
        # It writes the file when it listens: a port that accepts proves nothing, and would use up its client.
        return (
            f"cd {quote([self._working_dir])} && {{ {command} --socket-file {file} & }} || exit 1; "
            f"pid=$!; while [ ! -s {file} ] && kill -0 $pid 2>/dev/null; do sleep 0.02; done; "
            f'[ -s {file} ] && echo "devkit-listens $(cat {file})"; rm -f {file}; wait $pid'
        )

    def wait_for_port(self) -> int:
        """The port on the phone at which the platform listens.

        Raises:
            DebugError: it ended, or did not listen within START_TIMEOUT_S.
        """
        deadline = time.monotonic() + START_TIMEOUT_S
        while (found := _LISTENING.search(bytes(self._log))) is None:
            if self.ended.wait(0.01):
                raise self._failed(f"lldb-server's platform ended at once (exit code {self._exit_code})")
            if time.monotonic() > deadline:
                raise self._failed(f"lldb-server's platform did not listen within {START_TIMEOUT_S:g} s")
        return int(found[1])


class PlatformWay:
    """The way from LLDB to the platform. A context manager; afterwards no port or forward is left.

    Attributes:
        plugin, url, environment: as platform_commands.PlatformMode has them.
        connected: set when LLDB has come.
        ended: set when the platform has ended.
    """

    def __init__(self, device: Device, server: PlatformServer, port: int, gdb_port: int) -> None:
        self._device = device
        self._remote = {f"tcp:{port}", f"tcp:{gdb_port}"}
        self._ports: list[PhonePort] = []
        self.ended = server.ended
        self.environment: Mapping[str, str] = {}
        if forwards_land_here(device):
            self.plugin = ANDROID
            adb = device.server
            # Through a port of ours: LLDB knows servers on 127.0.0.1 only, and this tells when it comes.
            gate = PhonePort(LOOPBACK, 0, lambda: socket.create_connection((adb.host, adb.port), 10))
            self._ports.append(gate)
            # The brackets: a serial may hold a colon.
            self.url = f"connect://[{device.serial}]:{port}"
            self.environment = {
                "ANDROID_SERIAL": device.serial,
                "ANDROID_ADB_SERVER_PORT": str(gate.port),
            }
        else:
            self.plugin = LINUX
            first = PhonePort(LOOPBACK, 0, lambda: device.dial(f"tcp:{port}"))
            self._ports.append(first)
            self._ports.append(PhonePort(LOOPBACK, gdb_port, lambda: device.dial(f"tcp:{gdb_port}")))
            self.url = f"connect://{LOOPBACK}:{first.port}"

    def __enter__(self) -> PlatformWay:
        return self

    def __exit__(self, *_error: object) -> None:
        for port in self._ports:
            port.close()
        if self.plugin == ANDROID:
            # The plugin makes two forwards and leaves one.
            with contextlib.suppress(DevkitError):
                for forward in forwards_to(self._device, self._remote):
                    with contextlib.suppress(DevkitError):
                        remove_forward(self._device, forward)

    @property
    def connected(self) -> threading.Event:
        return self._ports[0].connected

    @property
    def bytes_up(self) -> int:
        """What LLDB has sent through ports of ours; over adb's forwards it is not counted."""
        return sum(port.bytes_up for port in self._ports)

    @property
    def bytes_down(self) -> int:
        return sum(port.bytes_down for port in self._ports)


def platform_command(server: str, port: int, gdb_port: int, *, stays: bool = False) -> str:
    """`lldb-server platform …` for the phone's shell.

    Args:
        port: 0 leaves the choice to the phone.
        stays: for one LLDB after the other, until it is ended.
    """
    from devkit.device import quote

    listen = ["--listen", f"{LOOPBACK}:{port}", "--gdbserver-port", str(gdb_port)]
    return quote([server, "platform", *(["--server"] if stays else []), *listen])


def free_port(device: Device) -> int:
    """A port that is free on the phone and on this machine. One round trip.

    Raises:
        DebugError: none was found.
    """
    taken = listening_ports(device) or frozenset()
    for _ in range(_PORT_TRIES):
        port = secrets.choice(_PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            if port not in taken:
                probe.bind((LOOPBACK, port))
                return port
    raise DebugError(f"no port between {_PORTS.start} and {_PORTS.stop} is free here and on the phone")
