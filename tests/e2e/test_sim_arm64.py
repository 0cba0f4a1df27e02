"""A phone whose programs are arm64 ones, on a machine that is not: qemu behind the kernel's back door."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import REPO, Cli, Sim, start_sim

COMPILER = "aarch64-linux-gnu-g++"

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
    sim = start_sim("arm", tmp_path_factory.mktemp("arm 臂"), adb, abi="arm64-v8a", model="sm8650")
    yield sim
    sim.phone.stop()


@pytest.fixture
def sim(arm_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    monkeypatch.setenv("XDG_STATE_HOME", str(arm_sim.state_home))
    return arm_sim


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The tiny app for arm64: a program, and a library of its own."""
    folder = tmp_path_factory.mktemp("小 arm app")
    for source in ("inner.cpp", "main.cpp"):
        shutil.copy(REPO / "tests/data/tiny" / source, folder)
    # The phone has a C library for arm64, and this machine none of C++'s that could be deployed by itself.
    flags = [COMPILER, "-g", "-O0", "-static-libstdc++", "-static-libgcc"]
    subprocess.run(
        [*flags, "-fPIC", "-shared", "inner.cpp", "-o", "libinner.so", "-Wl,-soname,libinner.so"],
        cwd=folder, check=True,
    )  # fmt: skip
    subprocess.run([*flags, "main.cpp", "-o", "tiny", "-L.", "-linner"], cwd=folder, check=True)
    return folder / "tiny"


def test_the_phone_says_it_is_arm64(sim: Sim, devkit: Cli) -> None:
    shown = devkit("device", "info", "--json").data
    assert (shown["abi"], shown["abilist"]) == ("arm64-v8a", ["arm64-v8a"])
    assert shown["soc"]["model"] == "SM8650"


def test_arm64_programs_are_deployed_and_run(sim: Sim, program: Path, devkit: Cli, device: Device) -> None:
    ran = devkit("run", program)
    assert (ran.code, ran.out) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n")
    assert devkit("run", program, "--", "exit", "42").code == 42
    assert devkit("run", program, "--", "cat", stdin="一 line\n").out == "一 line\n"
    deployed = devkit("deploy", program, "--json").data
    assert {f["remote"] for f in deployed["files"]} == {"tiny", "libinner.so"}
    assert deployed["push_files"] == 0
    # It is the phone's arm64 C library that was used, under a build-id of its own.
    libc = device.read_bytes("/system/lib64/arm64/libc.so.6")
    assert libc != Path("/usr/aarch64-linux-gnu/lib/libc.so.6").read_bytes()


def test_programs_of_this_machine_are_refused_by_devkit(sim: Sim, devkit: Cli) -> None:
    ran = devkit("deploy", "/bin/true")
    assert ran.code == 125
    assert "arm64-v8a" in ran.err


def test_nothing_of_it_reaches_the_machine(sim: Sim, program: Path, device: Device) -> None:
    assert device.shell("ls /proc/sys/fs/binfmt_misc").text == ""
    # Shared storage still runs nothing, whatever the processor.
    device.push_bytes(program.read_bytes(), "/sdcard/tiny", mode=0o755)
    assert device.shell("/sdcard/tiny").exit_code == 126
    try:
        subprocess.run([program], capture_output=True, check=False, timeout=20)
    except OSError:
        return
    # This machine has a rule of its own then; it is not the phone's.
    rules = Path("/proc/sys/fs/binfmt_misc")
    assert rules.is_dir() and any(rules.iterdir())
