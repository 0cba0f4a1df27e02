"""What devkit itself takes of a QNN export's time: a model of 40 graphs planned, staged and checked."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.report import Measure
from devkit import config as configuration
from devkit.device.soc import SocFacts, decide, load_chips
from devkit.models import check_model
from devkit.ndk.qnn_sdk import open_qnn_sdk
from devkit.qnn.export.plan import ExportPlan, plan_export
from devkit.qnn.export.stage import staged
from devkit.qnn.inspect import inspect
from tests.support.qnn_export import DATA, checkout, export_sdk

GRAPHS, GRAPH_BYTES, WEIGHT_BYTES = 40, 100_000_000, 4_000_000_000
ROUNDS, QUICK_ROUNDS = 9, 3
GOAL_S = 1.0


def run(*, quick: bool) -> list[Measure]:
    """Files of a real export's sizes, with holes: nothing of them is to be read whole, or copied."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        os.environ |= {"XDG_CACHE_HOME": str(base / "cache"), "XDG_STATE_HOME": str(base / "state")}
        model, soc = _model(base / "model"), decide({}, load_chips(), told="SM8650")
        plan = _planner(base, model, soc)
        work: dict[str, Callable[[], object]] = {
            "devkit qnn export: plan": plan,
            "devkit qnn export: staging": lambda: _stage(plan()),
            "devkit qnn inspect": lambda: inspect(model, soc=soc, sdk_version="2.42.0"),
            "devkit model check": lambda: check_model(model),
        }
        return [_measure(name, one, QUICK_ROUNDS if quick else ROUNDS) for name, one in work.items()]


def _measure(name: str, work: Callable[[], object], rounds: int) -> Measure:
    times = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        times.append(time.perf_counter() - started)
    took = statistics.median(times)
    return Measure(
        f"{name}, {GRAPHS} graphs", "s", took, GOAL_S, statistics.pstdev(times), took, "s",
        f"<= {GOAL_S:g} s", took <= GOAL_S,
    )  # fmt: skip


def _model(folder: Path) -> Path:
    shutil.copytree(DATA / "models/tiny-llm", folder)
    shutil.copytree(DATA / "models/qnn-40", folder / "qnn")
    config = json.loads((folder / "config.json").read_text())
    config |= {"llm_model": "qnn/llm.mnn", "chunk_limits": [128, 1]}
    (folder / "config_qnn.json").write_text(json.dumps(config))
    options = b"soc_type=SM8650;arch=75;num_nsps=1;l2tcm_kb=0;vtcm_size=8388608;"
    for number in range(GRAPHS):
        with (folder / f"qnn/graphllm{number}.bin").open("wb") as file:
            file.write(b"\0\0\0\2".ljust(820, b"\0") + b"v2.42.0.251225120000_1" + b"\0" * 9000 + options)
            file.truncate(GRAPH_BYTES)
    os.truncate(folder / "llm.mnn.weight", WEIGHT_BYTES)
    return folder


def _planner(base: Path, model: Path, soc: SocFacts) -> Callable[[], ExportPlan]:
    source = checkout(base / "MNN", "newer")
    sdk = open_qnn_sdk(export_sdk(base / "2.42.0.251225"), "a benchmark")
    config = dataclasses.replace(configuration.load(source), source=source)
    return lambda: plan_export(config, sdk, model, soc=soc, stage=base / "stage")


def _stage(plan: ExportPlan) -> None:
    with staged(plan, {}, "") as stage:
        copied = sum(f.stat().st_size for f in stage.root.rglob("*") if f.is_file() and not f.is_symlink())
        assert copied < 1_000_000, f"{copied} bytes were copied"
