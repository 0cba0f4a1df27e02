"""One machine of the chain: the stream to it, its host key, the login, and the session that is kept open."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any

from devkit.errors import TunnelError
from devkit.tunnels import host_keys, known_hosts, wires
from devkit.tunnels.auth import Login, LoginFailed
from devkit.tunnels.joint import FIRST_WINDOW_BYTES
from devkit.tunnels.model import HopStatus, HostPlan, Prompts
from devkit.tunnels.patience import Patience, Waits
from devkit.tunnels.transport import Transport
from devkit.tunnels.way import Way

CONNECT_TIMEOUT_S = 15.0
# Keys are agreed on within a few round trips; a loaded server may need a while for its part.
HANDSHAKE_TIMEOUT_S = 30.0
_SESSION_TIMEOUT_S = 20.0
_JOIN_TIMEOUT_S = 3.0
_LOOK_S = 0.02
# Reads until this end goes away: it leaves nothing behind, and works in sh, csh and fish.
_KEEP_OPEN = "exec cat > /dev/null"

Progress = Callable[[str], None]


class Hop:
    """A machine we are logged in on. `problem` says why no session could be kept open there."""

    def __init__(
        self, plan: HostPlan, way: Way, wire: wires.OpenWire, transport: Transport, auth: str
    ) -> None:
        self.plan = plan
        self.way = way
        self.transport = transport
        self.latency_s: float | None = None
        self.problem: str | None = None
        self._wire = wire
        self._auth = auth
        self._session: Any = None
        key = transport.get_remote_server_key()
        self._host_key = f"{key.get_name()} {known_hosts.fingerprint(key.asbytes())}"

    def keep_session(self) -> None:
        """Open an exec channel and leave it open.

        Without a session sshd leaves Nagle's algorithm on, and small answers through a forward
        stall for 40 ms. An account that may run nothing (a jump host's) works all the same.
        """
        import paramiko

        try:
            self._session = self.transport.open_session(timeout=_SESSION_TIMEOUT_S)
            self._session.exec_command(_KEEP_OPEN)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self.problem = f"{self.way.name} allows no session ({error}): small answers may be slow"

    def status(self) -> HopStatus:
        """As it is now."""
        transport: Any = self.transport
        return HopStatus(
            name=self.plan.alias,
            login=self.plan.login,
            latency_ms=None if self.latency_s is None else round(self.latency_s * 1000, 3),
            cipher=str(transport.remote_cipher),
            auth=self._auth,
            host_key=self._host_key,
            banner=str(transport.remote_version),
        )

    def close(self) -> None:
        """End the connection and wait for its thread."""
        end(self.transport, self._wire)


def end(transport: Transport | None, wire: wires.OpenWire) -> None:
    """Close a transport with what is under it, and wait for its thread."""
    if transport is not None:
        transport.close()
    wire.close()
    if transport is not None and transport is not threading.current_thread() and transport.ident is not None:
        transport.join(_JOIN_TIMEOUT_S)


def open_hop(
    plan: HostPlan,
    way: Way,
    before: Hop | None,
    prompts: Prompts,
    *,
    accept_new: bool,
    progress: Progress,
    patience: Patience | None = None,
) -> Hop:
    """Connect to one machine and log in.

    Args:
        patience: decides how long to wait, and learns; None: as the ssh configuration says.

    Raises:
        TunnelError: with this link named; nothing is left open then.
    """
    if patience is not None:
        waits = patience.waits(plan.alias)
    else:
        timeout_s = plan.connect_timeout_s or CONNECT_TIMEOUT_S
        waits = Waits(timeout_s, timeout_s)
    progress(f"{way.name}: connecting to {plan.hostname}:{plan.port}")
    wire = _wire(plan, way, before, waits)
    transport: Transport | None = None
    try:
        known = host_keys.known_keys(plan, way)
        transport = Transport(wire.sock, window=FIRST_WINDOW_BYTES)
        host_keys.prefer(transport, known.key_types)
        _handshake(transport, way, wire, waits, patience)
        host_keys.check(transport, plan, way, known, prompts, accept_new)
        progress(f"{way.name}: logging in as {plan.user}")
        auth = _log_in(transport, plan, way, prompts, patience)
        hop = Hop(plan, way, wire, transport, auth)
        if patience is None:
            hop.keep_session()
        else:
            # Two round trips that what comes next need not wait for.
            threading.Thread(target=hop.keep_session, name="devkit session", daemon=True).start()
        if not transport.is_active():
            said = transport.disconnect_text or "no reason was given"
            raise way.error("closed", "the connection ended right after the login", said)
        return hop
    except BaseException:
        end(transport, wire)
        raise


def _wire(plan: HostPlan, way: Way, before: Hop | None, waits: Waits) -> wires.OpenWire:
    try:
        if before is not None:
            return wires.through_jump(before.transport, plan, waits)
        if plan.proxy_command is not None:
            return wires.over_program(plan)
        return wires.over_tcp(plan, waits)
    except wires.WireFailed as failure:
        hints = {
            "dns": (f"check HostName of {plan.alias} in the ssh configuration, and the network (VPN?)",),
            "refused": (f"check the port ({plan.port}), and that sshd runs on {plan.hostname}",),
            "timeout": (f"check that {plan.hostname} is up, and the network (VPN? firewall?)",),
        }.get(failure.reason, ())
        raise way.error(failure.reason, failure.what, failure.evidence, hints) from None


def _handshake(
    transport: Transport, way: Way, wire: wires.OpenWire, waits: Waits, patience: Patience | None
) -> None:
    agreed = threading.Event()
    transport.banner_timeout = waits.silence_s
    transport.handshake_timeout = HANDSHAKE_TIMEOUT_S
    began = last = time.monotonic()
    longest_s = 0.0
    transport.start_client(agreed)
    while not agreed.wait(_LOOK_S) and transport.is_active():
        heard = max(began, transport.wire.last_received)
        longest_s, last = max(longest_s, heard - last), heard
        now = time.monotonic()
        if now > began + waits.silence_s + HANDSHAKE_TIMEOUT_S:
            break
        if patience is not None and now - heard > waits.silence_s:
            break
    if transport.is_active() and transport.initial_kex_done:
        if patience is not None:
            patience.spoke(way.name, max(longest_s, transport.wire.last_received - last))
        return
    if patience is not None and time.monotonic() - last > waits.silence_s - _LOOK_S:
        patience.was_silent(way.name)
    error = transport.get_exception()
    said = transport.wire.first_bytes
    text = said.decode("utf-8", "backslashreplace").strip()
    if wire.program is not None and not said:
        raise _program_failed(way, wire)
    if not said and transport.wire.ended:
        raise way.error(
            "closed",
            "the server took the connection and closed it without a word",
            "",
            ("see its sshd log: it may refuse this address, or have too many logins under way",),
        )
    if not said:
        raise way.error("timeout", f"something listens there but said nothing for {waits.silence_s:g} s")
    if not said.startswith(b"SSH-") and b"\nSSH-" not in said:
        raise way.error("not-ssh", "what listens there is no SSH server", f"it said: {text[:200]}")
    if transport.is_active():
        raise way.error(
            "timeout", "the server fell silent while keys were agreed on", f"it said: {text[:200]}"
        )
    if isinstance(error, EOFError) or error is None:
        raise way.error("closed", "the server hung up while keys were agreed on", f"it said: {text[:200]}")
    raise way.error(
        "protocol", f"no common way to encrypt was found: {error}", f"the server is {text.split()[0]}"
    )


def _program_failed(way: Way, wire: wires.OpenWire) -> TunnelError:
    assert wire.program is not None
    program = wire.program
    with contextlib.suppress(Exception):
        program.wait(1)
    code = program.poll()
    said = b""
    if program.stderr is not None and code is not None:
        with contextlib.suppress(OSError, ValueError):
            os.set_blocking(program.stderr.fileno(), False)
            said = program.stderr.read() or b""
    state = "said nothing" if code is None else f"ended with {code}"
    return way.error(
        "proxy-command",
        f"the ProxyCommand {state}",
        said.decode("utf-8", "replace"),
        ("run it by hand: it has to show a line that starts with SSH-2.0",),
    )


def _log_in(
    transport: Transport, plan: HostPlan, way: Way, prompts: Prompts, patience: Patience | None
) -> str:
    last = patience.logged_in.get(plan.alias) if patience is not None else None
    try:
        return Login(transport, plan, prompts).run(last)
    except LoginFailed as failure:
        lines = [*failure.tried]
        if failure.offered:
            lines.append(f"the server takes: {', '.join(failure.offered)}")
        if failure.ended:
            lines.append(f"the server hung up: {failure.ended}")
        if failure.too_many:
            raise way.error(
                "auth",
                f"too many keys were offered for {plan.login}, and the server hung up",
                "\n".join(lines),
                (
                    f"name the right key in the ssh configuration of {plan.alias}: "
                    "IdentityFile PATH and IdentitiesOnly yes",
                ),
            ) from None
        hints = [f"try it with OpenSSH: ssh -v {plan.alias} true"]
        if "publickey" in failure.offered:
            hints.append(f"put a public key of yours into ~{plan.user}/.ssh/authorized_keys on {way.name}")
        raise way.error(
            "auth", f"the login as {plan.user} was refused", "\n".join(lines), tuple(hints)
        ) from None
