"""devkit's own code on phones from Android 6 to 14: the same results, whatever the phone can do."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.errors import DeviceError
from tests.e2e.support import LOOK, Cli, Sim, TinyApp, eventually, left_on_phone, start_sim


@pytest.fixture(scope="module", params=["6", "8", "11", "14"])
def release(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def old_sim(tmp_path_factory: pytest.TempPathFactory, adb: Path, release: str) -> Iterator[Sim]:
    sim = start_sim(f"android-{release}", tmp_path_factory.mktemp("old 旧"), adb, android=release)
    yield sim
    sim.phone.stop()


@pytest.fixture
def sim(old_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    monkeypatch.setenv("XDG_STATE_HOME", str(old_sim.state_home))
    return old_sim


def test_it_is_that_release(device: Device, release: str) -> None:
    assert device.api_level == {"6": 23, "8": 26, "11": 30, "14": 34}[release]
    assert ("shell_v2" in device.features) == (release != "6")
    # ro.soc.* came with Android 12.
    assert ("ro.soc.model" in device.properties) == (release == "14")


def test_exit_codes_output_and_input(device: Device) -> None:
    done = device.shell("echo out; cat; exit 42", stdin="一 in\n".encode() * 3000)
    assert done.exit_code == 42
    assert done.text == "out\n" + "一 in\n" * 3000
    assert device.shell("kill -9 $$").exit_code == 137
    assert device.shell("echo to stderr >&2", check=True).exit_code == 0
    with pytest.raises(DeviceError, match="failed"):
        device.shell("false", check=True)


def test_binary_output_is_unharmed(device: Device) -> None:
    data = bytes(range(256)) * 400
    device.push_bytes(data, "/data/local/tmp/二 bytes")
    assert device.shell("cat '/data/local/tmp/二 bytes'").stdout == data


def test_files_travel_with_their_times(device: Device, workdir: Path) -> None:
    data = os.urandom(2_500_000)
    device.push_bytes(data, "/data/local/tmp/f 文", mode=0o755, mtime_s=1_600_000_000)
    facts = device.stat(["/data/local/tmp/f 文", "/data/local/tmp/none"])
    found = facts["/data/local/tmp/f 文"]
    assert found is not None and found.size == len(data) and found.mtime_s == 1_600_000_000
    assert facts["/data/local/tmp/none"] is None
    assert device.pull("/data/local/tmp/f 文", workdir / "back") == len(data)
    assert (workdir / "back").read_bytes() == data
    assert "f 文" in device.list_dir("/data/local/tmp")
    with pytest.raises(DeviceError):
        device.read_bytes("/data/local/tmp/none")


def test_processes_are_listed(device: Device) -> None:
    assert device.find_process("adbd").user in ("shell", "root")


def test_a_program_is_deployed_and_runs(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    ran = devkit("run", tiny.program)
    assert (ran.code, ran.out) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n")
    again = devkit("deploy", tiny.program, "--json").data
    assert again["push_files"] == 0
    assert devkit("run", tiny.program, "--", "exit", "42").code == 42
    if "shell_v2" in device.features:
        # Without it the protocol cannot close one direction: a program would wait for ever.
        assert devkit("run", tiny.program, "--", "cat", stdin="line 行\n").out == "line 行\n"
    assert left_on_phone(device, "tiny") == []
    assert eventually(lambda: not any(LOOK in " ".join(p.cmdline) for p in device.list_processes()))


def test_what_devkit_says_of_the_phone(sim: Sim, devkit: Cli, device: Device, release: str) -> None:
    shown = devkit("device", "info", "--json").data
    assert shown["android"].split(".")[0] == release
    assert shown["api_level"] == device.api_level
