"""Forwards of devkit against `ssh -R` and `ssh -L`: the same sshd, target and client, in turn.

Client, target, delaying proxy, peer and devkit are processes of their own. `-R receive` is data that
enters at the far machine, so that paramiko receives; `send` is the other way.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import Measure
from tests.support.sshd import Sshd, make_key

ROUNDS, QUICK_ROUNDS = 7, 3
MB = 1_000_000
PARALLEL = 100
# link name: round trip in ms, bytes per second (0: as fast as it goes), MB sent a run
LINKS = {"raw": (0, 0, 400), "1 Gbit/s": (0, 125 * MB, 80), "100 ms": (100, 0, 60)}
GOALS = {
    ("raw", "receive"): 0.6,
    ("raw", "send"): 0.6,
    ("1 Gbit/s", "receive"): 0.95,
    ("1 Gbit/s", "send"): 0.95,
    ("100 ms", "receive"): 1.5,
    # Here sshd's window is the limit for both, so no more than OpenSSH's is to be had.
    ("100 ms", "send"): 0.95,
}

_OURS = """\
import sys
from pathlib import Path
from devkit.tunnels import connect
link = connect("s", config_file=Path(sys.argv[1]))
target = ("127.0.0.1", int(sys.argv[2]))
print(link.remote_forward(target).port, link.local_forward(target).port, flush=True)
sys.stdin.read()
"""


@dataclass(frozen=True)
class Tunnel:
    """A running tunnel with one forward of each kind."""

    pid: int
    remote: int
    local: int


def run(*, quick: bool) -> list[Measure]:
    """Interleaved rounds; medians are compared."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    measures: list[Measure] = []
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = Sshd(folder / "sshd")
        key = make_key(folder / "key")
        server.authorize(key)
        stack.enter_context(server)
        target = stack.enter_context(_process("target"))
        for name, (delay_ms, rate, size_mb) in LINKS.items():
            port = server.port
            if delay_ms or rate:
                port = stack.enter_context(_process("proxy", server.port, delay_ms, rate))
            config = folder / f"config-{port}"
            config.write_text(_config(port, key, folder / "known"), "utf-8")
            ours = stack.enter_context(_ours(config, target))
            peer = stack.enter_context(_openssh(config, target))
            size = size_mb * MB // (2 if quick else 1)
            for kind in ("-R", "-L"):
                for direction in ("receive", "send"):
                    pull = (kind == "-L") == (direction == "receive")
                    measures.append(
                        _compare(
                            f"{name}: {kind} {direction}",
                            lambda port, pull=pull, size=size: _transfer(port, size, pull),
                            *((ours.remote, peer.remote) if kind == "-R" else (ours.local, peer.local)),
                            rounds,
                            GOALS[name, direction],
                        )
                    )
            if name == "raw":
                measures += _many(ours, peer, rounds, quick)
                measures.append(_cpu(ours, peer, rounds))
    return measures


def _many(ours: Tunnel, peer: Tunnel, rounds: int, quick: bool) -> list[Measure]:
    size = (2 if quick else 4) * MB
    return [
        _compare(
            f"{PARALLEL} connections: {kind}",
            lambda port: _parallel(port, size),
            our_port,
            peer_port,
            rounds,
            1.0,
        )
        for kind, our_port, peer_port in (
            ("-R", ours.remote, peer.remote),
            ("-L", ours.local, peer.local),
        )
    ]


def _compare(
    name: str, work: Callable[[int], float], ours: int, peer: int, rounds: int, goal: float
) -> Measure:
    our_rates, peer_rates = [], []
    work(ours), work(peer)
    for _ in range(rounds):
        our_rates.append(work(ours))
        peer_rates.append(work(peer))
    ours_mb, peer_mb = statistics.median(our_rates), statistics.median(peer_rates)
    ratio = ours_mb / peer_mb
    return Measure(
        name,
        "MB/s",
        ours_mb,
        peer_mb,
        statistics.pstdev(our_rates),
        ratio,
        "x",
        f">= {goal:g} x",
        ratio >= goal,
    )


def _cpu(ours: Tunnel, peer: Tunnel, rounds: int) -> Measure:
    """Processor seconds a GB of the client's process; sshd's part is the same for both."""

    def once(tunnel: Tunnel) -> float:
        before = _cpu_s(tunnel.pid)
        _transfer(tunnel.remote, 200 * MB, False)
        _transfer(tunnel.remote, 200 * MB, True)
        return (_cpu_s(tunnel.pid) - before) / 0.4

    pairs = [(once(ours), once(peer)) for _ in range(rounds)]
    ours_s, peer_s = (statistics.median(values) for values in zip(*pairs, strict=True))
    spread = statistics.pstdev([pair[0] for pair in pairs])
    return Measure("processor time", "s/GB", ours_s, peer_s, spread, ours_s / peer_s, "x", "reported", True)


def _cpu_s(pid: int) -> float:
    words = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def _transfer(port: int, size: int, pull: bool) -> float:
    """MB/s of one connection: the target sends (`pull`), or counts what it gets."""
    with socket.create_connection(("127.0.0.1", port)) as sock:
        started = time.perf_counter()
        sock.sendall(b"%s %d\n" % (b"pull" if pull else b"push", size))
        if pull:
            got = 0
            while data := sock.recv(262144):
                got += len(data)
        else:
            piece = memoryview(bytes(262144))
            for sent in range(0, size, len(piece)):
                sock.sendall(piece[: min(len(piece), size - sent)])
            got = int(sock.recv(32))
        took = time.perf_counter() - started
    if got != size:
        raise RuntimeError(f"{got} of {size} bytes arrived")
    return size / MB / took


def _parallel(port: int, size: int) -> float:
    failures: list[Exception] = []

    def one() -> None:
        try:
            _transfer(port, size, True)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=one) for _ in range(PARALLEL)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]
    return PARALLEL * size / MB / (time.perf_counter() - started)


def _config(port: int, key: Path, known: Path) -> str:
    return (
        f"Host s\n HostName 127.0.0.1\n Port {port}\n User {getpass.getuser()}\n IdentityFile {key}\n"
        f" IdentitiesOnly yes\n IdentityAgent none\n UserKnownHostsFile {known}\n HostKeyAlias bench\n"
        " StrictHostKeyChecking accept-new\n"
    )


@contextlib.contextmanager
def _ours(config: Path, target: int) -> Iterator[Tunnel]:
    argv = [sys.executable, "-c", _OURS, str(config), str(target)]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        remote, local = map(int, process.stdout.readline().split())
        yield Tunnel(process.pid, remote, local)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _openssh(config: Path, target: int) -> Iterator[Tunnel]:
    """ssh with a session, as devkit has one: without it small answers stall."""
    remote, local = _free_port(), _free_port()
    argv = ["ssh", "-F", str(config), "-R", f"{remote}:127.0.0.1:{target}"]
    argv += ["-L", f"{local}:127.0.0.1:{target}", "-o", "ExitOnForwardFailure=yes", "s", "echo up; cat"]
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    assert process.stdout is not None
    try:
        if process.stdout.readline() != b"up\n":
            raise RuntimeError("ssh does not connect")
        yield Tunnel(process.pid, remote, local)
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def _process(kind: str, *words: int) -> Iterator[int]:
    """`benchmarks.tunnel_parts` as a process; its port."""
    argv = [sys.executable, "-m", "benchmarks.tunnel_parts", kind, *map(str, words)]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
