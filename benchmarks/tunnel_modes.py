"""Which mode of a tunnel is faster: what a debug session on the server does, over links of a home.

Three hosts in network namespaces; the laptop's link is as slow and as long as named. Both modes are up at
the same time, and used in turn: the server's adb pushes and pulls (what does not compress), and `devkit
debug` starts a session and steps. "ours" is the default mode, the peer the other one.
"""

from __future__ import annotations

import contextlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Measure
from tests.e2e.support import WHEEL_ADB
from tests.e2e.tunnel_world import devkit
from tests.support.hosts import Hosts
from tests.support.stepping import build_program, debug_session

ROUNDS, QUICK_ROUNDS = 3, 1
SIZE = 20_000_000
STEPS = 30
# name: bits a second, seconds there and back
LINKS = {
    "20 Mbit/s, 20 ms": (20e6, 0.02),
    "20 Mbit/s, 100 ms": (20e6, 0.1),
    "200 Mbit/s, 20 ms": (200e6, 0.02),
    "200 Mbit/s, 100 ms": (200e6, 0.1),
}
# The default is to be the faster one; so much slower is a tie, by what the figures scatter.
TIE = 1.05
_ON_PHONE = "/data/local/tmp/bench.bin"
_PARTS = ("push", "pull", "start", "steps")


@dataclass(frozen=True)
class Mode:
    """A tunnel in one mode, as the server uses it: the phone's serial there, and adb's environment."""

    name: str
    serial: str
    adb: dict[str, str]


def run(*, quick: bool) -> list[Measure]:
    """The sum over push, pull, session start and steps decides."""
    measures: list[Measure] = []
    with (
        tempfile.TemporaryDirectory(prefix="devkit-modes-") as base,
        tempfile.TemporaryDirectory() as folder,
        Hosts(Path(base)) as hosts,
    ):
        program = build_program(Path(folder))
        phone = devkit(hosts.laptop, "sim", "start", "bench", "--json").data["serial"]
        try:
            for name, (rate, round_trip_s) in LINKS.items():
                # Before the tunnels: what TCP has learned of another link would slow it for long.
                hosts.laptop_jump.shape(delay_s=round_trip_s / 2, rate_bits_s=rate)
                with _modes(hosts, phone) as modes:
                    measures += _on_link(name, hosts, modes, program, quick)
        finally:
            devkit(hosts.laptop, "sim", "stop", "bench")
    return measures


def _on_link(
    link: str, hosts: Hosts, modes: tuple[Mode, Mode], program: Path, quick: bool
) -> Iterator[Measure]:
    file = hosts.server.home / "bench.bin"
    file.write_bytes(os.urandom(SIZE))
    for mode in modes:  # program, lldb-server and the phone's libraries are where they belong from now on
        debug_session(hosts.server, program, "-s", mode.serial, steps=1)
    taken: dict[str, list[dict[str, float]]] = {mode.name: [] for mode in modes}
    for _ in range(QUICK_ROUNDS if quick else ROUNDS):
        for mode in modes:
            taken[mode.name].append(_once(hosts, mode, file, program))
            said = ", ".join(f"{part} {s:.1f}" for part, s in taken[mode.name][-1].items())
            print(f"{link}: {mode.name}: {said}", file=sys.stderr, flush=True)
    yield from _compared(link, *taken.values())


def _once(hosts: Hosts, mode: Mode, file: Path, program: Path) -> dict[str, float]:
    def adb(*words: str | Path) -> float:
        began = time.monotonic()
        hosts.server.run(WHEEL_ADB, "-s", mode.serial, *words, timeout_s=600, **mode.adb)
        return time.monotonic() - began

    push_s = adb("push", "-Z", file, _ON_PHONE)
    pull_s = adb("pull", "-Z", _ON_PHONE, file.with_name("back.bin"))
    session = debug_session(hosts.server, program, "-s", mode.serial, steps=STEPS)
    times = (push_s, pull_s, session.start_s, session.step_s * STEPS)
    return dict(zip(_PARTS, times, strict=True))


def _compared(link: str, default: list[dict[str, float]], other: list[dict[str, float]]) -> Iterator[Measure]:
    for part in (*_PARTS, "all"):
        ours = [sum(times.values()) if part == "all" else times[part] for times in default]
        peer = [sum(times.values()) if part == "all" else times[part] for times in other]
        ours_s, peer_s = statistics.median(ours), statistics.median(peer)
        ratio = ours_s / peer_s
        counts = part == "all"
        yield Measure(
            f"{link}: {part}", "s", ours_s, peer_s, statistics.pstdev(ours), ratio, "x",
            f"<= {TIE:g} x" if counts else "reported", ratio <= TIE or not counts,
        )  # fmt: skip


@contextlib.contextmanager
def _modes(hosts: Hosts, phone: str) -> Iterator[tuple[Mode, Mode]]:
    """Both modes up, the default one first."""
    ports = {}
    path = f"{WHEEL_ADB.parent}:{os.environ['PATH']}"
    try:
        for mode in ("adb-server", "adbd"):
            up = devkit(
                hosts.laptop, "tunnel", "up", "server", "-s", "sim:bench", "--mode", mode,
                "--name", mode, "--detach", "--json", PATH=path,
            )  # fmt: skip
            if up.code != 0:
                raise RuntimeError(up.out + up.err)
            ports[mode] = up.data["port"]
        yield (
            Mode("adb-server", phone, {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{ports['adb-server']}"}),
            Mode("adbd", f"127.0.0.1:{ports['adbd']}", {}),
        )
    finally:
        for name in ports:
            devkit(hosts.laptop, "tunnel", "down", name)
        hosts.server.run(WHEEL_ADB, "kill-server", check=False)
