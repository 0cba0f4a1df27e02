"""The set for the NPU, of Qualcomm's own libraries, on an arm64 phone with the properties of a Snapdragon."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Cli, Ran, Sim, start_sim
from tests.support.qnn_parts import BUILD_ID, PHONE, VERSION, genuine_sdk

COMPILER = "aarch64-linux-gnu-g++"
TARGET = "aarch64-oe-linux-gcc11.2"
LIBRARIES = Path("/usr/aarch64-linux-gnu/lib")
PLACE = "/data/local/tmp/npu"
SOURCE = r"""
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
int main() {
  for (const char* name : {"libQnnHtp.so:QnnInterface_getProviders",
                           "libQnnSystem.so:QnnSystemInterface_getProviders"}) {
    char file[64];
    const char* symbol = name;
    int n = 0;
    while (*symbol != ':') file[n++] = *symbol++;
    file[n] = 0;
    void* library = dlopen(file, RTLD_NOW);
    if (!library) { std::printf("dlopen: %s\n", dlerror()); return 3; }
    auto providers = (unsigned long (*)(const void***, unsigned*))dlsym(library, symbol + 1);
    const void** list = nullptr;
    unsigned count = 0;
    unsigned long error = providers(&list, &count);
    std::printf("%s %lu %u\n", file, error, count);
  }
  std::printf("ADSP %s\n", std::getenv("ADSP_LIBRARY_PATH"));
}
"""

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(os.uname().machine != "x86_64", reason="arm64 is this machine's own"),
    pytest.mark.skipif(
        shutil.which(COMPILER) is None or shutil.which("qemu-aarch64-static") is None,
        reason="needs g++-aarch64-linux-gnu and qemu-user-static (script/test --all installs them)",
    ),
]


@pytest.fixture(scope="module")
def arm_sim(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("npu", tmp_path_factory.mktemp("arm 臂"), adb, abi="arm64-v8a", model="sm8650")
    yield sim
    sim.phone.stop()


@pytest.fixture
def sim(arm_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    monkeypatch.setenv("XDG_STATE_HOME", str(arm_sim.state_home))
    return arm_sim


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = genuine_sdk(tmp_path_factory.mktemp("SDK 版") / VERSION, PHONE, TARGET)
    for name in ("libstdc++.so.6", "libgcc_s.so.1", "libatomic.so.1"):
        shutil.copy(LIBRARIES / name, root / "lib" / TARGET)
    return root


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("程 program")
    (folder / "opens.cpp").write_text(SOURCE)
    flags = ["-static-libstdc++", "-static-libgcc"]
    subprocess.run([COMPILER, *flags, "opens.cpp", "-o", "opens", "-ldl"], cwd=folder, check=True)
    return folder / "opens"


@pytest.fixture
def app(workdir: Path, devkit: Cli, sdk: Path, program: Path, sim: Sim, device: Device) -> Iterator[Cli]:
    def run(verb: str, *args: str, backend: str = "htp-offline", files: str = "[]", more: str = "") -> Ran:
        (workdir / "devkit.yaml").write_text(
            f"device: {{dir: {PLACE}{more}}}\nqnn: {{path: '{sdk}'}}\n"
            f"apps: {{opens: {{target: '{program}', backend: {backend}, files: {files}}}}}\n"
        )
        return devkit(verb, "opens", *args)

    yield run
    device.shell(["rm", "-rf", PLACE], check=True)


def test_the_set_of_the_phones_chip(app: Cli, device: Device) -> None:
    plan = app("deploy", "--dry-run", "--json")
    assert plan.code == 0, plan.err
    names = [f["remote"] for f in plan.data["files"] if "Qnn" in f["remote"]]
    assert names == ["libQnnHtp.so", "libQnnSystem.so", "libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so"]
    ran = app("run")
    assert ran.code == 0, ran.err
    assert ran.out == f"libQnnHtp.so 0 1\nlibQnnSystem.so 0 1\nADSP {PLACE}/opens\n"
    said = json.loads(device.read_bytes(f"{PLACE}/opens/.devkit-qnn.json"))
    assert (said["build_id"], said["arch"], said["soc_model"]) == (BUILD_ID, "v75", 57)
    # The chip decides: told another one, its Stub and Skel travel, and those of before are strangers no more
    # than before, being of the same SDK.
    told = app("deploy", "--json", more=", soc: SM8550")
    assert told.code == 0, told.err
    assert "libQnnHtpV73Skel.so" in {f["remote"] for f in told.data["files"]}
    assert json.loads(device.read_bytes(f"{PLACE}/opens/.devkit-qnn.json"))["arch"] == "v73"


def test_a_graph_for_another_chip_never_travels(app: Cli, workdir: Path, device: Device) -> None:
    options = b"soc_type=SM8750;arch=79;num_nsps=1;l2tcm_kb=0;vtcm_size=8388608;"
    (workdir / "graph0.bin").write_bytes(
        b"\0\0\0\2".ljust(820, b"\0") + BUILD_ID.encode() + b"\0" * 9000 + options
    )
    ran = app("run", backend="htp", files="[graph0.bin]")
    assert ran.code == 125
    assert "graph0.bin is for Hexagon v79 (SM8750), the phone has v75 (SM8650)" in ran.err
    assert device.stat([f"{PLACE}/opens/opens"])[f"{PLACE}/opens/opens"] is None
