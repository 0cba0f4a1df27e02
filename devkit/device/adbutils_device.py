"""adbutils' own device (screenshots, installing, …) over connections that never start a server.

Import it inside functions only: adbutils takes 0.2 s.
"""

from __future__ import annotations

import socket
from typing import Any

import adbutils

from devkit.device.adb_connection import ServerConnection, connect


def adbutils_device(host: str, port: int, serial: str, *, connect_timeout_s: float) -> Any:
    """adbutils' AdbDevice for a phone behind the server at this address."""

    class Connection(adbutils.AdbConnection):  # type: ignore[misc]
        def _safe_connect(self) -> socket.socket:
            return connect(host, port, connect_timeout_s=connect_timeout_s)

        def send_command(self, cmd: str) -> None:
            ServerConnection.send_command(self, cmd)

    class Client(adbutils.AdbClient):  # type: ignore[misc]
        def make_connection(self, timeout: float | None = None) -> Connection:
            connection = Connection(host, port)
            connection.conn.settimeout(timeout)
            return connection

    return adbutils.AdbDevice(Client(host, port), serial=serial)
