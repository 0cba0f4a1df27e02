"""Walks the links of a tunnel one by one, each with evidence, and measures what they carry."""

from __future__ import annotations

import contextlib
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit.device import AdbServer
from devkit.errors import SERVER, TunnelError
from devkit.tunnels.check_adb import far_adb, laptop_adb, phones
from devkit.tunnels.check_ports import extra_ports, provided_ports, running_tunnels
from devkit.tunnels.connection import Link, connect
from devkit.tunnels.direct import DirectWay, describe_way, find_direct_way
from devkit.tunnels.model import HostPlan, Prompts
from devkit.tunnels.ssh_config import resolve_chain
from devkit.tunnels.state import TunnelRecord
from devkit.tunnels.step import BROKEN, NOT_CHECKED, OK, Step, evidence_of

_ECHO_TIMEOUT_S = 10.0
_ECHOED = b"devkit tunnel check\n"
_PROBE_BYTES = 4 * 2**20
_PROBE_TIMEOUT_S = 20.0
_PINGS = 5
# Which step of a hop a failed login was in (`TunnelError.reason`).
_STEPS = ("dns", "tcp", "banner", "key", "login")
_STEP_OF = {
    "dns": "dns", "refused": "tcp", "unreachable": "tcp", "timeout": "tcp", "proxy-command": "tcp",
    "not-ssh": "banner", "protocol": "banner", "host-key-unknown": "key", "host-key-changed": "key",
    "host-key-revoked": "key", "auth": "login",
}  # fmt: skip
_TITLES = {
    "dns": "address", "tcp": "TCP", "banner": "SSH banner", "key": "host key", "login": "login",
}  # fmt: skip
# Measured: `devkit debug` on the server, adb-server mode, links of 0, 20, 100 and 200 ms there and back,
# program and lldb-server on the phone already; (time with - time without) / round trip. Until the first
# breakpoint 52.1 and 51.6; one `next` 8.4 and 8.4.
START_ROUND_TRIPS = 52
STEP_ROUND_TRIPS = 8.4


@dataclass
class Measures:
    """What the connection to the server carries; None where it could not be measured.

    Attributes:
        latency_ms: median round trip to the server, jumps included.
        up_bytes_s, down_bytes_s: from here to the server, and back.
    """

    latency_ms: float | None = None
    up_bytes_s: float | None = None
    down_bytes_s: float | None = None
    hops_ms: list[float] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it, with what it means."""
        return {**self.__dict__, "means": self.meaning()}

    def meaning(self) -> dict[str, float]:
        """Seconds that debugging and pushing take because of this connection alone."""
        meaning: dict[str, float] = {}
        if self.latency_ms is not None:
            meaning["start_s"] = START_ROUND_TRIPS * self.latency_ms / 1000
            meaning["step_s"] = STEP_ROUND_TRIPS * self.latency_ms / 1000
        # What the server pushes to the phone goes down to the laptop.
        if self.down_bytes_s:
            meaning["push_100mb_s"] = 1e8 / self.down_bytes_s
        return meaning


@dataclass
class Findings:
    """What was found besides the links. `direct`: the way without jump hosts, None: there is none."""

    direct: DirectWay | None = None


def walk(
    host: str,
    server: AdbServer,
    *,
    prompts: Prompts,
    accept_new: bool = False,
    config_file: Path | None = None,
    serial: str | None = None,
    measures: Measures | None = None,
    adb: Path | None = None,
    found: Findings | None = None,
) -> Iterator[Step]:
    """Look at each link from this machine, the laptop, to the server and to the phone.

    Nothing is left on either side, and nothing is started.

    Args:
        server: the adb server on this machine.
        measures: is filled in; None measures nothing.
        adb: the configured adb program of this machine.
        found: is filled in.

    Raises:
        TunnelError: "config": what `host` stands for cannot be read.
    """
    chain = resolve_chain(host, config_file=config_file)
    tunnels: list[TunnelRecord] = []
    try:
        link = connect(host, prompts=prompts, accept_new=accept_new, config_file=config_file)
    except TunnelError as error:
        yield from _failed_login(chain, error)
    else:
        with link:
            yield from _login(chain, link)
            yield from _forward(link)
            if measures is not None:
                yield _measure(link, measures)
            yield from far_adb(link)
            tunnels = running_tunnels(host)
            yield from provided_ports(link, tunnels)
            yield from _direct(link, found)
    yield from laptop_adb(server, adb)
    yield from phones(server, serial, extra_ports(tunnels))


def _login(chain: tuple[HostPlan, ...], link: Link) -> Iterator[Step]:
    for plan, hop in zip(chain, link.status().hops, strict=False):
        machine = _machine(chain, plan)
        found = {
            "dns": plan.hostname, "tcp": f"port {plan.port}", "banner": hop.banner, "key": hop.host_key,
            "login": f"{hop.login}, {hop.auth}, {hop.cipher}",
        }  # fmt: skip
        for name in _STEPS:
            yield Step(f"{name}:{plan.alias}", machine, f"{plan.alias}: {_TITLES[name]}", OK, found[name])


def _failed_login(chain: tuple[HostPlan, ...], error: TunnelError) -> Iterator[Step]:
    broken_hop = min(error.link or 0, len(chain) - 1)
    broken_step = _STEP_OF.get(error.reason, "login")
    for index, plan in enumerate(chain):
        for name in _STEPS:
            state, evidence = OK, ""
            hints: tuple[str, ...] = ()
            if index > broken_hop or (index == broken_hop and _STEPS.index(name) > _STEPS.index(broken_step)):
                state = NOT_CHECKED
            elif index == broken_hop and name == broken_step:
                state, hints = BROKEN, error.hints
                evidence = evidence_of(error)
            yield Step(
                f"{name}:{plan.alias}", _machine(chain, plan), f"{plan.alias}: {_TITLES[name]}", state,
                evidence, hints,
            )  # fmt: skip
    yield Step("forward", SERVER, "port forwarding", NOT_CHECKED)


def _forward(link: Link) -> Iterator[Step]:
    try:
        forward = link.remote_forward(_echo_here)
    except TunnelError as error:
        yield Step("forward", SERVER, "port forwarding", BROKEN, evidence_of(error), error.hints)
        yield Step("echo", SERVER, "a byte there and back", NOT_CHECKED)
        return
    with forward:
        yield Step(
            "forward",
            SERVER,
            "port forwarding",
            OK,
            f"port {forward.port} listened on the server's 127.0.0.1",
        )
        yield _echo(link, forward.port)


def _echo(link: Link, port: int) -> Step:
    title = "a byte there and back"
    try:
        with link.local_forward(("127.0.0.1", port)) as back:
            started = time.monotonic()
            got = b""
            # A connection that the server refuses ends as any other, or is reset.
            with (
                contextlib.suppress(ConnectionError),
                socket.create_connection(("127.0.0.1", back.port), _ECHO_TIMEOUT_S) as probe,
            ):
                probe.sendall(_ECHOED)
                while len(got) < len(_ECHOED) and (piece := probe.recv(64)):
                    got += piece
            took = (time.monotonic() - started) * 1000
            if got == _ECHOED:
                return Step("echo", SERVER, title, OK, f"this machine → server → this machine: {took:.0f} ms")
            reason = back.why()
    except (OSError, TunnelError) as error:
        reason = str(error)
    if reason and "not allowed" in reason:
        return Step("echo", SERVER, title, NOT_CHECKED, "the server forwards nothing in the other direction")
    return Step(
        "echo", SERVER, title, BROKEN, reason or "nothing came back",
        ("is a firewall between programs of the server's own 127.0.0.1?",),
    )  # fmt: skip


def _echo_here() -> socket.socket:
    near, far = socket.socketpair()

    def echo() -> None:
        with near, contextlib.suppress(OSError):
            while data := near.recv(4096):
                near.sendall(data)

    threading.Thread(target=echo, daemon=True).start()
    return far


def _measure(link: Link, measures: Measures) -> Step:
    title = "speed to the server"
    try:
        rounds = [link.ping() for _ in range(_PINGS)]
        measures.hops_ms = [statistics.median(hop) for hop in zip(*rounds, strict=True)]
        measures.latency_ms = measures.hops_ms[-1]
        started = time.monotonic()
        link.run("cat >/dev/null", stdin=bytes(_PROBE_BYTES), timeout_s=_PROBE_TIMEOUT_S)
        measures.up_bytes_s = _PROBE_BYTES / (time.monotonic() - started)
        started = time.monotonic()
        got = link.run(f"head -c {_PROBE_BYTES} /dev/zero", timeout_s=_PROBE_TIMEOUT_S)
        measures.down_bytes_s = len(got.stdout) / (time.monotonic() - started)
    except TunnelError as error:
        if measures.latency_ms is None:
            return Step("speed", SERVER, title, NOT_CHECKED, error.what)
    return Step("speed", SERVER, title, OK, describe(measures))


def describe(measures: Measures) -> str:
    """One line of numbers, one of what they mean."""
    from devkit.output import human_bytes

    text = f"{measures.latency_ms:.0f} ms there and back"
    if measures.up_bytes_s and measures.down_bytes_s:
        text += f", {human_bytes(measures.up_bytes_s)}/s up, {human_bytes(measures.down_bytes_s)}/s down"
    means = measures.meaning()
    start, step = means["start_s"], means["step_s"]
    text += f"\nof each start of a debug session about {start:.1f} s, of each step {step:.1f} s"
    if "push_100mb_s" in means:
        text += f"; pushing 100 MB takes {means['push_100mb_s']:.0f} s"
    return text


def _direct(link: Link, found: Findings | None) -> Iterator[Step]:
    title = "direct link"
    try:
        way = find_direct_way(link)
    except TunnelError as error:
        yield Step("direct", SERVER, title, NOT_CHECKED, error.what)
        return
    if found is not None:
        found.direct = way
    if way is not None:
        yield Step("direct", SERVER, title, OK if way.works else NOT_CHECKED, describe_way(way))


def _machine(chain: tuple[HostPlan, ...], plan: HostPlan) -> str:
    return SERVER if plan is chain[-1] else plan.alias
