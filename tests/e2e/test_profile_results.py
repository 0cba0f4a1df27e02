"""What a profiled program prints about its own time is in its recording."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli
from tests.e2e.test_sim_simpleperf import build_hot


@pytest.mark.slow
def test_phases_of_llm_demo_stand_beside_its_functions(device: Device, devkit: Cli, workdir: Path) -> None:
    said = (REPO / "tests/data/results/llm_demo_ok.txt").read_text()
    # It copies its input, and works for a while.
    program = build_hot(workdir, name="llm_demo")
    ran = devkit("profile", program, "--json", "--html", "all.html", "--", "0.5", "cat", stdin=said)
    assert ran.code == 7, ran.err
    (engine,) = ran.data["engine"]
    assert engine["phases_ms"]["load"] == 15.433
    assert ["decode_speed", 2891.74, "tok/s"] in engine["speeds"]
    page = (workdir / "all.html").read_text()
    assert "Phases: llm_demo" in page and "VmRSS" in page and 'id="processors"' in page
    shown = devkit("profile", "--show", "last")
    assert "2891.74 tok/s" in shown.out and "the process's time in /proc" in shown.out
