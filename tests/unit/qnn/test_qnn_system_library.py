"""Graphs and tensors of context binaries: libraries of an early layout that crash, and Qualcomm's own."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.ndk.qnn_sdk import QnnSdk, open_qnn_sdk
from devkit.qnn import inspect as inspecting
from devkit.qnn.inspect import inspect
from devkit.qnn.system_library import ContextInfo, data_type, read_graphs, system_library
from tests.support.qnn_parts import BUILD_ID, HOST, VERSION, genuine_context, genuine_sdk
from tests.support.qnn_trees import make_sdk

DATA = Path(__file__).parents[2] / "data"


@pytest.fixture(autouse=True, scope="module")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> QnnSdk:
    """An SDK whose libQnnSystem.so is of the test."""
    root = make_sdk(tmp_path_factory.mktemp("SDK 版") / "2.42.0.251225")
    compiler = shutil.which("gcc") or shutil.which("cc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"
    library = root / "lib/x86_64-linux-clang/libQnnSystem.so"
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", library, DATA / "qnn/system_library.c"], check=True, timeout=60
    )
    return open_qnn_sdk(root, "a test")


def read(sdk: QnnSdk, *files: Path) -> list[ContextInfo]:
    library = system_library(sdk)
    assert library is not None
    found = read_graphs(sdk, library, files)
    return [found[file] for file in files]


def a_file(path: Path, begins: bytes = b"\0\0\0\2") -> Path:
    options = b"soc_type=SM8650;arch=75;num_nsps=1;l2tcm_kb=0;vtcm_size=8388608;"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(begins.ljust(820, b"\0") + b"v2.42.0.251225120000" + b"\0" * 9000 + options)
    return path


def test_graphs_and_tensors(sdk: QnnSdk, tmp_path: Path) -> None:
    (info,) = read(sdk, a_file(tmp_path / "图 0.bin"))
    assert info.error is None and [graph.name for graph in info.graphs] == ["graphllm0", "graphllm1_0"]
    assert [tensor.shown for tensor in info.graphs[0].inputs] == [
        "in ufixed8 128×1×64 scale 0.5 offset -128", "mask float16 128",
    ]  # fmt: skip
    assert info.graphs[0].outputs[0].shown == "out float32 scalar" and info.blob_bytes == 4096


def test_a_crash_is_only_a_message(sdk: QnnSdk, tmp_path: Path) -> None:
    names = {"a": b"\0", "b": b"CRASH", "c": b"\0", "d": b"BAD", "e": b"CRASH", "f": b"\0"}
    files = [a_file(tmp_path / f"{name}.bin", begins) for name, begins in names.items()]
    infos = read(sdk, *files)
    assert [bool(info.graphs) for info in infos] == [True, False, True, False, False, True]
    assert infos[1].error == "libQnnSystem.so crashed on it (SIGSEGV)" and not infos[1].malformed
    assert infos[3].malformed
    found = inspect(tmp_path, reader=sdk)
    texts = {check.text: check.state for check in found.checks}
    assert texts["d.bin is damaged: libQnnSystem.so of 2.42.0.251225 calls it malformed"] == "broken"
    assert texts["the graphs of b.bin are not known: libQnnSystem.so crashed on it (SIGSEGV)"] == "warning"


def test_a_library_that_cannot_be_loaded(sdk: QnnSdk, tmp_path: Path) -> None:
    other = make_sdk(tmp_path / "2.42.0.251225")  # its libraries are words
    files = [a_file(tmp_path / f"{name}.bin") for name in "ab"]
    infos = read(open_qnn_sdk(other, "a test"), *files)
    assert [(info.error or "").startswith("it cannot be loaded: OSError") for info in infos] == [True, True]


def test_a_models_graphs_against_its_plugin_graph(sdk: QnnSdk, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "models/tiny-llm", tmp_path / "model"))
    shutil.copytree(DATA / "models/qnn", folder / "qnn")
    for number in (0, 1):
        a_file(folder / f"qnn/graphllm{number}.bin")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config_qnn.json").write_text(
        json.dumps({**config, "llm_model": "qnn/llm.mnn", "chunk_limits": [128, 1]})
    )
    assert not inspect(folder).broken
    found = inspect(folder, reader=sdk)
    assert [check.text for check in found.checks if check.state == "broken"] == [
        "qnn/graphllm1.bin holds no graph graphllm1, graphllm1_1, which qnn/llm.mnn asks for; "
        "it holds graphllm0, graphllm1_0"
    ]


def test_names_of_data_types() -> None:
    numbers = (0x0008, 0x0116, 0x0032, 0x0216, 0x0232, 0x0408, 0x0316, 0x0508, 0x0404, 0x7FFFFFFF)
    assert [data_type(number) for number in numbers] == [
        "int8", "uint16", "int32", "float16", "float32", "ufixed8", "sfixed16",
        "bool8", "ufixed4", "0x7fffffff",
    ]  # fmt: skip


@pytest.mark.slow
def test_a_genuine_context_and_library(tmp_path: Path) -> None:
    sdk = open_qnn_sdk(genuine_sdk(tmp_path / VERSION, HOST), "a test")
    made = genuine_context(tmp_path / "上下文 57", 57, "75")
    found = inspect(made, reader=sdk, sdk_version=sdk.version)
    (context,), (info,) = found.inventory.contexts, found.inside.values()
    assert (context.facts.build_id, context.facts.soc, context.facts.arch) == (BUILD_ID, "SM8650", "v75")
    assert info.soc_model == 57 and not found.broken
    (graph,) = info.graphs
    assert [t.shown for t in (*graph.inputs, *graph.outputs)] == [
        "a float32 4×8", "b float32 8×4", "c float32 4×4",
    ]  # fmt: skip
    cut = tmp_path / "cut.bin"
    cut.write_bytes(made.read_bytes()[:-4096])
    assert "cut.bin is damaged" in next(
        c.text for c in inspect(cut, reader=sdk).checks if c.state == "broken"
    )
    # By an SDK that is older than the file nothing is called damaged.
    older = dataclasses.replace(sdk, version="2.42.0.251225")
    assert {c.state for c in inspecting.inspect(cut, reader=older).checks} == {"ok", "warning"}
