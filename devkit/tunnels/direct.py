"""The way without jump hosts: whether the server reaches this machine by itself, over a VPN or one network.

What is found is proposed (`devkit tunnel up … --from server`, on the server); nothing is switched.
"""

from __future__ import annotations

import contextlib
import getpass
import ipaddress
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from devkit.errors import TunnelError
from devkit.tunnels.connection import Link
from devkit.tunnels.vpn import TAILSCALE, InterfaceAddress, local_addresses, parse_any, tailscale_peers

SSH_PORT = 22
_PROBE_TIMEOUT_S = 4.0
_ASK_TIMEOUT_S = 10.0
_MAX_PROBES = 3
# What the server's sshd says of this connection, then its addresses in the first shape that it can print.
# In sh, whatever the login shell is.
_ASK = (
    'exec sh -c \'PATH=$PATH:/sbin:/usr/sbin; echo "$SSH_CONNECTION";'
    " ip -j addr 2>/dev/null || ip -o addr 2>/dev/null || ifconfig 2>/dev/null'"
)


@dataclass(frozen=True)
class DirectWay:
    """A network that this machine and the server have in common.

    Attributes:
        here, there: the addresses of this machine and of the server in it.
        works: the server reached this machine's sshd there: the host keys are one.
        problem: why it does not.
        command: what to run on the server.
        peer: what Tailscale calls the server, None: it says nothing of it.
    """

    here: InterfaceAddress
    there: InterfaceAddress
    works: bool
    problem: str
    command: str
    peer: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**self.__dict__, "here": self.here.as_dict(), "there": self.there.as_dict()}


def find_direct_way(link: Link, here: Sequence[InterfaceAddress] | None = None) -> DirectWay | None:
    """The best direct way from the machine at the end of a connection to this one; None: no shared network.

    On the server nothing but this machine's SSH port is dialled. A way that the connection takes already
    is none.

    Raises:
        TunnelError: the connection broke.
    """
    mine = local_addresses() if here is None else tuple(here)
    if not mine:
        return None
    connection, theirs = ask_server(link)
    best = None
    for own, other in candidates(mine, theirs, connection)[:_MAX_PROBES]:
        problem = _probe(link, own)
        way = DirectWay(own, other, not problem, problem, server_command(own.address), _peer(other))
        if way.works:
            return way
        # A VPN that is there tells more than a network that only looks alike.
        if best is None and own.is_vpn:
            best = way
    return best


def ask_server(link: Link) -> tuple[tuple[str, ...], tuple[InterfaceAddress, ...]]:
    """The two addresses of the last hop's connection as the server sees it, and the server's addresses.

    Raises:
        TunnelError: the connection broke, or the account may run nothing.
    """
    said = link.run(_ASK, timeout_s=_ASK_TIMEOUT_S).stdout.decode("utf-8", "replace")
    first, _, rest = said.partition("\n")
    words = first.split()
    return (words[0], words[2]) if len(words) == 4 else (), parse_any(rest)


def candidates(
    mine: Sequence[InterfaceAddress], theirs: Sequence[InterfaceAddress], connection: Sequence[str] = ()
) -> list[tuple[InterfaceAddress, InterfaceAddress]]:
    """Pairs (here, there) of one network by their numbers; VPNs first, IPv4 first.

    Args:
        connection: addresses of the connection there is: what is reached with them is not proposed.
    """
    pairs = [
        (own, other)
        for own in mine
        for other in theirs
        if own.shares_network(other) and own.address not in connection
    ]
    seen: set[str] = set()
    found = []
    for own, other in sorted(pairs, key=lambda pair: (not pair[0].is_vpn, _version(pair[0].address))):
        if own.address not in seen:
            seen.add(own.address)
            found.append((own, other))
    return found


def server_command(address: str) -> str:
    """What to type on the server."""
    host = f"[{address}]" if ":" in address else address
    return f"devkit tunnel up {getpass.getuser()}@{host} --from server"


def describe_way(way: DirectWay) -> str:
    """What is known of it, and what to type."""
    called = f" ({way.peer})" if way.peer else ""
    head = f"{way.here.kind}: this machine is {way.here.address}, the server {way.there.address}{called}"
    if way.works:
        return f"{head}; it reaches this machine by itself\nthe faster link, on the server: {way.command}"
    return f"{head}, but {way.problem}\nwhen it does, on the server: {way.command}"


def _peer(there: InterfaceAddress) -> str | None:
    if there.kind != TAILSCALE:
        return None
    return next((name for name, addresses in tailscale_peers() if there.address in addresses), None)


def _version(address: str) -> int:
    return ipaddress.ip_address(address).version


def _probe(link: Link, own: InterfaceAddress) -> str:
    """Why the server does not reach this machine's sshd at that address; empty when it does."""
    expected = _host_key(own.address)
    if expected is None:
        return (
            f"no SSH server listens at port {SSH_PORT} of this machine"
            " (sudo systemctl enable --now ssh; macOS: Remote Login; Windows: OpenSSH Server)"
        )
    try:
        with link.local_forward((own.address, SSH_PORT)) as forward:
            key = _host_key("127.0.0.1", forward.port)
            refused = None if key else forward.why()
    except (OSError, TunnelError) as error:
        if not link.alive:
            raise
        return f"the server was not asked: {error}"
    if key is None:
        if refused and "not allowed" in refused:
            return "its sshd opens no connections for us (AllowTcpForwarding), so that is not known"
        return f"it does not reach {own.address}:{SSH_PORT}: {refused or 'no answer'}"
    if key != expected:
        return f"another machine answers it at {own.address}: it is in another network of the same numbers"
    return ""


def _host_key(host: str, port: int = SSH_PORT) -> bytes | None:
    """The host key of the SSH server there, None when there is none. Nobody logs in."""
    import paramiko

    with contextlib.ExitStack() as stack:
        try:
            stream = stack.enter_context(socket.create_connection((host, port), _PROBE_TIMEOUT_S))
            transport = paramiko.Transport(stream)
            stack.callback(transport.close)
            transport.banner_timeout = transport.handshake_timeout = _PROBE_TIMEOUT_S
            transport.start_client(timeout=_PROBE_TIMEOUT_S)
            return transport.get_remote_server_key().asbytes()
        except (paramiko.SSHException, OSError, EOFError):
            return None
