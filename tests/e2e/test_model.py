"""`devkit model check` as people start it: alone, with a phone and its libraries, with a build."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli, Sim

TINY = REPO / "tests/data/models/tiny-llm"


@pytest.fixture
def model(workdir: Path) -> Path:
    return Path(shutil.copytree(TINY, workdir / "tiny 模型"))


def put(model: Path, **values: object) -> None:
    path = model / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


def build(folder: Path, opens: str) -> Path:
    source = folder / "backend.c"
    source.write_text(f'#include <dlfcn.h>\nvoid *start(void) {{ return dlopen("{opens}", 2); }}\n')
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"
    library = folder / "libMNN.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-s", str(source), "-o", str(library)], check=True)
    return library


def test_a_good_model_and_a_broken_one(model: Path, devkit: Cli) -> None:
    ran = devkit("model", "check", model, "--no-phone")
    assert (ran.code, ran.out) == (0, f"{model}: 0 errors, 0 warnings in config.json\n")
    (model / "llm.mnn.weight").unlink()
    put(model, thread_nums=4)
    ran = devkit("model", "check", model, "--no-phone")
    assert ran.code == 1
    assert ran.out.splitlines() == [
        "error: llm.mnn.weight: it does not exist",
        "warning: config.json: MNN reads no key thread_nums",
        "  try: did you mean thread_num?",
        f"{model}: 1 error, 1 warning in config.json",
    ]
    ran = devkit("model", "check", model, "--no-phone", "--json")
    assert (ran.code, ran.data["status"], ran.data["errors"]) == (1, "broken", 1)
    assert ran.data["findings"][0] == {
        "severity": "error", "file": "llm.mnn.weight", "key": "llm_weight", "what": "it does not exist",
        "hint": None,
    }  # fmt: skip


def test_no_such_folder_is_a_usage_error(workdir: Path, devkit: Cli) -> None:
    ran = devkit("model", "check", workdir / "nowhere", "--json")
    assert (ran.code, ran.data["kind"]) == (2, "UsageError")


def test_against_the_phone_and_what_is_deployed_there(
    sim: Sim, device: Device, model: Path, workdir: Path, devkit: Cli
) -> None:
    cores = len(os.sched_getaffinity(0))
    folder = "/data/local/tmp/model check 中"
    put(model, backend_type="opencl", mllm={"thread_num": 500})
    where = ("-s", f"sim:{sim.name}", "--json")

    plain = devkit("model", "check", model, *where, DEVKIT_DEVICE_DIR=folder).data
    assert plain["libraries"] is None and plain["phone"] == device.model
    [threads] = plain["findings"]
    assert threads["key"] == "mllm.thread_num" and "500 threads" in threads["what"]
    assert int(threads["hint"].rpartition(" ")[2]) <= cores or cores == 1

    device.shell(["mkdir", "-p", f"{folder}/llm_demo"], check=True)
    device.push_bytes(build(workdir, "libvulkan.so").read_bytes(), f"{folder}/llm_demo/libMNN.so")
    deployed = devkit("model", "check", model, *where, DEVKIT_DEVICE_DIR=folder).data
    assert folder in deployed["libraries"]
    assert {f["key"] for f in deployed["findings"]} == {"backend_type", "mllm.thread_num"}

    put(model, backend_type="vulkan", mllm={"thread_num": 1})
    assert devkit("model", "check", model, *where, DEVKIT_DEVICE_DIR=folder).data["findings"] == []


def test_looking_at_the_phone_is_one_round_trip_each(device: Device) -> None:
    from devkit.models import libraries_on_phone
    from devkit.models.surroundings import find_cores

    assert device.model
    before = device.round_trips
    cores = find_cores(device)
    assert cores is not None and cores.all
    libraries_on_phone(device, "/data/local/tmp/nothing here")
    assert device.round_trips - before == 2


def test_against_a_library_and_a_build(model: Path, workdir: Path, devkit: Cli) -> None:
    put(model, backend_type="opencl")
    library = build(workdir, "libOpenCL.so")
    assert devkit("model", "check", model, "--no-phone", "--library", library).code == 0
    ran = devkit("model", "check", model, "--no-phone", "--library", build(workdir, "libnone.so"), "--json")
    assert (ran.code, ran.data["findings"][0]["key"]) == (1, "backend_type")
    ran = devkit("model", "check", model, "--no-phone", "--library", model / "config.json")
    assert ran.code == 2 and "--library names none of the engine's libraries" in ran.err
    ran = devkit("model", "check", model, "--no-phone", "--profile", "opencl")
    assert ran.code == 125 and "opencl was never built" in ran.err


def test_the_build_of_the_app_that_takes_it_along(model: Path, workdir: Path, devkit: Cli) -> None:
    engine = workdir / "engine"
    engine.mkdir()
    (engine / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(engine C)\n"
        "add_library(MNN SHARED backend.c)\ntarget_link_libraries(MNN ${CMAKE_DL_LIBS})\n"
    )
    (engine / "backend.c").write_text(
        '#include <dlfcn.h>\nvoid *f(void) { return dlopen("libvulkan.so", 2); }\n'
    )
    (engine / "devkit.yaml").write_text(
        "engine: cmake\nprofiles:\n  mine: {target: host}\n"
        f"apps:\n  demo: {{profile: mine, files: [{{local: {model}, remote: model}}]}}\n"
    )
    put(model, backend_type="opencl")
    before = devkit("model", "check", model, "--no-phone", "--json", cwd=engine).data
    assert before["libraries"] is None and before["findings"] == []
    assert devkit("build", "mine", cwd=engine).code == 0
    after = devkit("model", "check", model, "--no-phone", "--json", cwd=engine)
    assert (after.code, after.data["findings"][0]["key"]) == (1, "backend_type")
    assert "the build mine-" in after.data["libraries"]
