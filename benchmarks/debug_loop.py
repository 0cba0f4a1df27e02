"""`devkit debug` with nothing to build and nothing to push: how long until LLDB is started.

The peer is the least that any tool must do before it: one `adb shell` round trip as a process.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.report import Measure

ROUNDS, QUICK_ROUNDS = 9, 3
GOAL_S = 1.5
ENGINE = Path(__file__).parents[1] / "examples" / "mini-engine"

# Stands where lldb would: notes the time at which it was started, then becomes the real one.
_WRAPPER = """\
#!{python}
import os, sys, time
with open({stamp!r}, "w") as file:
    file.write(repr(time.time()))
os.execv({lldb!r}, [{lldb!r}, *sys.argv[1:]])
"""


def run(*, quick: bool) -> list[Measure]:
    """Warm up once (build, push, sysroot), then time whole devkit processes."""
    from devkit import config, lldb
    from devkit.device import AdbServer, Device, find_private_adb
    from devkit.sim import start_phone

    adb = find_private_adb()
    ours: list[float] = []
    peer: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        start_phone(f"bench-{os.getpid()}", adb=adb.path, lifeline=True) as phone,
    ):
        record = phone.record
        assert record.adb_host is not None and record.adb_port is not None
        device = Device(record.serial, AdbServer(record.adb_host, record.adb_port, "sim", record.name))
        tools = lldb.find_tools(config.load(ENGINE), device)
        stamp, wrapper, batch = (Path(folder) / name for name in ("stamp", "lldb", "batch.lldb"))
        wrapper.write_text(
            _WRAPPER.format(python=sys.executable, stamp=str(stamp), lldb=str(tools.lldb)), "utf-8"
        )
        wrapper.chmod(0o755)
        batch.write_text("process kill\n", "utf-8")
        command = [sys.executable, "-m", "devkit", "debug", "llm_demo", "-s", f"sim:{record.name}"]
        command += ["--batch", str(batch)]
        shell = [str(adb.path), "-H", record.adb_host, "-P", str(record.adb_port), "-s", record.serial]
        env = {**os.environ, "DEVKIT_LLDB_PATH": str(wrapper), "DEVKIT_LLDB_SERVER": str(tools.server)}
        for number in range(1 + (QUICK_ROUNDS if quick else ROUNDS)):
            started = time.time()
            subprocess.run(command, cwd=ENGINE, env=env, stdout=subprocess.DEVNULL, check=True)
            took = float(stamp.read_text("utf-8")) - started
            peer_started = time.perf_counter()
            subprocess.run([*shell, "shell", "true"], check=True)
            if number:
                ours.append(took)
                peer.append(time.perf_counter() - peer_started)
    ours_s, peer_s = statistics.median(ours), statistics.median(peer)
    return [
        Measure(
            name="devkit debug until LLDB starts",
            unit="s",
            ours=ours_s,
            peer=peer_s,
            spread=statistics.pstdev(ours),
            relation=ours_s,
            relation_unit="s",
            goal=f"< {GOAL_S:g} s",
            met=ours_s < GOAL_S,
        )
    ]
