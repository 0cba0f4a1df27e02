"""Adb servers as the supervisor sees them: a private one, and the few questions asked of any."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from pathlib import Path

from devkit import process
from devkit.errors import SimError

LOCALHOST = "127.0.0.1"
ANSWER_TIMEOUT_S = 5.0
START_TIMEOUT_S = 10.0

# Set for our server, whatever the user's shell says: no USB, no emulators, no mDNS, no foreign kill.
_SERVER_ENVIRONMENT = {
    "ADB_USB": "0",
    "ADB_EMU": "0",
    "ADB_MDNS": "0",
    "ADB_MDNS_OPENSCREEN": "0",
    "ADB_REJECT_KILL_SERVER": "1",
}
_FOREIGN_VARIABLES = (
    "ADB_SERVER_SOCKET",
    "ADB_TRACE",
    "ADB_VENDOR_KEYS",
    "ANDROID_ADB_SERVER_ADDRESS",
    "ANDROID_ADB_SERVER_PORT",
    "ANDROID_SERIAL",
)


class AdbRefused(Exception):
    """The adb server answered FAIL; the text is its own."""


def request(address: tuple[str, int], service: str, *, timeout_s: float = ANSWER_TIMEOUT_S) -> str:
    """Ask an adb server a `host:` question whose answer is one string.

    Raises:
        OSError: nobody listens there, or no answer came in time.
        AdbRefused: it answered FAIL.
    """
    with open_service(address, service, timeout_s=timeout_s) as sock:
        return read_string(sock)


def open_service(address: tuple[str, int], service: str, *, timeout_s: float) -> socket.socket:
    """Open a service of an adb server; the caller reads on.

    Raises:
        OSError, AdbRefused: as `request`.
    """
    sock = socket.create_connection(address, timeout_s)
    try:
        sock.settimeout(timeout_s)
        data = service.encode()
        sock.sendall(b"%04x" % len(data) + data)
        status = _read(sock, 4)
        if status != b"OKAY":
            raise AdbRefused(read_string(sock) if status == b"FAIL" else repr(status))
    except BaseException:
        sock.close()
        raise
    return sock


def read_string(sock: socket.socket) -> str:
    """A string with adb's four hexadecimal digits of length.

    Raises:
        OSError: the connection ended, or what came is no such string.
    """
    digits = _read(sock, 4)
    try:
        length = int(digits, 16)
    except ValueError:
        raise OSError(f"not an adb server: {digits!r}") from None
    return _read(sock, length).decode("utf-8", "replace")


def connect_device(address: tuple[str, int], serial: str) -> str | None:
    """Have an adb server connect to a phone. None when it worked, else the server's words.

    Raises:
        OSError: the server does not answer.
    """
    try:
        # A serial it still knows as offline would be "already connected".
        request(address, f"host:disconnect:{serial}")
    except AdbRefused:
        pass
    try:
        answer = request(address, f"host:connect:{serial}", timeout_s=START_TIMEOUT_S)
    except AdbRefused as error:
        return str(error)
    # It is connected, but its user has to allow that first.
    connected = ("connected to", "already connected", "failed to authenticate")
    return None if answer.startswith(connected) else answer


def device_state(address: tuple[str, int], serial: str) -> str:
    """The state an adb server gives a phone: "device", "unauthorized"…, "" when it does not know it.

    Raises:
        OSError: the server does not answer.
    """
    try:
        # get-state is refused for a phone that is unauthorized.
        return parse_devices(request(address, "host:devices")).get(serial, "")
    except AdbRefused:
        return ""


def parse_devices(text: str) -> dict[str, str]:
    """Serial → state, from what `host:devices` and `host:track-devices` say."""
    return dict(line.split("\t", 1) for line in text.splitlines() if "\t" in line)


class PrivateServer:
    """An adb server of our own on a port of our own. It dies with this process.

    Args:
        adb: the adb program.
        home: folder for its keys and its log.
    """

    def __init__(self, adb: Path, home: Path) -> None:
        self._adb = adb
        self._home = home
        self._log = home / "adb-server.log"
        # Listening before the server starts: no port can be taken in between.
        self._listener: socket.socket | None = socket.create_server((LOCALHOST, 0))
        self.address: tuple[str, int] = (LOCALHOST, self._listener.getsockname()[1])
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and wait for its first answer.

        Raises:
            SimError: it does not start or does not answer.
        """
        self._home.mkdir(parents=True, exist_ok=True)
        if self._listener is not None and self._launch(f"acceptfd:{self._listener.fileno()}"):
            return
        # Before adb 30 a server cannot be given a socket. The port stays ours but for an instant.
        if self._listener is not None:
            self._listener.close()
            self._listener = None
        if not self._launch(f"tcp:localhost:{self.address[1]}"):
            raise SimError(
                f"the adb server of {self._adb} does not start",
                evidence=process.tail(self._log.read_bytes()) if self._log.exists() else None,
                hints=[f"{self._adb} version", "point adb.path of devkit.yaml at another adb program"],
            )

    @property
    def pid(self) -> int:
        """Its process id, 0 when it is not running."""
        return self._process.pid if self._process is not None else 0

    def has_ended(self) -> bool:
        """Whether it is gone (and reaps it)."""
        return self._process is None or self._process.poll() is not None

    def stop(self) -> None:
        """End it."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
        if self._listener is not None:
            self._listener.close()
            self._listener = None

    def _launch(self, where: str) -> bool:
        for name in _FOREIGN_VARIABLES:
            os.environ.pop(name, None)
        fds = (self._listener.fileno(),) if self._listener is not None else ()
        environment = {**_SERVER_ENVIRONMENT, "ANDROID_USER_HOME": str(self._home), "HOME": str(self._home)}
        with self._log.open("ab") as log:
            self._process = process.start(
                [self._adb, "-L", where, "server", "nodaemon"],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                die_with_parent=True,
                pass_fds=fds,
            )
        deadline = time.monotonic() + START_TIMEOUT_S
        while time.monotonic() < deadline and self._process.poll() is None:
            try:
                request(self.address, "host:version", timeout_s=0.5)
                return True
            except (OSError, AdbRefused):
                time.sleep(0.02)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        return False


def _read(sock: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        piece = sock.recv(count - len(data))
        if not piece:
            raise OSError("the adb server closed the connection")
        data += piece
    return data
