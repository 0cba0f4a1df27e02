"""`devkit profile` on the example engine: three functions of libMNN.so with a known split, stripped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli
from tests.e2e.test_profile import rows


@pytest.mark.slow
@pytest.mark.timeout(1500)  # the engine is built
def test_the_example_engine(device: Device, devkit: Cli, tmp_path: Path) -> None:
    """60, 30 and 10 % in three functions of libMNN.so, deployed stripped."""
    engine = tmp_path / "engine"
    shutil.copytree(REPO / "examples/mini-engine", engine)
    ran = devkit(
        "profile", "llm_demo", "--env", "MINI_ENGINE_HOT=1.5", "--json", "--",
        "model/config.json", "prompt.txt", "1", cwd=engine, timeout=1400,
    )  # fmt: skip
    assert ran.code == 0, ran.err
    found = {name.rpartition("::")[2].partition("(")[0]: row for name, row in rows(ran.data).items()}
    source = (engine / "source/core/Hot.cpp").read_text().splitlines()
    heat = found["heat"]["total_share"]
    assert heat > 0.5
    for name, share in {"hotMatMul": 60, "hotSoftmax": 30, "hotNorm": 10}.items():
        assert 100 * found[name]["self_share"] / heat == pytest.approx(share, abs=5)
        assert found[name]["file"].endswith("source/core/Hot.cpp")
        assert f"{share} %" in source[found[name]["line"] - 1] or "for (" in source[found[name]["line"] - 1]
    # Names and lines came by build-id: what runs on the phone has neither.
    there = device.read_bytes("/data/local/tmp/devkit/llm_demo/libMNN.so")
    here = next(path for path in engine.rglob("libMNN.so") if b".debug_line" in path.read_bytes())
    assert b".symtab" in here.read_bytes()
    assert b".symtab" not in there and b".debug_" not in there
