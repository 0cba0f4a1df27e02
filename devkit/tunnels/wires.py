"""The byte stream under an SSH connection: TCP, the user's ProxyCommand, or a channel of the hop before."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import subprocess
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from devkit import process
from devkit.errors import ToolMissing
from devkit.tunnels import redial
from devkit.tunnels.model import HostPlan
from devkit.tunnels.patience import Waits

if TYPE_CHECKING:
    from devkit.tunnels.transport import Transport

# What a jump host may send ahead: fixed, because paramiko's own channels do not grow theirs.
JUMP_WINDOW_BYTES = 2**25
_COPY_BYTES = 65536
# gai_strerror of glibc, BSD and Windows
_NO_NAME = ("name or service", "resolution", "no address", "nodename", "host is known", "unknown host")


class WireFailed(Exception):
    """No byte stream to the machine; `reason` as in TunnelError."""

    def __init__(self, reason: str, what: str, evidence: str = "") -> None:
        super().__init__(what)
        self.reason = reason
        self.what = what
        self.evidence = evidence


@dataclass
class OpenWire:
    """An open stream and, for a ProxyCommand, the program behind it."""

    sock: Any
    program: subprocess.Popen[bytes] | None = None

    def close(self) -> None:
        """End both."""
        with contextlib.suppress(Exception):
            self.sock.close()
        if self.program is not None:
            process.end_group(self.program, grace_s=0.5)


def over_tcp(plan: HostPlan, waits: Waits) -> OpenWire:
    """Connect from this machine, trying each address of the name in turn.

    Raises:
        WireFailed: "dns", "refused", "unreachable" or "timeout".
    """
    where = f"{plan.hostname}:{plan.port}"
    try:
        found = socket.getaddrinfo(plan.hostname, plan.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError) as error:
        text = getattr(error, "strerror", None) or str(error)
        raise WireFailed("dns", f"the name {plan.hostname} has no address", text) from None
    failures: list[tuple[str, OSError]] = []
    for family, kind, protocol, _, address in found:
        try:
            sock = redial.connect(address, waits, family=family, kind=kind, protocol=protocol)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return OpenWire(sock)
        except OSError as error:
            failures.append((str(address[0]), error))
    evidence = "\n".join(f"{address}: {error.strerror or error}" for address, error in failures)
    raise WireFailed(*_tcp_failure(failures[-1][1], where, waits.connect_s), evidence)


def over_program(plan: HostPlan) -> OpenWire:
    """Start the ProxyCommand as OpenSSH does: the shell's exec, stdin and stdout are the stream.

    Raises:
        WireFailed: "proxy-command": it cannot be started.
    """
    command = plan.proxy_command or ""
    if os.name == "nt":
        return _over_pipes(["cmd.exe", "/c", command])
    ours, theirs = socket.socketpair()
    try:
        program = process.start(
            ["/bin/sh", "-c", f"exec {command}"],
            stdin=theirs.fileno(),
            stdout=theirs.fileno(),
            die_with_parent=True,
        )
    except ToolMissing as error:
        ours.close()
        raise WireFailed("proxy-command", error.what, error.evidence or "") from None
    finally:
        theirs.close()
    return OpenWire(ours, program)


def through_jump(transport: Transport, plan: HostPlan, waits: Waits) -> OpenWire:
    """A channel from the hop before to this machine.

    Raises:
        WireFailed: what the jump host said: "forward-denied", "dns", "refused", "unreachable", "timeout".
    """
    import paramiko

    where = f"{plan.hostname}:{plan.port}"
    try:
        channel = redial.open_channel(
            lambda timeout_s: transport.open_channel(
                "direct-tcpip",
                (plan.hostname, plan.port),
                ("127.0.0.1", 0),
                window_size=JUMP_WINDOW_BYTES,
                timeout=timeout_s,
            ),
            waits,
        )
    except paramiko.ChannelException as error:
        text = transport.refusal_text or str(error)
        if error.code == 1:
            raise WireFailed(
                "forward-denied",
                f"the jump host does not allow connections to {where}",
                f"{text}\n(its sshd has AllowTcpForwarding no or remote, or PermitOpen for others only)",
            ) from None
        raise WireFailed(*_refusal(text, where), text) from None
    except (paramiko.SSHException, EOFError, OSError) as error:
        if not transport.is_active():
            raise WireFailed("lost", "the connection to the jump host broke", str(error)) from None
        raise WireFailed(
            "timeout", f"the jump host could not connect to {where} in {waits.connect_s:g} s", str(error)
        ) from None
    return OpenWire(channel)


def _tcp_failure(error: OSError, where: str, timeout_s: float) -> tuple[str, str]:
    if isinstance(error, TimeoutError) or error.errno == errno.ETIMEDOUT:
        return "timeout", f"{where} did not answer in {timeout_s:g} s"
    if isinstance(error, ConnectionRefusedError):
        return "refused", f"nothing listens on {where}"
    if error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH):
        return "unreachable", f"there is no way to {where}"
    return "unreachable", f"{where} cannot be reached"


def _refusal(text: str, where: str) -> tuple[str, str]:
    """sshd passes the system's own words on (channels.c: connect_next, channel_connect_to_port)."""
    lower = text.lower()
    if "refused" in lower:
        return "refused", f"nothing listens on {where}"
    if "timed out" in lower:
        return "timeout", f"{where} did not answer the jump host"
    if any(
        word in lower for word in ("name or service", "resolution", "no address", "nodename", "unknown host")
    ):
        return "dns", f"the jump host knows no address of {where.rpartition(':')[0]}"
    if "no route" in lower or "unreachable" in lower:
        return "unreachable", f"the jump host has no way to {where}"
    return "unreachable", f"the jump host cannot connect to {where}"


def _over_pipes(argv: list[str]) -> OpenWire:
    """Windows cannot give a program a socket as stdin: two threads copy."""
    try:
        program = process.start(argv, stdin=subprocess.PIPE)
    except ToolMissing as error:
        raise WireFailed("proxy-command", error.what, error.evidence or "") from None
    ours, theirs = socket.socketpair()
    assert program.stdin is not None and program.stdout is not None
    source, sink = program.stdout, program.stdin

    def from_program() -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := source.read1(_COPY_BYTES):  # type: ignore[attr-defined]
                theirs.sendall(data)
        with contextlib.suppress(OSError):
            theirs.shutdown(socket.SHUT_WR)

    def to_program() -> None:
        with contextlib.suppress(OSError, ValueError):
            while data := theirs.recv(_COPY_BYTES):
                sink.write(data)
                sink.flush()
        with contextlib.suppress(OSError):
            sink.close()
        theirs.close()

    for work in (from_program, to_program):
        threading.Thread(target=work, name="devkit proxy command", daemon=True).start()
    return OpenWire(ours, program)
