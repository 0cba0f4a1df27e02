"""News of an adb server: which phones come, go and change their state, as it happens."""

from __future__ import annotations

import socket
from collections.abc import Iterator

from devkit.device import failures
from devkit.device.adb_connection import AdbError, ServerConnection
from devkit.device.connection import CONNECT_TIMEOUT_S
from devkit.device.listing import DeviceEntry, parse_devices
from devkit.device.servers import AdbServer
from devkit.errors import DeviceError

_MAX_REPORT_BYTES = 0xFFFF


class Tracker:
    """One `host:track-devices` of an adb server: the first report comes at once, then one a change.

    Raises:
        ServerUnreachable: no server answers at the address. Nothing is started.
        DeviceError: something else than an adb server answers.
    """

    def __init__(self, server: AdbServer) -> None:
        self.server = server
        try:
            self._connection = ServerConnection(server.host, server.port, connect_timeout_s=CONNECT_TIMEOUT_S)
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            raise failures.unreachable(server, str(error), refused=refused) from None
        try:
            self._connection.conn.settimeout(CONNECT_TIMEOUT_S)
            self._connection.send_command("host:track-devices")
            self._connection.check_okay()
            self._connection.conn.settimeout(None)
        except Exception as error:
            self._connection.close()
            raise DeviceError(
                f"the adb server at {server.address} tells no news of its phones", evidence=str(error)
            ) from None

    def reports(self) -> Iterator[list[DeviceEntry]]:
        """All phones, at each change, until the server goes away or `close` is called."""
        while True:
            try:
                head = self._connection.read_exact(4)
                size = int(head, 16)
                text = self._connection.read_exact(min(size, _MAX_REPORT_BYTES)) if size else b""
            except (OSError, EOFError, ValueError, AdbError):
                return
            yield parse_devices(text.decode("utf-8", "replace"), self.server)

    def close(self) -> None:
        """End it, also from another thread."""
        try:
            self._connection.conn.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self._connection.close()
