"""A perf.data of a million samples read into a profile; the peer is `perf report`, where it is here."""

from __future__ import annotations

import random
import resource
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Measure
from devkit.sim.simpleperf import kernel, writer
from devkit.sim.simpleperf.kernel import EventAttr

SAMPLES, STACKS, PLACES = 1_000_000, 60_000, 20_000
ROUNDS, QUICK_ROUNDS = 3, 1
GOAL_S, GOAL_MB = 10.0, 1000.0
# Processor time: the machine may have other work. VmHWM: what getrusage says includes the parent's.
_READ = """\
import re, sys, time
from pathlib import Path
from devkit.profiling.perf_data import read_perf_data
begun = time.process_time()
profile = read_perf_data(Path(sys.argv[1]))
took = time.process_time() - begun
status = Path("/proc/self/status").read_text()
print(len(profile), took, int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]) / 1000)
"""


def run(*, quick: bool) -> list[Measure]:
    """Medians of processes of their own."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "perf.data")
        file.write_bytes(make_file())
        times, memory = [], []
        for _ in range(QUICK_ROUNDS if quick else ROUNDS):
            argv = [sys.executable, "-c", _READ, file]
            count, seconds, megabytes = subprocess.run(
                argv, capture_output=True, text=True, check=True
            ).stdout.split()
            assert int(count) == SAMPLES
            times.append(float(seconds))
            memory.append(float(megabytes))
        peer = 0.0
        if shutil.which("perf"):
            before = resource.getrusage(resource.RUSAGE_CHILDREN)
            argv = ["perf", "report", "-i", file, "--stdio", "--no-children", "-g", "none"]
            subprocess.run(argv, capture_output=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            peer = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    seconds, most = statistics.median(times), max(memory)
    return [
        Measure(
            f"{SAMPLES:,} samples read", "s", seconds, peer, statistics.pstdev(times), seconds - GOAL_S, "s",
            f"< {GOAL_S:g} s", seconds < GOAL_S,
        ),
        Measure("memory", "MB", most, 0.0, 0.0, most - GOAL_MB, "MB", f"< {GOAL_MB:g} MB", most < GOAL_MB),
    ]  # fmt: skip


def make_file() -> bytes:
    """Eight threads in twelve libraries, stacks of up to 40 calls."""
    chance = random.Random(1)
    attr = EventAttr(
        0, 0, 4000,
        kernel.IP | kernel.TID | kernel.TIME | kernel.ID | kernel.CPU | kernel.PERIOD | kernel.CALLCHAIN,
        kernel.SAMPLE_ID_ALL | kernel.FREQ,
    )  # fmt: skip
    libraries = [(0x7000000000 + (i << 28), f"/data/local/tmp/devkit/app/lib{i}.so") for i in range(12)]
    records = [writer.mmap2(100, base, base + (1 << 24), 0, path, 0, 1) for base, path in libraries]
    places = [chance.choice(libraries)[0] + chance.randrange(1 << 22) * 4 for _ in range(PLACES)]
    chains = [[chance.choice(places) for _ in range(chance.randint(3, 40))] for _ in range(STACKS)]
    # A sample's thread and time lie at its places 20 and 24; everything else is the same for a stack.
    made = [writer.sample(attr, 100, 100, 0, 1, 0, 250_000, chain) for chain in chains]
    patch = struct.Struct("<IQ")
    for number in range(SAMPLES):
        sample = made[int(chance.random() ** 3 * STACKS)]
        records.append(sample[:20] + patch.pack(100 + number % 8, number * 1000) + sample[32:])
    files = [writer.SeenFile(path, struct.pack(">20x") + b"") for _, path in libraries]
    return writer.perf_data(
        [writer.Event("cpu-cycles", attr, (1,))], records, files, {"simpleperf_version": "1"},
        command=["simpleperf", "record"], release="6.1", arch="arm64", new_files=True,
    )  # fmt: skip
