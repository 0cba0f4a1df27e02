"""`devkit qnn export`: scripts of two generations, with tools that really run, in folders with blanks."""

from __future__ import annotations

import ast
import dataclasses
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import config as configuration
from devkit import output
from devkit.device.soc import decide, load_chips
from devkit.errors import FileError, ToolFailed, ToolMissing, UsageError
from devkit.ndk.converters import MARKER
from devkit.ndk.qnn_sdk import open_qnn_sdk
from devkit.qnn.export import graph_driver
from devkit.qnn.export import publish as publishing
from devkit.qnn.export.plan import ExportPlan, plan_export
from devkit.qnn.export.whole import Exported, export
from devkit.qnn.inspect import inspect
from tests.support.qnn_export import DATA, checkout, export_sdk, libraries_of, model_folder

KEYS = ("qnn/graphllm0.bin", "qnn/graphllm1.bin")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The host programs, compiled once; all are one file that goes by its name."""
    folder = tmp_path_factory.mktemp("build 工具")
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    define = f'-DPLUGIN_MODEL="{DATA / "models/qnn/llm.mnn"}"'
    source = DATA / "qnn-export/tools.cpp"
    subprocess.run([compiler, "-std=c++17", "-O0", define, source, "-o", folder / "generateIO"], check=True)
    for name in ("generateLlmIO", "compilefornpu"):
        os.link(folder / "generateIO", folder / name)
    return {name: folder / name for name in ("generateIO", "generateLlmIO", "compilefornpu")}


class World:
    """A checkout, an SDK and a model folder."""

    def __init__(self, base: Path, generation: str, tools: dict[str, Path]) -> None:
        self.source = checkout(base / "MNN 引擎", generation)
        self.sdk = open_qnn_sdk(export_sdk(base / "SDK 版/2.42.0.251225"), "a test")
        self.model = model_folder(base / "我的 Qwen3 model")
        self.tools, self.stage, self.log = tools, base / "stage", base / "calls.log"

    def plan(self, soc: str | None = "SM8650", **options: object) -> ExportPlan:
        config = dataclasses.replace(configuration.load(self.source), source=self.source)
        facts = decide({}, load_chips(), told=soc) if soc else None
        options.setdefault("stage", self.stage)
        return plan_export(config, self.sdk, self.model, soc=facts, **options)  # type: ignore[arg-type]

    def export(self, soc: str | None = "SM8650", **options: object) -> Exported:
        return export(self.plan(soc, **options), self.tools)

    def calls(self, what: str) -> list[str]:
        lines = self.log.read_text().splitlines() if self.log.is_file() else []
        self.log.unlink(missing_ok=True)
        return sorted(words[2] for line in lines if (words := line.split())[1] == what)


@pytest.fixture(params=["older", pytest.param("newer", marks=pytest.mark.slow)])
def world(
    request: pytest.FixtureRequest, tmp_path: Path, tools: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> World:
    return make_world(request.param, tmp_path, tools, monkeypatch)


@pytest.fixture
def newer(tmp_path: Path, tools: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> World:
    return make_world("newer", tmp_path, tools, monkeypatch)


def make_world(
    generation: str, tmp_path: Path, tools: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> World:
    output.install(output.Output())
    for name in ("CACHE", "STATE"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / f"xdg {name}"))
    for name in ("STANDIN_FAIL", "STANDIN_WAIT", "QNN_SDK_ROOT", "QAIRT_SDK_ROOT"):
        monkeypatch.delenv(name, raising=False)
    made = World(tmp_path, generation, tools)
    monkeypatch.setenv("STANDIN_LOG", str(made.log))
    return made


def test_a_model_becomes_graphs(newer: World) -> None:
    look_at_an_export(newer)


@pytest.mark.slow
def test_an_older_script_makes_the_same(
    tmp_path: Path, tools: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    look_at_an_export(make_world("older", tmp_path, tools, monkeypatch))


def look_at_an_export(world: World) -> None:
    weights = {f.name: f.stat() for f in world.model.iterdir()}
    done = world.export()
    assert sorted(done.seen.graphs) == list(KEYS)
    assert [step.number for step in done.seen.steps] == ["1", "2", "3", "4"]
    assert all(step.seconds is not None for step in done.seen.steps)
    left = sorted(f.name for f in (world.model / "qnn").iterdir())
    assert left == ["devkit-export.json", "graphllm0.bin", "graphllm1.bin", "llm.mnn"]
    found = inspect(world.model, soc=decide({}, load_chips(), told="SM8650"), sdk_version="2.42.0.251225")
    assert not found.broken, [check.text for check in found.checks]
    assert {c.facts.arch for c in found.inventory.contexts} == {"v75"}
    # Each context is of its own two graphs, with its own half of the weights.
    weight = (world.model / "llm.mnn.weight").stat().st_size
    for key in KEYS:
        libraries = libraries_of(world.model / key)
        assert [one["bytes"] for one in libraries] == [weight // 2] * 2
    config = json.loads((world.model / "config_qnn.json").read_text())
    assert config["llm_model"] == "qnn/llm.mnn" and config["tokenizer_file"] == "tokenizer.mtok"
    assert config["chunk_limits"] == [128, 1] and config["npu_model_dir"] == ""
    # Nothing of the model was touched, and nothing is left of the staging.
    assert {f.name: f.stat().st_mtime_ns for f in world.model.iterdir() if f.name in weights} == {
        name: status.st_mtime_ns for name, status in weights.items()
    }
    assert list(world.stage.iterdir()) == []


@pytest.mark.slow
def test_where_a_model_came_from_is_beside_it(newer: World) -> None:
    for command in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "one"]):
        identity = ["-c", "user.name=a", "-c", "user.email=a@b"]
        subprocess.run(["git", "-C", newer.source, *identity, *command], check=True)
    newer.export()
    told = json.loads((newer.model / "qnn/devkit-export.json").read_text())
    assert (told["soc_id"], told["dsp_arch"], told["chip"]) == (57, "v75", "SM8650")
    assert told["sdk"]["version"] == "2.42.0.251225" and len(told["mnn"]["commit"]) == 40
    assert len(told["tools"]["qnn-context-binary-generator"]) == len(told["tools"]["compilefornpu"]) == 64


def test_arguments_are_those_that_the_revision_has(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    words = world.plan(wanted={"chunk_size": "64"}).words
    is_new = "--vtcm_mb" in words
    assert is_new == ("generateIO" in world.plan().script.tools)
    assert words[words.index("--chunk_size") + 1] == "64" and words[words.index("--soc_id") + 1] == "57"
    if is_new:
        assert words[words.index("--vtcm_mb") + 1] == "8"
        assert world.plan(more=("--max_history_token=4096",)).words[-1] == "--max_history_token=4096"
    else:
        with pytest.raises(UsageError, match="has no --max_history_token") as caught:
            world.plan(more=("--max_history_token=4096",))
        assert "--chunk_size" in (caught.value.evidence or "")


@pytest.mark.slow
def test_an_unchanged_graph_is_not_compiled_again(world: World) -> None:
    world.export()
    assert world.calls("begin") == ["graphllm0", "graphllm1"]
    first = (world.model / KEYS[0]).read_bytes()
    again = world.export()
    assert world.calls("begin") == [] and all(g["cached"] for g in again.seen.graphs.values())
    assert (world.model / KEYS[0]).read_bytes() == first
    # The second half of the weights is the second graph's.
    weight = world.model / "llm.mnn.weight"
    data = bytearray(weight.read_bytes())
    data[-1] ^= 1
    weight.write_bytes(data)
    world.export()
    assert world.calls("begin") == ["graphllm1"]
    # Another chip, other compilers: nothing is taken from before.
    world.export("SM8750")
    assert world.calls("begin") == ["graphllm0", "graphllm1"]
    tool = world.sdk.path / "bin/x86_64-linux-clang/qnn-context-binary-generator"
    tool.write_text(tool.read_text() + "\n# a newer one\n")
    world.export("SM8750")
    assert world.calls("begin") == ["graphllm0", "graphllm1"]


@pytest.mark.slow
def test_a_spoilt_copy_is_not_taken_from_the_cache(newer: World) -> None:
    newer.export()
    newer.calls("begin")
    good = (newer.model / KEYS[1]).read_bytes()
    with (newer.model / KEYS[1]).open("r+b") as file:  # it shares its blocks with the cache
        file.truncate(2000)
    newer.export()
    assert newer.calls("begin") == ["graphllm1"] and (newer.model / KEYS[1]).read_bytes() == good


@pytest.mark.slow
def test_a_failed_export_goes_on_where_it_stopped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STANDIN_FAIL", "context:graphllm1")
    with pytest.raises(ToolFailed, match=r"Step3 failed: .*graphllm1") as caught:
        world.export(jobs=1)
    assert "finalize graph (id: 1) with err 1002" in log_of(caught.value)
    assert not (world.model / "qnn").exists() and not (world.model / "config_qnn.json").exists()
    assert "graphllm0" in world.calls("end")
    monkeypatch.delenv("STANDIN_FAIL")
    done = world.export()
    assert world.calls("begin") == ["graphllm1"]
    assert [done.seen.graphs[key]["cached"] for key in KEYS] == [True, False]


FAILURES = {
    "generateIO=crash generateLlmIO=crash": ("Step1", "crashed"),
    "generateIO=nothing generateLlmIO=nothing": ("Step1", "no inputs"),
    "generateIO=usage generateLlmIO=usage": ("Step1", "printed its usage"),
    "compilefornpu=crash": ("Step2", "crashed"),
    "compilefornpu=shape": ("Step2", "Compute Shape Error"),
    "compilefornpu=folder": ("Step2", "left no folder qnn/graphllm1"),
    "library:graphllm1": ("Step3", "graphllm1"),
    "context:graphllm0": ("Step3", "graphllm0"),
    "empty:graphllm0": ("Step3", "graphllm0"),
}


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(name, marks=() if name.startswith("generateIO=crash") else pytest.mark.slow)
        for name in FAILURES
    ],
)
def test_the_step_that_failed_is_named(world: World, failure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (world.model / "qnn").mkdir()
    (world.model / "qnn/llm.mnn").write_text("the old one")
    monkeypatch.setenv("STANDIN_FAIL", failure)
    with pytest.raises(ToolFailed) as caught:
        world.export()
    step, said = FAILURES[failure]
    everything = f"{caught.value.what}\n{caught.value.evidence}"
    assert f"{step} failed" in caught.value.what and said in everything, everything
    # Whatever the script printed and ended with.
    if "npu_convert.py failed" not in everything and "generateLlmIO" in world.plan().script.tools:
        assert "the script ended with 0 all the same" in everything
    assert (world.model / "qnn/llm.mnn").read_text() == "the old one"
    assert sorted(f.name for f in world.model.glob("qnn*")) == ["qnn"]
    assert list(world.stage.iterdir()) == []


def log_of(error: ToolFailed) -> str:
    (line,) = (hint for hint in error.hints if hint.startswith("the whole log: "))
    return Path(line.removeprefix("the whole log: ")).read_text()


@pytest.mark.slow
def test_graphs_for_another_chip_never_take_their_place(
    newer: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer.export()
    before = (newer.model / KEYS[0]).read_bytes()
    monkeypatch.setenv("STANDIN_FAIL", "arch:graphllm1")
    with pytest.raises(FileError, match=r"graphllm1.bin is for Hexagon v68"):
        newer.export("SM8750")
    assert (newer.model / KEYS[0]).read_bytes() == before


@pytest.mark.slow
def test_a_result_that_is_not_usable_gives_the_old_one_back(
    newer: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer.export()
    before = {f.name: f.read_bytes() for f in (newer.model / "qnn").iterdir()}
    config = (newer.model / "config_qnn.json").read_bytes()
    whole = publishing.complete_config
    wrong = {"chunk_limits": [7, 1]}  # no shape of the graphs
    monkeypatch.setattr(publishing, "complete_config", lambda *args: {**whole(*args), **wrong})
    with pytest.raises(FileError, match="in its place again") as caught:
        newer.export(wanted={"chunk_size": "128"})
    assert "7 is no shape" in (caught.value.evidence or "")
    assert {f.name: f.read_bytes() for f in (newer.model / "qnn").iterdir()} == before
    assert (newer.model / "config_qnn.json").read_bytes() == config
    assert sorted(f.name for f in newer.model.glob("qnn*")) == ["qnn"]


def test_a_kill_in_the_middle_of_the_swap_is_mended(newer: World) -> None:
    newer.export()
    (newer.model / "qnn").rename(newer.model / "qnn.devkit-old")
    (newer.model / "qnn.devkit-new").mkdir()
    publishing.recover(newer.model)
    assert sorted(f.name for f in newer.model.glob("qnn*")) == ["qnn"]
    assert (newer.model / KEYS[0]).is_file()


@pytest.mark.slow
def test_graphs_are_compiled_beside_each_other_within_the_memory(
    newer: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STANDIN_WAIT", "20")
    newer.export(jobs=2, memory_bytes=8 << 30)  # each waits for the other to begin
    lines = [line.split()[1] for line in newer.log.read_text().splitlines()]
    assert [what for what in lines if what in ("begin", "end")] == ["begin", "begin", "end", "end"]
    newer.log.unlink()
    monkeypatch.delenv("STANDIN_WAIT")
    newer.export(jobs=2, memory_bytes=1 << 20, use_cache=False)
    lines = [line.split()[1] for line in newer.log.read_text().splitlines()]
    assert [what for what in lines if what in ("begin", "end")] == ["begin", "end", "begin", "end"]


def test_what_is_missing_is_said_before_anything_runs(newer: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="which chip") as caught:
        newer.plan(None)
    assert "--soc SM8650" in caught.value.hints
    assert newer.plan(None, soc_id=57, dsp_arch="75").dsp_arch == "v75"
    with pytest.raises(UsageError, match=r"--stage .* cannot be used"):
        newer.plan(stage=newer.model)
    config = newer.model / "llm_config.json"
    text = config.read_text()
    config.write_text(text.replace("hidden_size", "hidden"))
    with pytest.raises(FileError, match="has no hidden_size"):
        newer.plan()
    config.write_text(text)
    assert newer.plan().name == "Qwen3_model"
    assert newer.plan().warnings == tuple(w for w in newer.plan().warnings if "clang" in w)
    # The script goes by the folder's name.
    named = newer.model.rename(newer.model.with_name("my VL model"))
    newer.model = named
    assert any("holds 'VL'" in warning for warning in newer.plan().warnings)
    (newer.sdk.path / "bin/x86_64-linux-clang/qnn-model-lib-generator").unlink()
    with pytest.raises(ToolMissing, match="qnn-model-lib-generator"):
        newer.plan()
    (newer.source / "transformers/llm/export/npu/generate_llm_qnn.py").unlink()
    with pytest.raises(ToolMissing):
        newer.plan()


def test_the_graph_driver_runs_on_old_pythons() -> None:
    """Python 3.8 is that of older SDKs' converters."""
    text = Path(graph_driver.__file__).read_text("utf-8")
    ast.parse(text, feature_version=(3, 8))
    for newer in (
        "removesuffix",
        "removeprefix",
        "waitstatus_to_exitcode",
        "is_relative_to",
        "import devkit",
    ):
        assert newer not in text


def test_the_converters_python_is_taken_where_it_was_made(
    newer: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    own = newer.plan()
    venv = tmp_path / "data/devkit/venvs/qnn-2.42.0.251225"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
    assert newer.plan().python == own.python  # half-made: no marker yet
    (venv / MARKER).write_text('{"fingerprint": "x"}')
    plan = newer.plan()
    assert plan.python == str(venv / "bin/python3")
    assert plan.environment["PATH"].split(os.pathsep)[0] == str(venv / "bin")


@pytest.mark.slow
def test_what_killed_exports_left_is_swept(newer: World) -> None:
    dead = newer.stage / "export-dead"
    dead.mkdir(parents=True)
    gone = subprocess.Popen(["true"])
    gone.wait()
    (dead / "owner.pid").write_text(f"{gone.pid}\n")
    (newer.stage / "export-mine").mkdir()
    newer.export()
    assert [f.name for f in newer.stage.iterdir()] == ["export-mine"]


@pytest.mark.slow
def test_a_second_model_of_the_folder_keeps_the_first(newer: World) -> None:
    for ending in ("", ".weight"):
        shutil.copy(newer.model / f"llm.mnn{ending}", newer.model / f"visual.mnn{ending}")
    newer.export()
    first = (newer.model / KEYS[0]).read_bytes()
    done = newer.export(more=("--model_name=visual.mnn",))
    assert sorted(done.seen.graphs) == ["qnn/graphvisual0.bin", "qnn/graphvisual1.bin"]
    names = {file.name for file in (newer.model / "qnn").iterdir()}
    assert {"llm.mnn", "graphllm0.bin", "graphllm1.bin", "visual.mnn", "graphvisual0.bin"} <= names
    assert (newer.model / KEYS[0]).read_bytes() == first
    config = json.loads((newer.model / "config_qnn.json").read_text())
    assert (config["llm_model"], config["visual_model"]) == ("qnn/llm.mnn", "qnn/visual.mnn")
    assert config["chunk_limits"] == [128, 1]
    named = newer.model.rename(newer.model.with_name("FastVLM"))
    newer.model = named
    with pytest.raises(UsageError, match="another way"):
        newer.plan(more=("--model_name=visual.mnn",))
