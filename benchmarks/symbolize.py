"""`devkit symbolize`: many frames against a symbolizer call for each (ndk-stack's way), and a long log."""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Measure
from devkit.symbols.symbolizer import find_symbolizer

CASES = Path(__file__).parents[1] / "tests" / "data" / "cases"
LIBRARY = CASES / "_symbols" / "libllm.so"
BUILD_ID = "f98650f6560e12a2bf5a13fd5bf815ad1d637ba2"
FRAMES, QUICK_FRAMES = 1000, 200
LOG_BYTES = 50_000_000
CRASHES = 20
SPEED_UP_GOAL = 5.0
LOG_GOAL_S = 5.0
ROUNDS, QUICK_ROUNDS = 3, 1
NOISE = "05-14 10:22:%02d.%03d %5d %5d I MNNJNI  : a line of usual length without any interest, number %d\n"


def run(*, quick: bool) -> list[Measure]:
    """The command as a user starts it, start-up and all; medians."""
    with tempfile.TemporaryDirectory() as folder:
        return [
            _frames(Path(folder), QUICK_FRAMES if quick else FRAMES),
            *_log(Path(folder), QUICK_ROUNDS if quick else ROUNDS),
        ]


def _frames(folder: Path, count: int) -> Measure:
    symbolizer = find_symbolizer()
    assert symbolizer is not None, "this benchmark wants an llvm-symbolizer"
    addresses = [0x4C4 + 4 * (number % 40) for number in range(count)]
    lines = ["pid: 7, tid: 7, name: p  >>> ./p <<<", "backtrace:"]
    lines += [
        f"      #{n:02d} pc {address:016x}  /d/libllm.so (BuildId: {BUILD_ID})"
        for n, address in enumerate(addresses)
    ]
    log = folder / "frames.txt"
    log.write_text("\n".join(lines))

    def peer() -> None:
        for address in addresses:
            argv = [symbolizer, f"--obj={LIBRARY}", hex(address)]
            subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)

    ours, spread = _median(lambda: _symbolize(log))
    theirs, _ = _median(peer, rounds=1)
    ratio = theirs / ours
    return Measure(
        f"{count} frames",
        "s",
        ours,
        theirs,
        spread,
        ratio,
        "x",
        f">= {SPEED_UP_GOAL:g}x",
        ratio >= SPEED_UP_GOAL,
    )


def _log(folder: Path, rounds: int) -> list[Measure]:
    """Elapsed, and processor time: on a machine that others use, too, only the latter says something."""
    size = LOG_BYTES
    crash = (CASES / "I1" / "logcat.txt").read_text()
    log = folder / "log.txt"
    written = 0
    with log.open("w") as stream:
        for number in range(1 << 60):
            if written >= size:
                break
            if number % (size // len(NOISE) // CRASHES) == 0:
                # Another process each time: the same dump twice is one crash.
                written += stream.write(crash.replace("12345", f"{20000 + number % 9999}"))
            written += stream.write(
                NOISE % (number % 60, number % 1000, 1000 + number % 300, 1000 + number % 900, number)
            )
    used_before = _children_s()
    ours, spread = _median(lambda: _symbolize(log), rounds)
    used = (_children_s() - used_before) / rounds
    peer, _ = _median(lambda: log.read_text().count("\n"))
    name = f"log of {size // 1_000_000} MB"
    met = ours < LOG_GOAL_S
    goal = f"< {LOG_GOAL_S:g} s"
    return [
        Measure(name, "s", ours, peer, spread, ours - LOG_GOAL_S, "s", goal, met),
        Measure(f"{name}, CPU", "s", used, peer, 0.0, used - LOG_GOAL_S, "s", goal, used < LOG_GOAL_S),
    ]


def _children_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _symbolize(log: Path) -> None:
    argv = [sys.executable, "-m", "devkit", "symbolize", "--symbols", LIBRARY, log, "--json"]
    subprocess.run(argv, stdout=subprocess.DEVNULL, check=True)


def _median(work: Callable[[], object], rounds: int = ROUNDS) -> tuple[float, float]:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    return statistics.median(times), statistics.pstdev(times)
