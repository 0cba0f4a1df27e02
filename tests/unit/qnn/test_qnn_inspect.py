"""`devkit qnn inspect`: context binaries, genuine and made-up libraries, and a model folder's graphs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devkit.device.soc import decide, load_chips
from devkit.errors import UsageError
from devkit.qnn.inspect import Inspection, inspect
from tests.support.qnn_parts import BUILD_ID, PHONE, parts, with_build_id
from tests.support.qnn_trees import make_sdk

DATA = Path(__file__).parents[2] / "data"
C3 = DATA / "cases/C3/push"
NEWER = "v2.52.0.261029181845"


@pytest.fixture(autouse=True, scope="module")
def one_cache(tmp_path_factory: pytest.TempPathFactory) -> object:
    """What is known of 90 MB libraries is remembered for all tests, and not in the user's cache."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


def context(
    file: Path, build_id: str = BUILD_ID, arch: int = 75, soc: str = "SM8650", vtcm_mb: int = 8
) -> Path:
    """A file with the head and options of a context binary that QNN 2.51 wrote."""
    options = f"soc_type={soc};arch={arch};num_nsps=1;l2tcm_kb=0;vtcm_size={vtcm_mb << 20};"
    head = b"\0\0\0\2\0\0\0\3".ljust(820, b"\0") + build_id.encode()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(head + b"\0" * 9000 + options.encode())
    return file


def broken(found: Inspection) -> list[str]:
    return [f"{check.name}: {check.text}" for check in found.checks if check.state == "broken"]


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model folder as generate_llm_qnn.py leaves it, with context binaries."""
    folder = Path(shutil.copytree(DATA / "models/tiny-llm", tmp_path / "我的 model"))
    shutil.copytree(DATA / "models/qnn", folder / "qnn")
    for number in (0, 1):
        context(folder / f"qnn/graphllm{number}.bin")
    config = json.loads((folder / "config.json").read_text())
    config |= {"llm_model": "qnn/llm.mnn", "llm_weight": "llm.mnn.weight", "chunk_limits": [128, 1]}
    (folder / "config_qnn.json").write_text(json.dumps(config))
    return folder


def test_a_context_binary(tmp_path: Path) -> None:
    found = inspect(context(tmp_path / "没有 ending"))
    (one,) = found.inventory.contexts
    assert one.as_dict() == {
        "path": str(tmp_path / "没有 ending"), "size": one.path.stat().st_size, "build_id": BUILD_ID,
        "soc": "SM8650", "arch": "v75", "vtcm_mb": 8,
    }  # fmt: skip
    assert not found.broken and found.checks[0].text == "made by QNN 2.51.0 for SM8650 (v75)"


@pytest.mark.parametrize(
    ("chip", "text"),
    [
        ("SM8650", None),
        ("SM8750", None),  # an older Hexagon's graph: said, not refused
        ("SM8635", "graph.bin is for Hexagon v75 (SM8650), SM8635 has v73"),
        ("MT6985", None),
    ],
)
def test_a_context_for_another_chip(chip: str, text: str | None, tmp_path: Path) -> None:
    if chip.startswith("MT"):
        soc = decide({"ro.soc.manufacturer": "Mediatek", "ro.soc.model": chip}, load_chips())
        assert inspect(context(tmp_path / "graph.bin"), soc=soc).broken
        return
    found = inspect(context(tmp_path / "graph.bin"), soc=decide({}, load_chips(), told=chip))
    assert broken(found) == ([f"context: {text}"] if text else [])
    assert any(check.state == "warning" for check in found.checks) == (chip == "SM8750")


def test_a_context_against_an_sdk(tmp_path: Path) -> None:
    file = context(tmp_path / "graph.bin")
    assert (
        "made by QNN 2.51.0, the SDK is 2.42.0.251225"
        in broken(inspect(file, sdk_version="2.42.0.251225"))[0]
    )
    assert not inspect(file, sdk_version="2.51.0.260929").checks[1:]
    older = inspect(file, sdk_version="2.52.0")
    assert not older.broken and older.checks[-1].state == "warning"


def test_genuine_libraries(tmp_path: Path) -> None:
    source = parts(PHONE)
    for name in ("libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so"):
        shutil.copy(source / name, tmp_path)
    context(tmp_path / "graph.bin")
    soc = decide({}, load_chips(), told="SM8650")
    found = inspect(tmp_path, soc=soc)
    assert {check.name: check.state for check in found.checks} == dict.fromkeys(
        ("versions", "stub", "skel", "arch", "abi", "context"), "ok"
    )
    versions = {library.path.name: library.build_id for library in found.inventory.libraries}
    assert versions.pop("libQnnSystem.so") is None and set(versions.values()) == {BUILD_ID}
    with_build_id(source / "libQnnHtpV75Stub.so", tmp_path / "libQnnHtpV75Stub.so", NEWER)
    assert broken(inspect(tmp_path))[0].startswith(f"versions: libQnnHtpV75Stub.so: of QNN {NEWER}")
    (tmp_path / "libQnnHtpV75Stub.so").unlink()
    assert "libQnnHtpV75Stub.so is missing" in broken(inspect(tmp_path, soc=soc))[0]
    context(tmp_path / "graph.bin", NEWER)
    assert "graph.bin was made by QNN 2.52.0, the libraries here are older" in broken(inspect(tmp_path))[-1]


def test_a_model_folder(model: Path) -> None:
    found = inspect(model, soc=decide({}, load_chips(), told="SM8650"))
    assert [graph.file for graph in found.graphs] == ["qnn/graphllm0.bin", "qnn/graphllm1.bin"]
    first = found.graphs[0]
    assert first.lengths == (128, 1) and first.facts is not None and first.facts.build_id == BUILD_ID
    assert not found.broken and found.checks[0].text == "2 plugin ops, 2 graph files: all are there"


def test_what_can_be_wrong_with_a_model_folder(model: Path) -> None:
    context(model / "qnn/graphllm7.bin")
    old = inspect(model)
    assert [c.text for c in old.checks if c.state == "warning"] == [
        "qnn/graphllm7.bin belongs to no plugin op"
    ]
    context(model / "qnn/graphllm1.bin", NEWER, arch=79, soc="SM8750")
    mixed = [check.text for check in inspect(model).checks if check.state == "warning"]
    assert any("of 2 kinds: 2.51.0 for SM8650, 2.52.0 for SM8750" in text for text in mixed)
    (model / "qnn/graphllm1.bin").unlink()
    (model / "qnn/graphllm0.bin").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    found = broken(inspect(model))
    assert len(found) == 2  # each file once, from config and folder alike
    assert any("graphllm1.bin" in text and "does not exist" in text for text in found)
    (model / "config_qnn.json").unlink()
    assert any("qnn/graphllm1.bin is missing" in text for text in broken(inspect(model)))
    assert any("qnn/graphllm1.bin is missing" in text for text in broken(inspect(model / "qnn/llm.mnn")))
    (model / "qnn/graphllm0.bin").write_bytes(b"x" * 5000)
    assert any("carries no QNN version" in check.text for check in inspect(model).checks)


def test_chunk_limits_of_another_export(model: Path) -> None:
    config = json.loads((model / "config_qnn.json").read_text())
    (model / "config_qnn.json").write_text(json.dumps(config | {"chunk_limits": [64, 1]}))
    assert any("64 is no shape of the NPU's graphs" in text for text in broken(inspect(model)))


def test_an_sdk_is_not_called_broken_for_its_many_targets(tmp_path: Path) -> None:
    root = make_sdk(tmp_path / "2.42.0.251225")
    assert not inspect(root).broken


def test_options_across_two_blocks_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "graph.bin"
    block = 1024 * 1024
    for at in (0, 3 * block + 64 * 1024 - 30, 40 * block - 5):
        options = b";soc_type=SM8750;arch=79;num_nsps=1;vtcm_size=8388608;"
        file.write_bytes(BUILD_ID.encode() + b"\0" * (at + 100) + options + b"\0" * at)
        facts = inspect(file).inventory.contexts[0].facts
        assert (facts.soc, facts.arch, facts.vtcm_mb) == ("SM8750", "v79", 8)


def test_forty_graphs_are_quick(tmp_path: Path) -> None:
    for number in range(40):
        os.truncate(context(tmp_path / f"graph{number}.bin"), 200 << 20)  # sparse, as large as real ones
    start = time.perf_counter()
    found = inspect(tmp_path, soc=decide({}, load_chips(), told="SM8650"))
    assert time.perf_counter() - start < 1.0
    assert found.checks[-1].text.startswith("40 context binaries, made by QNN 2.51.0")


def devkit(*args: str) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "devkit", *args]
    return subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)


def test_the_command(model: Path, tmp_path: Path) -> None:
    done = devkit("qnn", "inspect", str(model), "--soc", "SM8650")
    assert done.returncode == 0
    row = next(line for line in done.stdout.splitlines() if line.startswith("qnn/graphllm0.bin"))
    assert BUILD_ID in row and "SM8650, Hexagon v75, 8 MB of VTCM" in row and "128, 1" in row
    done = devkit("--json", "qnn", "inspect", str(model), "--soc", "SM8635")
    data = json.loads(done.stdout)
    assert done.returncode == 1 and data["status"] == "broken" and len(data["graphs"]) == 2
    old = make_sdk(tmp_path / "qairt/2.42.0.251225")
    assert devkit("qnn", "inspect", str(model), "--sdk", str(old)).returncode == 1
    done = devkit("qnn", "inspect", str(C3))
    assert done.returncode == 1 and "libllm.so is for x86_64" in done.stdout
    assert "libQnnHtpV75Skel.so  1." in done.stdout and "hexagon, 32-bit" in done.stdout
    assert devkit("qnn", "inspect", str(model / "tokenizer.mtok")).returncode == 125
    assert devkit("qnn", "inspect", str(tmp_path / "nowhere")).returncode == 2


def test_a_place_that_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        inspect(tmp_path / "nowhere")


def test_a_model_of_forty_graphs(tmp_path: Path) -> None:
    folder = Path(shutil.copytree(DATA / "models/tiny-llm", tmp_path / "model"))
    shutil.copytree(DATA / "models/qnn-40", folder / "qnn")
    for number in range(40):
        context(folder / f"qnn/graphllm{number}.bin")
    config = json.loads((folder / "config.json").read_text())
    config |= {"llm_model": "qnn/llm.mnn", "chunk_limits": [128, 1]}
    (folder / "config_qnn.json").write_text(json.dumps(config))
    found = inspect(folder, soc=decide({}, load_chips(), told="SM8650"))
    assert len(found.graphs) == 40 and found.checks[0].text == "40 plugin ops, 40 graph files: all are there"
    assert not found.broken
    # One of them is of another export.
    context(folder / "qnn/graphllm17.bin", NEWER, 79, "SM8750")
    found = inspect(folder, soc=decide({}, load_chips(), told="SM8650"))
    assert broken(found) == ["context: graphllm17.bin is for Hexagon v79 (SM8750), SM8650 has v75"]
    assert any("of 2 kinds" in check.text for check in found.checks)
