"""Keeping an adb server and a phone connected, whichever of the two goes away for a while."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable
from pathlib import Path

from devkit.errors import SimError
from devkit.sim import adbserver
from devkit.sim.adbserver import AdbRefused, PrivateServer

CONNECT_TIMEOUT_S = 10.0
ONLINE_TIMEOUT_S = 2.0
RECONNECT_PAUSE_S = 0.5
SERVER_RESTARTS = 5


class AdbUpkeep:
    """The phone's entry at an adb server.

    Args:
        serial: how the server names the phone.
        auth: hosts have to be allowed: `unauthorized` is a good state too.
        address: of somebody else's server, None for one of our own or none at all.
        log: where what happens is written.
    """

    def __init__(
        self, serial: str, *, auth: bool, address: tuple[str, int] | None, log: Callable[[str], None]
    ) -> None:
        self.address = address
        self._serial = serial
        # What the server may say of the phone without being told to connect again.
        self._good_states = ("device", "unauthorized", "authorizing") if auth else ("device",)
        self._log = log
        self._server: PrivateServer | None = None
        self._tracker: socket.socket | None = None
        self._reconnect_at = 0.0
        self._server_restarts = 0

    @property
    def has_own_server(self) -> bool:
        """Whether the server is ours."""
        return self._server is not None

    @property
    def tracker(self) -> socket.socket | None:
        """Readable when the server has news of its devices; None while the phone is not connected."""
        return self._tracker

    def start_server(self, adb: Path, home: Path) -> None:
        """Start a server of our own.

        Raises:
            SimError: it does not start.
        """
        self._server = PrivateServer(adb, home)
        self._server.start()
        self.address = self._server.address

    def connect(self) -> None:
        """Have the server connect to the phone for the first time. Does nothing without a server.

        Raises:
            SimError: it does not.
        """
        if self.address is None:
            return
        deadline = time.monotonic() + CONNECT_TIMEOUT_S
        problem: str | None = None
        while time.monotonic() < deadline:
            try:
                problem = adbserver.connect_device(self.address, self._serial)
                if problem is None and self._is_online(self.address):
                    self._track(self.address)
                    return
            except ConnectionRefusedError as error:
                problem = str(error)
                break
            except OSError as error:
                problem = str(error)
            time.sleep(0.1)
        host, port = self.address
        raise SimError(
            f"the adb server at {host}:{port} does not accept the virtual phone",
            evidence=problem or f"{self._serial} does not come online",
            hints=[f"adb -H {host} -P {port} devices", "start the phone with an adb server of its own"],
        )

    def patience_s(self, *, reachable: bool) -> float | None:
        """How long `keep` has nothing to do; None: until the tracker is readable."""
        if self.address is None or self._tracker is not None or not reachable:
            return None
        return max(0.05, self._reconnect_at - time.monotonic())

    def keep(self, *, news: bool, reachable: bool) -> None:
        """Do what is due.

        Args:
            news: the tracker is readable.
            reachable: the phone is meant to be reached.

        Raises:
            SimError: our own server ends again and again.
        """
        if news and self._tracker is not None:
            self._read_news(self._tracker)
        self._mend_server()
        wanted = self.address is not None and self._tracker is None and reachable
        if wanted and time.monotonic() >= self._reconnect_at:
            self.reconnect()

    def reconnect(self) -> None:
        """Try to be connected again, now."""
        if self.address is None:
            return
        try:
            # The server tries by itself too. Disconnecting first would end what runs over its connection.
            if adbserver.device_state(self.address, self._serial) in self._good_states:
                problem = None
            else:
                problem = adbserver.connect_device(self.address, self._serial)
            if problem is None and self._is_online(self.address):
                self._log("connected again")
                self._track(self.address)
                return
        except OSError:
            pass  # No server there now; it may come back.
        self.drop()

    def drop(self) -> None:
        """The connection is gone; `keep` tries again after a pause."""
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None
        self._reconnect_at = time.monotonic() + RECONNECT_PAUSE_S

    def forget(self, *, timeout_s: float = adbserver.ANSWER_TIMEOUT_S) -> None:
        """Have the server list the phone no longer."""
        if self.address is None:
            return
        try:
            adbserver.request(self.address, f"host:disconnect:{self._serial}", timeout_s=timeout_s)
        except (OSError, AdbRefused) as error:
            self._log(f"disconnect: {error}")

    def end(self) -> None:
        """Leave the server: end ours, let another forget the phone."""
        self.drop()
        if self._server is not None:
            self._server.stop()
        else:
            self.forget(timeout_s=1.0)

    def _is_online(self, address: tuple[str, int]) -> bool:
        deadline = time.monotonic() + ONLINE_TIMEOUT_S
        while time.monotonic() < deadline:
            if adbserver.device_state(address, self._serial) in self._good_states:
                return True
            time.sleep(0.01)
        return False

    def _track(self, address: tuple[str, int]) -> None:
        try:
            self._tracker = adbserver.open_service(address, "host:track-devices", timeout_s=5.0)
        except (OSError, AdbRefused) as error:
            self._log(f"cannot watch the adb server: {error}")
            self.drop()

    def _read_news(self, tracker: socket.socket) -> None:
        try:
            devices = adbserver.parse_devices(adbserver.read_string(tracker))
        except OSError as error:
            self._log(f"the adb server is gone: {error}")
            self.drop()
            return
        status = devices.get(self._serial)
        if status not in self._good_states:
            self._log(f"the adb server says {status} of {self._serial}, connecting again")
            self.drop()

    def _mend_server(self) -> None:
        if self._server is None or not self._server.has_ended():
            return
        self._server_restarts += 1
        if self._server_restarts > SERVER_RESTARTS:
            raise SimError("the adb server keeps ending")
        self._log("the adb server has ended, starting it again")
        self.drop()
        self._server.start()
