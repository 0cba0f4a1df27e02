"""A model against the phone's cores and the engine's libraries."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.device.cores import parse_cores
from devkit.models import check_model, libraries_here
from devkit.models.cores import strong_cores

DATA = Path(__file__).parents[2] / "data/models"
# cpu_capacity and cpuinfo_max_freq of phones; the last two are of kernels that tell no capacity.
SYSFS = "/sys/devices/system/cpu"


def listing(cores: list[tuple[int | None, int]]) -> str:
    lines = [f"{SYSFS}/online:0-{len(cores) - 1}"]
    for number, (capacity, khz) in enumerate(cores):
        lines += [f"{SYSFS}/cpu{number}/cpu_capacity:{capacity}"] if capacity else []
        lines += [f"{SYSFS}/cpu{number}/cpufreq/cpuinfo_max_freq:{khz}"] if khz else []
    return "\n".join(lines)


SM8550 = listing([(330, 2016000)] * 3 + [(870, 2803200)] * 4 + [(1024, 3187200)])
SM8750 = listing([(760, 3532800)] * 6 + [(1024, 4320000)] * 2)
CLOCKS_ONLY = listing([(None, 1804800)] * 4 + [(None, 2419200)] * 3 + [(None, 2841600)])
NOTHING = listing([(None, 0)] * 2)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return Path(shutil.copytree(DATA / "tiny-llm", tmp_path / "model"))


def put(model: Path, **values: object) -> None:
    path = model / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.parametrize(
    ("text", "cores", "strong"),
    [(SM8550, 8, 5), (SM8750, 8, 8), (CLOCKS_ONLY, 8, 4), (NOTHING, 2, 2), ("", 0, 0)],
)
def test_strong_cores(text: str, cores: int, strong: int) -> None:
    found = parse_cores(text)
    assert (len(found.all), len(strong_cores(found))) == (cores, strong)


def test_a_core_that_is_off_for_a_moment_counts() -> None:
    found = parse_cores(SM8550.replace("online:0-7", "online:0-3"))
    assert found.online == (0, 1, 2, 3) and len(found.all) == 8 and len(strong_cores(found)) == 5


@pytest.mark.parametrize(
    ("threads", "backend", "severity"),
    [
        (1, "cpu", None), (5, "cpu", None), (6, "cpu", "warning"), (8, "cpu", "warning"), (9, "cpu", "error"),
        (68, "opencl", None),
    ],
)  # fmt: skip
def test_threads_against_the_phone(model: Path, threads: int, backend: str, severity: str | None) -> None:
    put(model, thread_num=threads, backend_type=backend)
    report = check_model(model, cores=parse_cores(SM8550), phone="a phone")
    assert [f.severity for f in report.findings] == ([severity] if severity else [])
    assert report.phone == "a phone"
    for finding in report.findings:
        assert finding.hint == '"thread_num": 5' and "a phone has" in finding.what


def test_threads_that_nobody_set(model: Path) -> None:
    # The default is 4, also on two cores.
    config = json.loads((model / "config.json").read_text())
    del config["thread_num"]
    (model / "config.json").write_text(json.dumps(config))
    [finding] = check_model(model, cores=parse_cores(NOTHING)).findings
    assert (finding.severity, finding.key) == ("error", "thread_num") and finding.what.startswith("4 threads")


def library(folder: Path, name: str, opens: str) -> Path:
    """A stripped library that opens another at run time, as MNN's backends do."""
    source = folder / "backend.c"
    source.write_text(f'#include <dlfcn.h>\nvoid *start(void) {{ return dlopen("{opens}", 2); }}\n')
    path = folder / name
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"
    subprocess.run([compiler, "-shared", "-fPIC", "-s", str(source), "-o", str(path)], check=True)
    return path


@pytest.mark.parametrize(
    ("backend", "opens", "profile"),
    [
        ("opencl", "libOpenCL.so", "opencl"), ("vulkan", "libvulkan.so", "vulkan"),
        ("npu", "libQnnHtp.so", "qnn-online"),
        ("npu", "libneuralnetworks.so", "qnn-online"), ("hexagon", "libMNN_htpops.so", "hexagon"),
    ],
)  # fmt: skip
def test_backends_in_a_stripped_library(
    model: Path, tmp_path: Path, backend: str, opens: str, profile: str
) -> None:
    put(model, backend_type=backend)
    with_it = libraries_here([library(tmp_path, "libMNN.so", opens)], "the build")
    assert with_it.backends == {backend}
    assert check_model(model, libraries=with_it).findings == ()
    without = libraries_here([library(tmp_path, "libMNN.so", "libother.so")], "the build")
    [finding] = check_model(model, libraries=without).findings
    assert (finding.severity, finding.key) == ("error", "backend_type")
    assert f"{backend} is not built into libMNN.so (the build)" in finding.what
    assert finding.hint.startswith(f"devkit build {profile},")


def test_a_backend_in_a_library_of_its_own(model: Path, tmp_path: Path) -> None:
    put(model, backend_type="opencl")
    core = library(tmp_path, "libMNN.so", "libother.so")
    both = [core, library(tmp_path, "libMNN_CL.so", "libOpenCL.so")]
    assert check_model(model, libraries=libraries_here(both, "here")).findings == ()
    assert check_model(model, libraries=libraries_here(both[:1], "here")).broken


def test_the_cpu_needs_nothing_and_no_library_proves_nothing(model: Path, tmp_path: Path) -> None:
    assert (
        check_model(model, libraries=libraries_here([library(tmp_path, "libMNN.so", "x.so")], "")).findings
        == ()
    )
    put(model, backend_type="opencl")
    other = libraries_here([library(tmp_path, "libc++_shared.so", "x.so")], "here")
    assert other.names == () and check_model(model, libraries=other).findings == ()


def test_backends_of_other_systems(model: Path) -> None:
    put(model, backend_type="metal")
    [finding] = check_model(model).findings
    assert finding.severity == "warning" and "Apple" in finding.what


def test_npu_models_want_the_plugin(model: Path, tmp_path: Path) -> None:
    shutil.copytree(DATA / "qnn", model / "qnn")
    for number in (0, 1):
        (model / f"qnn/graphllm{number}.bin").write_bytes(b"x" * 5000)
    put(model, llm_model="qnn/llm.mnn", chunk_limits=[128, 1])
    with_it = libraries_here([library(tmp_path, "libMNN.so", "MNN_QNN: Incorrect Plugin Op")], "the build")
    assert check_model(model, libraries=with_it).findings == ()
    without = libraries_here([library(tmp_path, "libMNN.so", "libQnnHtp.so")], "the build")
    [finding] = check_model(model, libraries=without).findings
    assert "the model does not load" in finding.what and "MNN_WITH_PLUGIN=ON" in finding.hint
