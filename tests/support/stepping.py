"""A session with `devkit debug` on a host, timed from within LLDB: until the first stop, and each step."""

from __future__ import annotations

import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.tunnel_world import Ran, devkit
from tests.support.host import Host

_SOURCE = """\
static volatile int sum;
static void work(int number) {
    int twice = number * 2;
    sum += twice;
}
int main(void) {
    for (int round = 0; round < 1000; ++round) {
        work(round);
    }
    return 0;
}
"""
_BREAK = "stepping.c:8"


@dataclass(frozen=True)
class Session:
    """Seconds from the command to the first stop at a breakpoint, and of one `next`, on average."""

    start_s: float
    step_s: float


def build_program(folder: Path) -> Path:
    """A program that can be stepped through for long, built with the host's compiler."""
    (folder / "stepping.c").write_text(_SOURCE)
    subprocess.run(["gcc", "-g", "-O0", "-o", "stepping", "stepping.c"], cwd=folder, check=True)
    return folder / "stepping"


def debug_session(host: Host, program: Path, *words: str, steps: int, **env: str) -> Session:
    """Debug once on a host and step; the program and lldb-server should be on the phone already."""
    stamps, batch = host.home / "stamps", host.home / "step.lldb"
    stamps.unlink(missing_ok=True)
    note = f"script import time; open({str(stamps)!r}, 'a').write(f'{{time.monotonic()}}\\n')\n"
    batch.write_text(note + "next\n" * steps + note + "process kill\n")
    began = time.monotonic()
    ran: Ran = devkit(
        host, "debug", program, "-b", _BREAK, "--batch", batch, "--json", *words, timeout_s=300, **env
    )
    times = [float(line) for line in stamps.read_text().split()] if stamps.exists() else []
    stops = ran.data.get("stops", []) if ran.out else []
    assert len(times) == 2 and len(stops) == steps + 1, (times, len(stops), ran.out[-2000:], ran.err)
    return Session(times[0] - began, (times[1] - times[0]) / steps)
