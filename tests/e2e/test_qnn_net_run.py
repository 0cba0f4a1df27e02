"""`devkit qnn net-run` on the virtual phone: the articles' matrix product, from ONNX to a verdict."""

from __future__ import annotations

import json
import shutil
from array import array
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli, Sim
from tests.support.qnn_net_run import VERSION, net_run_sdk

PLACE = "/data/local/tmp/网 run"
K1 = Path(__file__).parents[1] / "data/cases/K1/run.log"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return net_run_sdk(tmp_path_factory.mktemp("SDK 版") / VERSION)


@pytest.fixture
def demo(workdir: Path, devkit: Cli, sdk: Path, sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("QNN_SDK_ROOT", "QAIRT_SDK_ROOT", "STANDIN_FAIL"):
        monkeypatch.delenv(name, raising=False)
    (workdir / "devkit.yaml").write_text(f"device: {{dir: '{PLACE}', soc: SM8650}}\nqnn: {{path: '{sdk}'}}\n")
    made = devkit("qnn", "net-run", "--example", "演 demo")
    assert made.code == 0, made.err
    refused = devkit("qnn", "net-run", "--example", "none", "--dry-run")
    assert refused.code == 2 and not (workdir / "none").exists()
    return workdir / "演 demo"


def words(demo: Path) -> list[str]:
    return [
        str(demo / "matmul.onnx"),
        "--input",
        str(demo / "input.raw"),
        "--reference",
        str(demo / "reference.npy"),
    ]


def test_the_articles_matrix_product(
    devkit: Cli, demo: Path, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = workdir / "calls"
    monkeypatch.setenv("STANDIN_LOG", str(log))
    plan = devkit("qnn", "net-run", *words(demo), "--dry-run")
    assert plan.code == 0 and " --input_network " in plan.out and "push and run libmatmul.so" in plan.out, (
        plan.err
    )
    assert not (workdir / "devkit-out").exists() and not log.exists()
    ran = devkit("qnn", "net-run", *words(demo), "--json", "--profiling", "linting")
    assert ran.code == 0, ran.err + ran.out
    results = {one["backend"]: one for one in ran.data["results"]}
    assert {name: one["state"] for name, one in results.items()} == dict.fromkeys(("cpu", "gpu", "htp"), "ok")
    errors = {name: one["comparisons"][0]["max_abs"] for name, one in results.items()}
    assert errors["cpu"] < 1e-4 < errors["htp"] < 0.05
    # What the phone wrote is read by the SDK's own viewer.
    [profile] = results["htp"]["profiles"]
    read = devkit("profile", "--engine", profile, "--json")
    assert read.code == 0, read.err
    assert read.data["engine"][0]["operators"] == [["MatMul_linting", "", 6000.0, 1]]
    assert log.read_text().split() == ["qnn-onnx-converter", "qnn-model-lib-generator", "qnn-profile-viewer"]
    # HTP is no CPU: what passes depends on what is allowed.
    strict = devkit("qnn", "net-run", *words(demo), "--on", "htp", "--tolerance", "1e-6")
    assert strict.code == 1 and "differs, most at value" in strict.out
    # Compiled here for the phone's chip; nothing is converted a second time.
    offline = devkit("qnn", "net-run", *words(demo), "--offline", "--on", "htp")
    assert offline.code == 0 and "  ok" in offline.out, offline.err + offline.out
    assert log.read_text().split()[3:] == ["qnn-context-binary-generator"]
    context = workdir / "devkit-out/net-run/matmul/context/matmul.bin"
    assert b"soc_type=SM8650;arch=75;" in context.read_bytes()
    again = devkit("qnn", "net-run", context, *words(demo)[1:], "--json")
    assert again.code == 0 and [one["backend"] for one in again.data["results"]] == ["htp"], again.err


def test_several_inferences_and_outputs_that_are_wrong(devkit: Cli, demo: Path, workdir: Path) -> None:
    other = workdir / "零 zero.raw"
    other.write_bytes(bytes(512))
    (workdir / "list.txt").write_text("演" + " demo/input.raw\n")  # a blank is a separator there
    refused = devkit("qnn", "net-run", demo / "matmul.onnx", "--input", "list.txt")
    assert refused.code == 2 and "does not exist" in refused.err
    reference = ["--reference", str(demo / "reference.npy")]
    ran = devkit(
        "qnn", "net-run", demo / "matmul.onnx", "--on", "cpu", "--input", f"A:={demo / 'input.raw'}",
        "--input", other, *reference, *reference, "--json",
    )  # fmt: skip
    assert ran.code == 1, ran.err
    first, second = ran.data["results"][0]["comparisons"]
    assert first["within"] and not second["within"] and second["max_abs"] > 1
    short = workdir / "short.raw"
    short.write_bytes(array("f", [1.0]).tobytes())
    ran = devkit("qnn", "net-run", *words(demo)[:-1], short, "--on", "cpu")
    assert ran.code == 1 and "64 values, the reference short.raw has 1" in ran.out
    ran = devkit("qnn", "net-run", demo / "matmul.onnx", "--input", short, "--on", "cpu")
    assert ran.code == 1 and "cpu: failed" in ran.out


def test_a_failing_tool_and_a_failing_phone(devkit: Cli, demo: Path, device: Device, workdir: Path) -> None:
    ran = devkit("qnn", "net-run", *words(demo), "--on", "cpu", STANDIN_FAIL="qnn-onnx-converter")
    assert ran.code == 125 and "qnn-onnx-converter failed (no matmul.cpp was made)" in ran.err
    assert "Error: something is wrong with the graph" in ran.err
    # The phone's own Stub of an old version: the first line is the cause.
    device.push_bytes(K1.read_bytes(), "/data/local/tmp/k1.log")
    ran = devkit(
        "qnn",
        "net-run",
        *words(demo),
        "--on",
        "htp",
        "--extra=--fail",
        "--extra=/data/local/tmp/k1.log",
        "--json",
    )
    assert ran.code == 1, ran.err
    (one,) = ran.data["results"]
    assert one["state"] == "failed" and "Stub lib id mismatch" in one["why"], json.dumps(one)
    device.shell(["rm", "/data/local/tmp/k1.log"], check=True)


FORCED = {
    # What QNN prints, as users have published it, when what is refused before a run is run all the same.
    "wrong arch": (
        "QnnDsp <V> skel file path file:///libQnnHtpV73Skel.so?qnn_skel_handle_invoke&_dom=cdsp\n"
        "QnnDsp <E> DspTransport.openSession qnn_open failed, 0x80000406\n"
        "QnnDsp <E> Transport layer setup failed: 14001\n",
        "cannot be opened by the DSP",
    ),
    "stale context": (
        "QnnDsp <E> Failed to create context from binary with err 5000\n[ ERROR ] Could not create context\n",
        "context binary",
    ),
    "missing library": (
        '[ ERROR ] Unable to load backend. dlerror(): library "libQnnHtpPrepare.so" not found\n',
        "libQnnHtpPrepare.so",
    ),
}


@pytest.mark.parametrize("kind", FORCED)
def test_what_is_forced_through_is_explained(kind: str, devkit: Cli, demo: Path, device: Device) -> None:
    log, said = FORCED[kind]
    device.push_bytes(log.encode(), "/data/local/tmp/forced.log")
    ran = devkit(
        "qnn", "net-run", *words(demo), "--on", "htp",
        "--extra=--fail", "--extra=/data/local/tmp/forced.log", "--json",
    )  # fmt: skip
    assert ran.code == 1, ran.err
    (one,) = ran.data["results"]
    assert one["state"] == "failed" and said in one["why"], one["why"]
    assert log.splitlines()[-1] not in one["why"] or len(log.splitlines()) == 1
    device.shell(["rm", "/data/local/tmp/forced.log"], check=True)


def test_a_context_for_another_chip_never_travels(
    devkit: Cli, demo: Path, sdk: Path, workdir: Path, device: Device
) -> None:
    options = b"soc_type=SM8750;arch=79;num_nsps=1;l2tcm_kb=0;vtcm_size=8388608;"
    newer = workdir / "newer.bin"
    newer.write_bytes(b"\0\0\0\2".ljust(820, b"\0") + b"v2.43.0.260110120000_1" + b"\0" * 9000 + options)
    ran = devkit("qnn", "net-run", newer, "--input", demo / "input.raw")
    assert ran.code == 125, ran.out
    assert "newer.bin was made by a newer QNN than the libraries that would load it" in ran.err
    place = f"{PLACE}/net-run-htp/newer.bin"
    assert device.stat([place])[place] is None


def test_an_op_package_is_built_and_registered(
    devkit: Cli, demo: Path, workdir: Path, device: Device
) -> None:
    package = Path(shutil.copytree(REPO / "tests/data/qnn/op-package", workdir / "包 package"))
    missing = devkit("qnn", "op-package", "deploy", package)
    assert missing.code == 125 and "there is no op package in" in missing.err
    planned = devkit("qnn", "op-package", "build", package, "--dry-run")
    assert planned.code == 0 and planned.out.endswith("htp_x86\n") and not (package / "build").exists()
    assert devkit("qnn", "op-package", "build", package).code == 0
    sent = devkit("qnn", "op-package", "deploy", package, "--to", "mine", "--json")
    assert sent.code == 0, sent.err
    assert sent.data["op_packages"] == "libQnnHtpOpPackageTest.so:testOpPackageInterfaceProvider:CPU"
    place = f"{PLACE}/mine/libQnnHtpOpPackageTest.so"
    status = device.stat([place])[place]
    assert status is not None and status.size == next(package.glob("build/*/*.so")).stat().st_size
    ran = devkit("qnn", "net-run", *words(demo), "--on", "htp", "--op-package", package)
    assert ran.code == 0 and "Op package for CPU registered" in ran.out, ran.err + ran.out


def test_the_articles_programs_are_built_and_read(devkit: Cli, demo: Path, workdir: Path, sdk: Path) -> None:
    """A CMake project of one's own: built against the SDK, sent with its set, its table read."""
    table = (REPO / "tests/data/results/qnn_online_matmul.txt").read_text()
    own = workdir / "自 own"
    own.mkdir()
    (own / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(own CXX)\n"
        'if(NOT EXISTS "$ENV{QNN_SDK_ROOT}/include/QNN/QnnInterface.h")\n'
        '  message(FATAL_ERROR "no QNN SDK")\nendif()\n'
        "add_executable(qnn_online_matmul main.cpp)\n"
        'target_include_directories(qnn_online_matmul PRIVATE "$ENV{QNN_SDK_ROOT}/include/QNN")\n'
        "target_link_libraries(qnn_online_matmul dl)\n"
    )
    (own / "main.cpp").write_text(
        "#include <QnnInterface.h>\n#include <cstdio>\n#include <dlfcn.h>\n"
        "int main(int, char** argv) {\n"
        "  if (!dlopen(argv[1], RTLD_NOW)) return std::puts(dlerror()), 1;\n"
        f'  std::puts(R"({table})");\n}}\n'
    )
    (own / "devkit.yaml").write_text(
        f"engine: cmake\ndevice: {{dir: '{PLACE}'}}\nqnn: {{path: '{sdk}'}}\n"
        "profiles: {qnn: {extends: device, needs: [ndk>=21, qnn>=2.30]}}\n"
        "apps:\n  matmul: {profile: qnn, target: qnn_online_matmul, backend: htp-online,\n"
        "           args: [./libQnnHtp.so]}\n"
    )
    ran = devkit("run", "matmul", "--json", cwd=own)
    assert ran.code == 0, ran.err + ran.out
    assert ran.data["status"] == "ok" and ran.data["parser"] == "qnn_benchmark", ran.out[:1500]
    # An SDK that is too old is said before CMake runs.
    (own / "devkit.yaml").write_text((own / "devkit.yaml").read_text().replace("qnn>=2.30", "qnn>=2.99"))
    old = devkit("build", "qnn", cwd=own)
    assert old.code == 125 and "needs 2.99 or later" in old.err
