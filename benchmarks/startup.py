"""How long devkit takes to start, above `python -c pass` on the same machine in the same run."""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Measure

ROUNDS, QUICK_ROUNDS = 25, 7
GOALS_MS = {"--version": 15.0, "--help": 80.0, "config show": 200.0}


def run(*, quick: bool) -> list[Measure]:
    """Interleaved rounds, so that a busy moment hits everyone; the median of each is compared."""
    script = Path(sys.executable).with_name("devkit")
    commands = {name: [str(script), *name.split()] for name in GOALS_MS}
    commands["peer"] = [sys.executable, "-c", "pass"]
    times: dict[str, list[float]] = {name: [] for name in commands}
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            for name, argv in commands.items():
                started = time.perf_counter()
                subprocess.run(argv, cwd=folder, stdout=subprocess.DEVNULL, check=True)
                times[name].append((time.perf_counter() - started) * 1000)
    peer = statistics.median(times["peer"])
    measures = []
    for name, goal in GOALS_MS.items():
        ours = statistics.median(times[name])
        spread = statistics.pstdev(times[name])
        above = ours - peer
        measures.append(
            Measure(
                f"devkit {name}", "ms", ours, peer, spread, above, "ms", f"<= +{goal:g} ms", above <= goal
            )
        )
    return measures
