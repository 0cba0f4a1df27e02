"""Apps with QNN libraries on the virtual phone: Qualcomm's own for x86_64, opened there by a real program."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import runtime
from devkit.config import load
from devkit.device import Device
from tests.e2e.support import Cli, Ran, Sim
from tests.support.qnn_parts import BUILD_ID, HOST, VERSION, genuine_sdk, with_build_id

PLACE = "/data/local/tmp/qnn 放"
OTHER = "v2.49.0.260929181845"
SOURCE = r"""
#include <dlfcn.h>
#include <cstdio>
#include <cstdlib>
int main() {
  void* library = dlopen("libQnnSystem.so", RTLD_NOW);
  if (!library) { std::printf("dlopen: %s\n", dlerror()); return 3; }
  using Get = unsigned long (*)(const void***, unsigned*);
  auto providers = (Get)dlsym(library, "QnnSystemInterface_getProviders");
  const void** list = nullptr;
  unsigned count = 0;
  Dl_info info;
  dladdr((void*)providers, &info);
  unsigned long error = providers(&list, &count);
  std::printf("%lu %u from %s\n", error, count, info.dli_fname);
  std::printf("ADSP %s\n", std::getenv("ADSP_LIBRARY_PATH") ? "set" : "unset");
}
"""


@pytest.fixture(scope="module")
def sdk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return genuine_sdk(tmp_path_factory.mktemp("SDK 版") / VERSION, HOST)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    folder = tmp_path_factory.mktemp("程 program")
    (folder / "opens.cpp").write_text(SOURCE)
    subprocess.run([compiler, "opens.cpp", "-o", "opens", "-ldl"], cwd=folder, check=True)
    return folder / "opens"


@pytest.fixture
def app(workdir: Path, devkit: Cli, sdk: Path, program: Path, sim: Sim, device: Device) -> Iterator[Cli]:
    """Runs a verb of devkit on an app called opens."""

    def run(verb: str, *args: str, backend: str = "gpu", files: str = "[]") -> Ran:
        (workdir / "devkit.yaml").write_text(
            f"device: {{dir: '{PLACE}'}}\nqnn: {{path: '{sdk}'}}\n"
            f"apps: {{opens: {{target: '{program}', backend: {backend}, files: {files}}}}}\n"
        )
        return devkit(verb, "opens", *args)

    yield run
    device.shell(["rm", "-rf", PLACE], check=True)


def test_the_set_travels_and_is_what_the_program_opens(app: Cli, device: Device) -> None:
    plan = app("deploy", "--dry-run", "--json")
    assert plan.code == 0, plan.err
    reasons = {f["remote"]: f["reason"] for f in plan.data["files"]}
    assert reasons["libQnnGpu.so"] == reasons["libQnnSystem.so"] == f"QNN gpu, SDK {VERSION}"
    assert reasons[".devkit-qnn.json"] == "says which QNN files belong together"
    assert any(reason == "needed by libQnnSystem.so" for reason in reasons.values()), reasons
    ran = app("run")
    assert ran.code == 0, ran.err
    assert f"0 1 from {PLACE}/opens/libQnnSystem.so" in ran.out and "ADSP set" in ran.out
    assert BUILD_ID.encode() in device.read_bytes(f"{PLACE}/opens/.devkit-qnn.json")
    assert "nothing to push" in app("deploy").out
    # Another backend: another set, and the manifest with it.
    assert app("run", backend="none").code == 0


def test_an_unchanged_set_costs_no_round_trip(app: Cli, workdir: Path, sim: Sim) -> None:
    assert app("deploy").code == 0
    counts = []
    for backend in ("gpu", "none"):
        (workdir / "devkit.yaml").write_text(
            (workdir / "devkit.yaml").read_text().replace("backend: gpu", f"backend: {backend}")
        )
        config, phone = load(workdir), sim.device()
        prepared = runtime.prepare_app(config, phone, runtime.build_app(config, phone, "opens"))
        assert not prepared.plan.to_push
        runtime.deploy_app(phone, prepared)
        counts.append(phone.round_trips)
    # What is there of the set is seen by the look that every deployment takes.
    assert counts[0] == counts[1] <= 4


def test_a_stranger_on_the_phone_is_named_before_the_program_starts(
    app: Cli, device: Device, sdk: Path
) -> None:
    assert app("deploy").code == 0
    old = with_build_id(sdk / "lib/x86_64-linux-clang/libQnnIr.so", sdk.parent / "old/libQnnIr.so", OTHER)
    place = f"{PLACE}/opens/libQnnIr.so"
    device.push_bytes(old.read_bytes(), place)
    ran = app("run")
    assert ran.code == 125 and "0 1 from" not in ran.out
    assert "libQnnIr.so on the phone does not belong to the QNN set of this app" in ran.err
    assert f"libQnnIr.so is of QNN {OTHER}" in ran.err and f"gpu of QNN {VERSION} ({BUILD_ID})" in ran.err
    assert f"try: devkit device shell -- rm '{place}'" in ran.err
    # The very same SDK's is no stranger; one without a version is told by its content.
    device.push_bytes((sdk / "lib/x86_64-linux-clang/libQnnIr.so").read_bytes(), place)
    extension = "libQnnHtpNetRunExtensions.so"
    device.push_bytes(
        (sdk / f"lib/x86_64-linux-clang/{extension}").read_bytes(), f"{PLACE}/opens/{extension}"
    )
    device.push_bytes(b"\x7fELF of somebody", f"{PLACE}/opens/libQnnMyOpPackage.so")
    assert app("run").code == 0
    device.push_bytes(b"\x7fELF of another SDK", f"{PLACE}/opens/{extension}")
    ran = app("run")
    assert ran.code == 125 and f"{extension} is not the SDK's copy" in ran.err


def test_the_users_own_library_of_another_version_never_travels(app: Cli, device: Device, sdk: Path) -> None:
    folder = sdk / "lib/x86_64-linux-clang"
    old = with_build_id(folder / "libQnnGpu.so", sdk.parent / "old/libQnnGpu.so", OTHER)
    ran = app("deploy", files=f"['{old}']")
    assert ran.code == 125 and "libQnnGpu.so under `files:` is not of the QNN SDK" in ran.err
    assert (
        f"{old}: {OTHER}" in ran.err and device.stat([f"{PLACE}/opens/opens"])[f"{PLACE}/opens/opens"] is None
    )
    # The same file by another path is as good as the SDK's.
    same = sdk.parent / "same/libQnnGpu.so"
    same.parent.mkdir()
    shutil.copy(folder / "libQnnGpu.so", same)
    plan = app("deploy", "--dry-run", "--json", files=f"['{same}']")
    assert plan.code == 0, plan.err
    assert [f["reason"] for f in plan.data["files"] if f["remote"] == "libQnnGpu.so"] == [
        "devkit.yaml files:"
    ]
    # By hand, without `backend:`, the versions have to agree as well.
    ran = app("deploy", backend="none", files=f"['{old}', '{folder / 'libQnnIr.so'}']")
    assert ran.code == 125 and "the QNN libraries under `files:` are of several versions" in ran.err


def test_the_list_of_a_set_needs_no_phone(devkit: Cli, tmp_path: Path) -> None:
    sdk = genuine_sdk(tmp_path / VERSION)
    shown = devkit(
        "qnn", "libs", "htp-offline", "--soc", "SM8650", "--sdk", sdk, "--program", "qnn-net-run", "--json"
    )
    names = [f["name"] for f in shown.data["files"]]
    assert names[-2:] == ["libQnnHtpV75Stub.so", "libQnnHtpV75Skel.so"]
    assert "libQnnHtpNetRunExtensions.so" in names
    assert shown.data["environment"]["ADSP_LIBRARY_PATH"] == "/data/local/tmp/devkit/APP"
    assert devkit("qnn", "libs", "--arch", "v99", "--sdk", sdk).code == 125
    wrong = devkit("qnn", "libs", "--soc", "SM8651", "--sdk", sdk)
    assert wrong.code == 2 and "did you mean SM8650?" in wrong.err


def test_the_list_of_a_set(devkit: Cli, sdk: Path, sim: Sim) -> None:
    shown = devkit("qnn", "libs", "gpu", "--sdk", sdk, "--json").data
    assert [(f["name"], f["build_id"]) for f in shown["files"]] == [
        ("libQnnGpu.so", BUILD_ID), ("libQnnSystem.so", None),
    ]  # fmt: skip
    wrong = devkit("qnn", "libs", "htp", "--sdk", sdk)
    assert wrong.code == 2 and "did you mean htp-online or htp-offline?" in wrong.err
    lacks = devkit("qnn", "libs", "cpu", "--sdk", sdk)
    assert lacks.code == 125 and "no libQnnCpu.so, which the backend cpu needs" in lacks.err
