"""`devkit qnn export` as users start it: the host programs are built, and the chip is the virtual phone's."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import Cli, Sim, eventually
from tests.support.qnn_export import checkout, export_sdk, model_folder

pytestmark = pytest.mark.slow


def working_below(folder: Path) -> list[str]:
    """Processes of this machine whose working folder is below `folder`."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if Path(os.readlink(process / "cwd")).is_relative_to(folder):
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_nothing_outlives_an_export_that_is_killed(
    workdir: Path, devkit: Cli, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QNN_SDK_ROOT", "QAIRT_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    stage, log = tmp_path_factory.mktemp("stage"), workdir / "calls"
    monkeypatch.setenv("XDG_CACHE_HOME", str(workdir / "cache"))
    monkeypatch.setenv("XDG_STATE_HOME", str(workdir / "state"))
    monkeypatch.setenv("STANDIN_LOG", str(log))
    checkout(workdir / "MNN", "newer")
    sdk = export_sdk(workdir / "SDK 版/2.42.0.251225")
    model = model_folder(workdir / "我的 model")
    (workdir / "devkit.yaml").write_text(f"source: MNN\nengine: mnn\nqnn: {{path: '{sdk}'}}\n")
    words = ["qnn", "export", str(model), "--soc", "SM8650", "--stage", str(stage), "-j", "1"]
    # The first graph waits for a second one that is not started.
    running = subprocess.Popen(
        [sys.executable, "-m", "devkit", *words], cwd=workdir, env={**os.environ, "STANDIN_WAIT": "300"}
    )
    try:
        assert eventually(lambda: log.is_file() and "begin" in log.read_text(), 120)
        assert working_below(stage)
        running.send_signal(signal.SIGKILL)
        running.wait(20)
        assert eventually(lambda: not working_below(stage)), working_below(stage)
    finally:
        running.kill()
    assert not (model / "qnn").exists()
    # The next one sweeps what it left, and is not in its way.
    again = devkit(*words)
    assert again.code == 0, again.err
    assert list(stage.iterdir()) == [] and (model / "qnn/graphllm1.bin").is_file()


def test_from_a_checkout_to_a_phones_graphs(
    workdir: Path, devkit: Cli, sim: Sim, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("QNN_SDK_ROOT", "QAIRT_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(workdir / "cache"))
    source = checkout(workdir / "MNN", "newer")
    sdk = export_sdk(workdir / "SDK 版/2.42.0.251225")
    model = model_folder(workdir / "我的 model")
    (workdir / "devkit.yaml").write_text(
        f"source: MNN\nengine: mnn\nqnn: {{path: '{sdk}'}}\ndevice: {{soc: SM8550}}\n"
    )
    plan = devkit("qnn", "export", model, "--dry-run", "--json")
    assert plan.code == 0, plan.err
    assert (plan.data["soc_id"], plan.data["dsp_arch"], plan.data["chip"]) == (43, "v73", "SM8550")
    assert plan.data["tools"] == ["generateIO", "compilefornpu"]
    assert not (model / "qnn").exists() and not (workdir / "cache").exists()
    broken = devkit("qnn", "export", model, STANDIN_FAIL="compilefornpu=crash")
    assert broken.code == 125 and "Step2 failed: compilefornpu crashed" in broken.err, broken.err
    assert "building qnn-tools" not in broken.out and not (model / "qnn").exists()
    ran = devkit("qnn", "export", model, "--json")
    assert ran.code == 0, ran.err
    assert "step 3: Compile to QNN" in ran.err and sorted(ran.data["graphs"]) == [
        "qnn/graphllm0.bin", "qnn/graphllm1.bin",
    ]  # fmt: skip
    assert Path(json.loads((model / "qnn/devkit-export.json").read_text())["mnn"]["source"]) == source
    assert devkit("qnn", "inspect", model, "--soc", "SM8550", "--sdk", sdk).code == 0
    # Refused for an older Hexagon, and by an older SDK.
    assert devkit("qnn", "inspect", model, "--soc", "SM8450").code == 1
