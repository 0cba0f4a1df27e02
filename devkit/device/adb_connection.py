"""adbutils' connection to an adb server, with its traps closed. Import it inside functions only.

What is changed: it never runs `adb start-server` (behind a tunnel that is the wrong server), sends
whole requests, reads in linear time, notices an end of the stream, and closes without a pause.
"""

from __future__ import annotations

import importlib
import importlib.util
import socket
import sys
import threading
from types import ModuleType
from typing import Any

MAX_REQUEST_BYTES = 0xFFFF  # the length is four hexadecimal digits

_load_lock = threading.Lock()


def _load_core() -> ModuleType:
    """Import `adbutils._adb` without `adbutils/__init__`, which also loads requests and Pillow.

    Measured on a 2-core machine: 25 ms instead of 130 ms, a good part of a command's own start.
    `whole_adbutils` gives the whole package later, sharing these modules.
    """
    with _load_lock:
        if "adbutils" in sys.modules:
            return importlib.import_module("adbutils._adb")
        spec = importlib.util.find_spec("adbutils")
        if spec is None:
            raise ModuleNotFoundError("adbutils is not installed", name="adbutils")
        sys.modules["adbutils"] = importlib.util.module_from_spec(spec)
        try:
            return importlib.import_module("adbutils._adb")
        finally:
            del sys.modules["adbutils"]


_core = _load_core()
AdbError: Any = _core.AdbError
AdbTimeout: Any = _core.AdbTimeout


class ServerConnection(_core.AdbConnection):  # type: ignore[misc, name-defined]
    """One connection to an adb server; `conn` is its socket.

    Raises:
        OSError: the server cannot be reached (TimeoutError: not within `connect_timeout_s`).
    """

    def __init__(self, host: str, port: int, *, connect_timeout_s: float) -> None:
        self._address = (host, port)
        self._connect_timeout_s = connect_timeout_s
        super().__init__(host, port)

    def _safe_connect(self) -> socket.socket:
        sock = socket.create_connection(self._address, self._connect_timeout_s)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        # A server behind a dead tunnel must not hold a command for ever.
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return sock

    def send_command(self, cmd: str) -> None:
        data = cmd.encode("utf-8", "surrogateescape")
        if len(data) > MAX_REQUEST_BYTES:
            raise AdbError(f"request of {len(data)} bytes is too long")
        self.conn.sendall(b"%04x" % len(data) + data)

    def _read_fully(self, n: int) -> bytes:
        """Up to n bytes: fewer only when the stream ends, as `read_until_close` expects."""
        buffer = bytearray(n)
        view = memoryview(buffer)
        got = 0
        while got < n:
            count = self.conn.recv_into(view[got:])
            if count == 0:
                break
            got += count
        return bytes(view[:got])

    def read_string(self, n: int) -> str:
        return str(self.read_exact(n).decode("utf-8", "replace"))

    def check_okay(self) -> None:
        status = self.read_exact(4)
        if status == b"FAIL":
            raise AdbError(self.read_string_block())
        if status != b"OKAY":
            raise AdbError(f"neither OKAY nor FAIL: {status!r}")

    @property
    def closed(self) -> bool:
        return bool(self.conn.fileno() == -1)

    def close(self) -> None:
        self.conn.close()


def whole_adbutils() -> ModuleType:
    """The package with all it has. Modules that were loaded before it are bound to it here."""
    adbutils = importlib.import_module("adbutils")
    for name, module in list(sys.modules.items()):
        package, _, rest = name.partition(".")
        if package == "adbutils" and rest and "." not in rest and not hasattr(adbutils, rest):
            setattr(adbutils, rest, module)
    return adbutils


def whole_device(host: str, port: int, serial: str, *, connect_timeout_s: float) -> Any:
    """adbutils' own AdbDevice (screenshots, installing, …) over connections of this module."""
    adbutils: Any = whole_adbutils()

    class Client(adbutils.AdbClient):  # type: ignore[misc]
        def make_connection(self, timeout: float | None = None) -> ServerConnection:
            connection = ServerConnection(self.host, self.port, connect_timeout_s=connect_timeout_s)
            connection.conn.settimeout(timeout)
            return connection

    return adbutils.AdbDevice(Client(host, port), serial=serial)
