"""Requests to an adb server and services of a phone behind it, each with a time limit."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import time
from collections.abc import Iterator

from devkit.device import failures
from devkit.device.adb_connection import AdbError, ServerConnection
from devkit.device.servers import AdbServer
from devkit.errors import PHONE

CONNECT_TIMEOUT_S = 5.0
ANSWER_TIMEOUT_S = 10.0


def ask(
    server: AdbServer,
    request: str,
    *,
    serial: str | None = None,
    doing: str | None = None,
    timeout_s: float = ANSWER_TIMEOUT_S,
) -> str:
    """Send a `host:` request and return the text of its answer.

    Args:
        serial: the phone it is about, for messages.
        doing: what it is for, for messages, as "listing phones".

    Raises:
        ServerUnreachable: no server answers at the address. Nothing is started.
        OperationTimeout: something listens there but says nothing.
        DeviceError: the server refused or broke off.
    """
    doing = doing or f"asking {request}"
    with _connected(server, doing, None, timeout_s) as connection:
        connection.send_command(request)
        with _translated(server, doing, serial, timeout_s):
            connection.check_okay()
        return connection.read_string_block()


def ask_in_two_steps(server: AdbServer, request: str, *, doing: str, timeout_s: float) -> str:
    """As `ask`, for a request that the server first accepts and then answers, well or badly.

    Args:
        doing: what it is for; the request itself appears in no message (it may hold a secret).

    Returns:
        the text, whichever of the two it is.

    Raises:
        ServerUnreachable, OperationTimeout, DeviceError: as `ask`.
    """
    with _connected(server, doing, None, timeout_s) as connection:
        connection.send_command(request)
        connection.check_okay()
        head = connection.read_exact(4)
        # Older servers send the text alone; that of platform-tools 36 says FAIL before a bad one.
        if head in (b"FAIL", b"OKAY"):
            return connection.read_string_block()
        return connection.read_string(int(head, 16))


def tell(server: AdbServer, request: str, *, serial: str, doing: str) -> None:
    """Send a `host-serial:` request that has no answer but that it is done.

    Raises:
        ServerUnreachable, OperationTimeout, DeviceError: as `ask`.
    """
    with _connected(server, doing, serial, ANSWER_TIMEOUT_S) as connection:
        connection.send_command(request)
        # Once for the request, once for what it has done (adb.cpp, handle_forward_request).
        connection.check_okay()
        connection.check_okay()


def server_version(server: AdbServer, *, timeout_s: float = ANSWER_TIMEOUT_S) -> int:
    """The protocol version of a server (41 for every adb since 2018).

    Raises:
        ServerUnreachable, OperationTimeout, DeviceError: as `ask`.
    """
    text = ask(server, "host:version", timeout_s=timeout_s)
    try:
        return int(text, 16)
    except ValueError:
        raise failures.refusal(
            f"a version that is no number: {text!r}", server=server, serial=None, doing="asking host:version"
        ) from None


def open_service(
    server: AdbServer, serial: str, service: str, *, doing: str, timeout_s: float = ANSWER_TIMEOUT_S
) -> socket.socket:
    """Open a service of a phone (`shell,v2,raw:…`, `sync:`, `localabstract:…`) and return its socket.

    The socket is blocking, without a timeout, and has TCP_NODELAY.

    Args:
        doing: what it is for, for messages, as "running getprop".

    Raises:
        NothingListens: the phone answered `closed`: nobody is at that socket.
        DeviceNotReady: the phone is gone, offline, unauthorized, …
        ServerUnreachable, OperationTimeout, DeviceError: as `ask`.
    """
    with _connected(server, doing, serial, timeout_s) as connection:
        # Not `host:tport:serial:`: this form is understood by servers before version 41 too.
        connection.send_command(f"host:transport:{serial}")
        connection.check_okay()
        connection.send_command(service)
        try:
            connection.check_okay()
        except Exception as error:
            if str(error) != "closed":
                raise
            raise failures.NothingListens(
                f"nothing on the phone {serial} answers ({doing})",
                where=PHONE,
                evidence=f"{service.partition(':')[0]}: closed",
                hints=["devkit device list", "adb reconnect, or restart the phone"],
            ) from None
        sock = connection.conn
        # The caller's from here on: the connection object must not close it.
        sock = socket.socket(fileno=sock.detach())
        sock.settimeout(None)
        acknowledge_now(sock)
        return sock


def acknowledge_now(sock: socket.socket) -> None:
    """Let the other end know at once that its bytes have come; call it after each reception.

    adb servers leave Nagle's algorithm on: while something of theirs is not acknowledged, their next
    small packet waits, and Linux acknowledges up to 40 ms late. Measured with a phone 20 ms away: `echo`
    took 70 ms, with this 46 ms.
    """
    if hasattr(socket, "TCP_QUICKACK"):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def wait_for(
    sock: socket.socket, *, read: bool = False, write: bool = False, timeout_s: float | None
) -> tuple[bool, bool]:
    """Wait until a socket can be read or written; (False, False) when the time is up."""
    if not hasattr(select, "poll"):
        readers = [sock] if read else []
        writers = [sock] if write else []
        able_r, able_w, failed = select.select(readers, writers, [sock], timeout_s)
        return bool(able_r or failed), bool(able_w)
    poller = select.poll()  # select() cannot watch file descriptors above 1023
    poller.register(sock, (select.POLLIN if read else 0) | (select.POLLOUT if write else 0))
    # Rounded up: a wait of 0.4 ms must not become a busy loop of 0 ms.
    events = poller.poll(None if timeout_s is None else max(0, int(timeout_s * 1000 + 0.999)))
    if not events:
        return False, False
    mask = events[0][1]
    broken = mask & (select.POLLHUP | select.POLLERR | select.POLLNVAL)
    return (
        bool((read and mask & select.POLLIN) or broken),
        bool((write and mask & select.POLLOUT) or (broken and write)),
    )


class Deadline:
    """A point in time by which something must be done; None never comes."""

    def __init__(self, timeout_s: float | None) -> None:
        self.timeout_s = timeout_s
        self._end = None if timeout_s is None else time.monotonic() + timeout_s

    def left_s(self) -> float | None:
        """Seconds that are left, never below 0."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def passed(self) -> bool:
        """Whether the time is up."""
        return self._end is not None and time.monotonic() >= self._end


@contextlib.contextmanager
def _connected(
    server: AdbServer, doing: str, serial: str | None, timeout_s: float
) -> Iterator[ServerConnection]:
    try:
        connection = ServerConnection(
            server.host, server.port, connect_timeout_s=min(timeout_s, CONNECT_TIMEOUT_S)
        )
    except ConnectionRefusedError as error:
        raise failures.unreachable(server, _reason(error), refused=True) from None
    except OSError as error:
        raise failures.unreachable(server, _reason(error), refused=False) from None
    try:
        connection.conn.settimeout(timeout_s)
        with _translated(server, doing, serial, timeout_s):
            yield connection
    finally:
        connection.close()


@contextlib.contextmanager
def _translated(server: AdbServer, doing: str, serial: str | None, timeout_s: float) -> Iterator[None]:
    """Turn what a connection raises into devkit's errors."""
    try:
        yield
    except TimeoutError:
        raise failures.silent(server, serial=serial, doing=doing, timeout_s=timeout_s) from None
    except AdbError as error:
        raise failures.refusal(str(error), server=server, serial=serial, doing=doing) from None
    except (EOFError, OSError, ValueError) as error:
        raise failures.broke_off(server, serial=serial, doing=doing, reason=_reason(error)) from None


def _reason(error: BaseException) -> str:
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno)
    return str(error) or type(error).__name__
