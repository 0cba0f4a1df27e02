"""`devkit profile --show … --html`: a recording of a million samples as a page.

The peer of the time is only reading the recording; all else has none. Wants Chromium.
"""

from __future__ import annotations

import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Measure
from devkit.profiling import Meta, Profile, ProfileBuilder, load_profile, save_profile
from tests.support.browser import browser

SAMPLES = 1_000_000
FUNCTIONS, STACKS, THREADS, MODULES = 3_000, 60_000, 8, 12
ROUNDS, QUICK_ROUNDS = 3, 1
GOAL_S, GOAL_MB, GOAL_PAGE_MB = 20.0, 1000.0, 10.0
GOAL_OPEN_S, GOAL_ZOOM_S = 5.0, 0.5


def run(*, quick: bool) -> list[Measure]:
    """The command as a user starts it; medians."""
    with tempfile.TemporaryDirectory() as folder:
        recording, page = Path(folder, "run.devkit-profile"), Path(folder, "page.html")
        save_profile(make_profile(SAMPLES), recording)
        times = []
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            started = time.perf_counter()
            argv = [sys.executable, "-m", "devkit", "profile", "--show", recording, "--html", page]
            subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True)
            times.append(time.perf_counter() - started)
        # Of the largest child so far: there was no other.
        memory_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1000
        started = time.perf_counter()
        load_profile(recording)
        reading = time.perf_counter() - started
        seconds, spread = statistics.median(times), statistics.pstdev(times)
        size_mb = page.stat().st_size / 1e6
        opened, zoomed = _in_a_browser(page)
    return [
        Measure(
            f"{SAMPLES:,} samples to a page", "s", seconds, reading, spread, seconds - GOAL_S, "s",
            f"< {GOAL_S:g} s", seconds < GOAL_S,
        ),
        Measure(
            "memory", "MB", memory_mb, 0.0, 0.0, memory_mb - GOAL_MB, "MB", f"< {GOAL_MB:g} MB",
            memory_mb < GOAL_MB,
        ),
        Measure(
            "page", "MB", size_mb, 0.0, 0.0, size_mb - GOAL_PAGE_MB, "MB", f"< {GOAL_PAGE_MB:g} MB",
            size_mb < GOAL_PAGE_MB,
        ),
        Measure(
            "page opened", "s", opened, 0.0, 0.0, opened - GOAL_OPEN_S, "s", f"< {GOAL_OPEN_S:g} s",
            opened < GOAL_OPEN_S,
        ),
        Measure(
            "click to zoomed", "s", zoomed, 0.0, 0.0, zoomed - GOAL_ZOOM_S, "s", f"< {GOAL_ZOOM_S:g} s",
            zoomed < GOAL_ZOOM_S,
        ),
    ]  # fmt: skip


def _in_a_browser(page: Path) -> tuple[float, float]:
    """Seconds until Chromium has drawn the page, and from a click on a frame until it has drawn that."""
    with browser() as tab:
        started = time.perf_counter()
        tab.open(page)
        tab.wait("document.body.dataset.ready === 'yes'")
        opened = time.perf_counter() - started
        left, top = tab.evaluate(
            "(r => [r.left, r.top])(document.getElementById('flames').getBoundingClientRect())"
        )
        started = time.perf_counter()
        tab.click(left + 200, top + 3.5 * 18)
        tab.wait("document.getElementById('below').textContent !== ''")
        return opened, time.perf_counter() - started


def make_profile(samples: int) -> Profile:
    """Deep stacks that share much, a few hot ones, C++ names of usual length, 600,000 different callers."""
    chance = random.Random(1)
    builder = ProfileBuilder()
    builder.event("cpu-cycles:u", "cycles")
    modules = [builder.module(f"/data/local/tmp/devkit/app/lib{i}.so", f"{i:040x}") for i in range(MODULES)]
    frames = [
        builder.frame(
            f"MNN::Space{i % 40}::function{i}<float, {i % 7}>(float*, float const*, unsigned long)",
            modules[i % MODULES],
            file=f"/home/user/engine/source/backend/cpu/compute/File{i % 300}.cpp",
            line=1 + i % 900,
            address=4096 + 16 * i,
        )
        for i in range(FUNCTIONS)
    ]
    threads = [builder.thread(100, 100 + i, f"worker-{i}") for i in range(THREADS)]
    chains: list[list[int]] = []
    for _ in range(STACKS):
        base = chains[int(chance.random() ** 2 * len(chains))] if chains else []
        kept = base[: chance.randint(0, len(base))]
        more = chance.randint(1, max(2, 30 - len(kept)))
        chains.append(kept + [frames[int(chance.random() ** 3 * FUNCTIONS)] for _ in range(more)])
    stacks = [builder.stack(chain) for chain in chains]
    for number in range(samples):
        builder.sample(
            stacks[int(chance.random() ** 4 * STACKS)],
            threads[number % THREADS],
            250_000 + number % 1000,
            number * 250_000,
        )
    return builder.finish(Meta("phone", ("llm_demo",), "simpleperf", arch="arm64"))
