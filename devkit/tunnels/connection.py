"""An SSH connection through any number of hops, with its forwards, until it is closed or breaks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import TunnelError
from devkit.tunnels import keepalive, ssh_config
from devkit.tunnels.commands import RemoteResult, collect
from devkit.tunnels.forwards import CLOSE_TIMEOUT_S, Forward, LocalForward, RemoteForward
from devkit.tunnels.joint import Joint
from devkit.tunnels.model import LOOPBACK, Address, LinkStatus, NoPrompts, Prompts, Screen, Target
from devkit.tunnels.near_hops import NearHops
from devkit.tunnels.patience import Patience
from devkit.tunnels.pump import Pump
from devkit.tunnels.way import Way

if TYPE_CHECKING:
    from paramiko.channel import Channel

    from devkit.tunnels.hops import Hop
    from devkit.tunnels.transport import Request

HERE_NAME = "this machine"
_ANSWER_TIMEOUT_S = 30.0
_LOOPBACKS = (LOOPBACK, "localhost", "::1")
# How long the end of a hop waits to see whether it was only the one before it that ended.
_BEFORE_ENDED_S = 0.3


def connect(
    host: str,
    *,
    prompts: Prompts | None = None,
    accept_new: bool = False,
    config_file: Path | None = None,
    openssh: bool = True,
    keepalive_s: float | None = None,
    keepalive_count: int | None = None,
    patience: Patience | None = None,
    near: NearHops | None = None,
    progress: Callable[[str], None] | None = None,
) -> Link:
    """Log in to `host` as `ssh host` would, hop by hop.

    Args:
        host: an alias of the ssh configuration, or [user@]host[:port].
        prompts: who is asked for passphrases, passwords and unknown host keys; default: nobody.
        accept_new: unknown host keys are stored without asking; changed ones are refused all the same.
        config_file: read instead of the user's and the system's configuration (as `ssh -F`).
        openssh: False: the configuration is read without asking an OpenSSH client.
        keepalive_s, keepalive_count: a hop that says nothing for their product after a ping is dead;
            default: ServerAliveInterval and ServerAliveCountMax of the last hop, else 5 s and 3.
        patience: decides how long to wait for each hop instead of ConnectTimeout, and learns what it needs.
        near: logins of an earlier connection, used again; gets those that outlive this one.
        progress: told each step ("jump: logging in as dev").

    Raises:
        TunnelError: a link could not be made; says which one and why.
    """
    plans = ssh_config.resolve_chain(host, config_file=config_file, openssh=openssh)
    _silence_paramiko()
    from devkit.tunnels.hops import open_hop

    route = (HERE_NAME, *(plan.alias for plan in plans))
    hops: list[Hop] = near.take(plans) if near is not None else []
    try:
        for index, plan in enumerate(plans[len(hops) :], len(hops)):
            hops.append(
                open_hop(
                    plan,
                    Way(route, index),
                    hops[-1] if hops else None,
                    prompts or NoPrompts(),
                    accept_new=accept_new,
                    progress=progress or (lambda _step: None),
                    patience=patience,
                )
            )
    except BaseException as error:
        (near or NearHops()).keep(hops, error if isinstance(error, TunnelError) else None)
        raise
    interval_s = keepalive_s or plans[-1].keepalive_s or keepalive.INTERVAL_S
    if near is not None:
        near.carried()
    return Link(hops, interval_s, keepalive_count or plans[-1].keepalive_count, near)


class Link:
    """A login on a far machine. Use as a context manager; made by `connect`."""

    def __init__(
        self, hops: Sequence[Hop], keepalive_s: float, keepalive_count: int, near: NearHops | None = None
    ) -> None:
        self._hops = tuple(hops)
        self._near = near
        self._last = self._hops[-1]
        self._transport = self._last.transport
        self.route = self._last.way.route
        self._up_since = time.time()
        self._lock = threading.Lock()
        self._ended = threading.Event()
        self._closed = False
        self._failure: TunnelError | None = None
        self._forwards: list[Forward] = []
        self._pump = Pump(self._last.way.name, self._crashed)
        self._keepalive = keepalive.Keepalive(
            self._hops, self._pump, keepalive_s, keepalive_count, self._silent
        )
        self._pump.start()
        self._transport.on_forwarded = self._forwarded
        for index, hop in enumerate(self._hops):
            hop.transport.on_end = lambda index=index: self._hop_ended(index)
        self._keepalive.start()
        for index, hop in enumerate(self._hops):
            if not hop.transport.is_active():  # it ended before it could tell
                self._hop_ended(index)

    def remote_forward(
        self, target: Target, *, bind: str = LOOPBACK, port: int = 0, screen: Screen | None = None
    ) -> Forward:
        """Listen on the far machine (`ssh -R`); its connections are joined to `target` here.

        Args:
            bind: the address on the far machine; other than loopback needs its GatewayPorts.
            port: 0: the far machine chooses; see `Forward.port`.
            screen: judges each connection by what it sends first.

        Raises:
            TunnelError: "forward-denied" (says which sshd option can do that), "address-in-use", "lost".
        """
        self._usable()
        _warn_if_open(bind, self._last.way.name)
        made: list[RemoteForward] = []

        def answered(request: Request) -> None:
            # In the transport's thread: a connection may be the very next message.
            if request.granted and request.reply is not None:
                got = request.reply.get_int() if port == 0 else port
                forward = RemoteForward(self._pump, self._transport, target, bind, got, screen, self._cancel)
                forward.open = bind in _LOOPBACKS
                made.append(forward)
                with self._lock:
                    self._forwards.append(forward)

        request = self._transport.ask("tcpip-forward", bind, port, then=answered)
        if not request.wait(_ANSWER_TIMEOUT_S):
            raise self._error("timeout", f"no answer to the request to listen on {bind}:{port}")
        self._usable()
        if not made:
            from devkit.tunnels.refusals import explain

            raise explain(self._last, bind, port)
        if not made[0].open:
            self._check_reachable(made[0])
        return made[0]

    def local_forward(
        self, target: Address, *, bind: str = LOOPBACK, port: int = 0, screen: Screen | None = None
    ) -> Forward:
        """Listen here (`ssh -L`); connections are joined to `target` as seen from the far machine.

        Args:
            screen: judges each connection by what it sends first.

        Raises:
            TunnelError: "address-in-use", "lost".
        """
        self._usable()
        _warn_if_open(bind, HERE_NAME)
        forward = LocalForward(self._pump, self._transport, target, bind, port, screen)
        with self._lock:
            ended = self._ended.is_set()
            self._forwards.append(forward)
        if ended:  # just now: nobody else closes this listener
            forward.close()
            self._usable()
        return forward

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> RemoteResult:
        """Run shell text on the far machine, with its login shell, and collect what it says.

        Raises:
            TunnelError: "lost", "timeout", or the server allows no commands ("protocol").
        """
        import paramiko

        self._usable()
        try:
            channel = self._transport.open_session(timeout=timeout_s)
            try:
                channel.settimeout(timeout_s)
                channel.exec_command(command)
                return collect(channel, stdin, time.monotonic() + timeout_s)
            finally:
                channel.close()
        except TimeoutError:
            raise self._error("timeout", f"a command did not end in {timeout_s:g} s", command) from None
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._usable()
            raise self._error("protocol", f"it runs no commands for us: {error}", command) from None

    def open_command(self, command: str, *, timeout_s: float = 15.0) -> Channel:
        """Start shell text on the far machine and talk to it; closing the channel ends its input.

        Raises:
            TunnelError: "lost", "timeout", or the server allows no commands ("protocol").
        """
        import paramiko

        self._usable()
        try:
            channel = self._transport.open_session(timeout=timeout_s)
            channel.settimeout(timeout_s)
            channel.exec_command(command)
        except (paramiko.SSHException, EOFError, OSError) as error:
            self._usable()
            raise self._error("protocol", f"it runs no commands for us: {error}", command[:200]) from None
        return channel

    @property
    def alive(self) -> bool:
        """Whether the connection works, as far as is known."""
        return not self._ended.is_set()

    @property
    def failure(self) -> TunnelError | None:
        """Why the connection ended by itself; None while it works and after `close`."""
        return self._failure

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the connection; True when it has ended, False after `timeout_s`."""
        return self._ended.wait(timeout_s)

    def status(self) -> LinkStatus:
        """Everything that can be said about the connection now."""
        with self._lock:
            forwards = list(self._forwards)
        return LinkStatus(
            route=self.route,
            alive=self.alive,
            up_since=self._up_since,
            hops=tuple(hop.status() for hop in self._hops),
            forwards=tuple(forward.status() for forward in forwards),
            failure=self._failure.what if self._failure else None,
        )

    def ping(self, timeout_s: float = 10.0) -> Sequence[float]:
        """Round trips to each hop now, in milliseconds.

        Raises:
            TunnelError: "timeout" or "lost"; `link` names the first hop that did not answer.
        """
        self._usable()
        deadline = time.monotonic() + timeout_s
        round_trips = []
        for hop in self._hops:
            request = hop.transport.ask(keepalive.PING)
            if not request.wait(max(0.0, deadline - time.monotonic())) or request.latency_s is None:
                self._usable()
                raise hop.way.error("timeout", f"no answer within {timeout_s:g} s")
            hop.latency_s = request.latency_s
            round_trips.append(request.latency_s * 1000)
        return round_trips

    def close(self) -> None:
        """End all forwards and the connection; returns when their threads are gone (at most 5 s)."""
        deadline = time.monotonic() + CLOSE_TIMEOUT_S
        with self._lock:
            self._closed = True
        self._end()
        # Without a failure it was ended on purpose: nothing outlives that.
        (self._near or NearHops()).keep(self._hops, self._failure)
        for thread in (self._keepalive, self._pump):
            if thread is not threading.current_thread():
                thread.join(max(0.1, deadline - time.monotonic()))

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _forwarded(self, channel: Channel, origin: Address, listener: Address) -> Joint | None:
        with self._lock:
            forwards = [f for f in self._forwards if isinstance(f, RemoteForward) and f.port == listener[1]]
        # The server names the address as it was asked for; some write it their own way.
        exact = [forward for forward in forwards if forward.bind == listener[0]]
        return (exact or forwards)[0].take(channel) if forwards else None

    def _cancel(self, forward: RemoteForward) -> None:
        """Have the far machine stop listening."""
        with self._lock:
            self._forwards.remove(forward)
        if self.alive:
            self._transport.ask("cancel-tcpip-forward", forward.bind, forward.port).wait(_ANSWER_TIMEOUT_S)

    def _check_reachable(self, forward: RemoteForward) -> None:
        """Let a forward begin that was asked for on another address than loopback, if it got that."""
        from devkit.tunnels.refusals import check_reachable

        try:
            said = self.run('set -- $SSH_CONNECTION; echo "$3" $(hostname -I)', timeout_s=_ANSWER_TIMEOUT_S)
            addresses = said.stdout.decode("utf-8", "replace")
        except TunnelError:  # an account that may run nothing
            addresses = ""
        problem = check_reachable(self._last, forward.bind, forward.port, addresses)
        if problem is not None:
            forward.close()
            raise problem
        forward.open = True

    def _usable(self) -> None:
        if self._failure is not None:
            raise self._failure
        if self._ended.is_set():
            raise self._error("closed", "the connection was closed")

    def _error(self, reason: str, what: str, evidence: str = "") -> TunnelError:
        return self._last.way.error(reason, what, evidence)

    # How it ends by itself: told by a transport's thread, the keepalive's, or the pump's.

    def _hop_ended(self, index: int) -> None:
        if index:
            before = self._hops[index - 1].transport
            before.join(_BEFORE_ENDED_S)
            if not before.is_alive():
                return
        hop = self._hops[index]
        error = hop.transport.get_exception()
        said = hop.transport.disconnect_text
        if said:
            why = f"the server hung up: {said}"
        elif isinstance(error, OSError) and error.strerror:
            why = f"the connection broke: {error.strerror}"
        elif error is None or isinstance(error, EOFError):
            why = "the other side ended the connection"
        else:
            why = f"the connection broke: {error}"
        self._fail(hop.way.error("lost", why))

    def _silent(self, index: int, seconds: float) -> None:
        self._fail(self._hops[index].way.error("lost", f"nothing came for {seconds:.0f} s, not even answers"))

    def _crashed(self, error: Exception) -> None:
        import traceback

        shown = "".join(traceback.format_exception(error))
        self._fail(self._error("protocol", "the tunnel failed by itself", shown))

    def _fail(self, error: TunnelError) -> None:
        with self._lock:
            if self._closed or self._failure is not None:
                return
            self._failure = error
        self._end()

    def _end(self) -> None:
        """Close what is open, without waiting. Any thread may call it, also twice."""
        with self._lock:
            forwards = list(self._forwards)
        self._keepalive.stop()
        for forward in forwards:
            self._pump.call(forward.end)
        self._pump.stop()
        # A pump that is stuck in a write goes on when the transport is closed.
        first = (self._failure.link or 0) if self._near is not None and self._failure is not None else 0
        for hop in reversed(self._hops[first:]):
            hop.transport.close()
        self._ended.set()


def _warn_if_open(bind: str, machine: str) -> None:
    if bind in _LOOPBACKS:
        return
    from devkit import output

    output.current().warn(
        f"a port on {bind or 'all addresses'} of {machine} is open to everyone who reaches that machine; "
        "an open adb port is a shell on the phone"
    )


def _silence_paramiko() -> None:
    """paramiko logs failures, with tracebacks; without any handler Python prints them on stderr."""
    import logging

    logger = logging.getLogger("paramiko")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())
