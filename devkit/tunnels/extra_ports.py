"""More ports of the phone on the server (`--forward`): dialled through adb, and looked at on the phone.

That a connection is accepted proves nothing: the port on the server accepts, and so does adb, also when
no program on the phone listens.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from devkit.device import Device
from devkit.device.listeners import listening_ports
from devkit.errors import PHONE, DeviceError, DevkitError, TunnelError

if TYPE_CHECKING:
    from devkit.tunnels.phones import PhoneWatch

_LOOK_EVERY_S = 3.0
_BACKLOG = 16
_CHUNK_BYTES = 65536


def meant_phone(watch: PhoneWatch, serial: str | None) -> Device:
    """The phone that a tunnel's `-s` means, else the only one.

    Raises:
        DeviceError: there is none, or none of several was named.
    """
    serials = watch.serials
    if serial is not None:
        serials = tuple(each for each in serials if each == serial)
    if len(serials) == 1:
        return Device(serials[0], watch.server)
    listed = ", ".join(f"{entry.serial} ({entry.state})" for entry in watch.entries)
    raise DeviceError(
        f"{len(serials)} usable phones: say which one" if serials else "no phone that can be used",
        where=PHONE,
        evidence=listed or watch.problem or "the adb server lists none",
        hints=["devkit tunnel up … -s SERIAL" if serials else "devkit device list"],
    )


class PhonePorts:
    """Looks every few seconds, in a thread of its own, which ports listen on the phone."""

    def __init__(self, find: Callable[[], Device]) -> None:
        self._find = find
        self._looked_at = -_LOOK_EVERY_S
        self._thread: threading.Thread | None = None
        # None: not known (yet).
        self.listening: frozenset[int] | None = None

    def tick(self) -> None:
        """Look again when it is time; returns at once."""
        busy = self._thread is not None and self._thread.is_alive()
        if busy or time.monotonic() - self._looked_at < _LOOK_EVERY_S:
            return
        self._looked_at = time.monotonic()
        self._thread = threading.Thread(target=self._look, daemon=True, name="phone's ports")
        self._thread.start()

    def _look(self) -> None:
        try:
            self.listening = listening_ports(self._find())
        except DevkitError:
            self.listening = None


class PhonePort:
    """A port of this machine whose connections lead to one of the phone.

    Args:
        port: 0 lets the system choose; `port` then says which.

    Attributes:
        connected: set when the first client has come.
        bytes_up, bytes_down: what clients have sent and received.

    Raises:
        TunnelError: "address-in-use".
    """

    def __init__(self, bind: str, port: int, dial: Callable[[], socket.socket]) -> None:
        self._dial = dial
        self._ends: set[socket.socket] = set()
        self.connected = threading.Event()
        self.bytes_up = 0
        self.bytes_down = 0
        self._listener = socket.socket(socket.AF_INET6 if ":" in bind else socket.AF_INET)
        try:
            self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._listener.bind((bind, port))
            self._listener.listen(_BACKLOG)
        except OSError as error:
            self._listener.close()
            raise TunnelError(
                f"this machine cannot listen on {bind}:{port}: {error.strerror or error}",
                reason="address-in-use",
                hints=[f"see who listens: ss -ltnp 'sport = :{port}'"],
            ) from None
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True, name=f"phone port {self.port}").start()

    def close(self) -> None:
        """Stop listening and end its connections."""
        for end in (self._listener, *list(self._ends)):
            _end(end)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        try:
            phone = self._dial()
        except (DevkitError, OSError):
            client.close()
            return
        self._ends |= {client, phone}
        self.connected.set()
        with contextlib.suppress(OSError):
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        back = threading.Thread(target=_copy, args=(phone, client, self._count_down), daemon=True)
        back.start()
        _copy(client, phone, self._count_up)
        back.join()
        for end in (client, phone):
            _end(end)
            self._ends.discard(end)

    def _count_up(self, count: int) -> None:
        self.bytes_up += count

    def _count_down(self, count: int) -> None:
        self.bytes_down += count


def _copy(source: socket.socket, target: socket.socket, count: Callable[[int], None]) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(_CHUNK_BYTES):
            count(len(data))
            target.sendall(data)
    # adb loses a half-close: the end of either side ends both.
    for end in (source, target):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def _end(end: socket.socket) -> None:
    with contextlib.suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
