"""Why an sshd did not grant a remote forward. SSH gives no reason, so other questions are asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devkit.errors import TunnelError
from devkit.tunnels.model import LOOPBACK

if TYPE_CHECKING:
    from devkit.tunnels.hops import Hop

_ANSWER_TIMEOUT_S = 10.0
_PRIVILEGED_BELOW = 1024
# RFC 4254 section 5.1
_PROHIBITED = 1
_ANY = ("", "*", "0.0.0.0", "::")


def explain(hop: Hop, bind: str, port: int) -> TunnelError:
    """The error for a refused `tcpip-forward`, with what was seen on the way.

    Asked: does something accept connections on that port there; is another port granted; is the
    other direction allowed.
    """
    asked = f"{bind}:{port}" if port else f"a free port of {bind}"
    listener, prohibited = _connects(hop, bind, port) if port else (False, _probe_prohibited(hop))
    name = hop.way.name
    if listener:
        return hop.way.error(
            "address-in-use",
            f"{asked} is in use there",
            f"something on {name} accepts connections on {asked}",
            (f"see who listens: ss -ltnp 'sport = :{port}'   (on {name})", "take another port, or 0 for any"),
        )
    if port and _grants_any(hop, bind):
        if port < _PRIVILEGED_BELOW:
            return hop.way.error(
                "forward-denied",
                f"ports below {_PRIVILEGED_BELOW} are for root there",
                f"{asked} was refused, a free port was granted",
                ("take a port from 1024 on, or 0 for any",),
            )
        return hop.way.error(
            "address-in-use",
            f"{asked} cannot be listened on there: most likely it is in use",
            f"{asked} was refused, a free port was granted",
            (f"see who listens: ss -ltnp 'sport = :{port}'   (on {name})", "take another port, or 0 for any"),
        )
    if prohibited:
        options, seen = "AllowTcpForwarding no", "connections in the other direction are refused, too"
    else:
        options = "AllowTcpForwarding local, or PermitListen for other addresses"
        seen = "connections in the other direction are allowed"
    return hop.way.error(
        "forward-denied",
        f"its sshd does not let {hop.plan.user} listen on {asked}",
        f"no port was granted; {seen}\nso it has {options}, or the key's line in authorized_keys says so",
        (
            f"see what holds (on {name}): sudo sshd -T -C user={hop.plan.user} | grep -iE 'forward|permit'",
            f"ask for: AllowTcpForwarding yes, PermitListen {bind}:{port or '*'}",
        ),
    )


def check_reachable(hop: Hop, bind: str, port: int, addresses: str) -> TunnelError | None:
    """The error when a port that was to be open to others was opened on loopback only.

    sshd grants such a request all the same unless its GatewayPorts says so (channels.c,
    channel_fwd_bind_addr). Asked is the machine itself, at an address that others use.

    Args:
        addresses: the machine's own addresses, separated by blanks; without any nothing is known.
    """
    wanted = [bind] if bind not in _ANY else [a for a in addresses.split() if _is_outer(a)]
    if not wanted or _connects(hop, wanted[0], port)[0]:
        return None
    return hop.way.error(
        "forward-denied",
        f"the port was opened on loopback only, not on {bind or 'all addresses'}",
        f"{wanted[0]}:{port} does not accept connections\nso its sshd has GatewayPorts no",
        (
            "leave out --bind: a port on loopback is enough for programs on that machine",
            f"or ask for: GatewayPorts clientspecified   (sshd_config on {hop.way.name})",
        ),
    )


def _is_outer(address: str) -> bool:
    return not address.startswith("127.") and ":" not in address and address.count(".") == 3


def _connects(hop: Hop, bind: str, port: int) -> tuple[bool, bool]:
    """Whether something listens there already, and whether asking that was forbidden."""
    import paramiko

    host = LOOPBACK if bind in (*_ANY, "localhost") else bind
    try:
        channel = hop.transport.open_channel(
            "direct-tcpip", (host, port), (LOOPBACK, 0), timeout=_ANSWER_TIMEOUT_S
        )
    except paramiko.ChannelException as error:
        return False, error.code == _PROHIBITED
    except (paramiko.SSHException, EOFError, OSError):
        return False, False
    channel.close()
    return True, False


def _probe_prohibited(hop: Hop) -> bool:
    # Port 9 (discard) is closed nearly everywhere; allowed or not is what counts.
    return _connects(hop, LOOPBACK, 9)[1]


def _grants_any(hop: Hop, bind: str) -> bool:
    request = hop.transport.ask("tcpip-forward", bind, 0)
    if not request.wait(_ANSWER_TIMEOUT_S) or not request.granted or request.reply is None:
        return False
    hop.transport.ask("cancel-tcpip-forward", bind, request.reply.get_int()).wait(_ANSWER_TIMEOUT_S)
    return True
