"""Models through the real adb, and what devkit makes of them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Cli, Sim, eventually, start_sim


@pytest.fixture(scope="module", params=["sm8750", "no-qualcomm"])
def model_sim(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, adb: Path
) -> Iterator[Sim]:
    sim = start_sim("model", tmp_path_factory.mktemp("模 model"), adb, model=request.param)
    yield sim
    sim.phone.stop()


@pytest.fixture
def sim(model_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    monkeypatch.setenv("XDG_STATE_HOME", str(model_sim.state_home))
    return model_sim


@pytest.fixture
def model(sim: Sim) -> str:
    return sim.phone.record.model


def lines(device: Device, command: str) -> list[str]:
    return device.shell(command, check=True).text.splitlines()


def test_devkit_sees_the_chip(sim: Sim, devkit: Cli, model: str) -> None:
    shown = devkit("device", "info", "--json").data
    expected = {
        "sm8750": {"manufacturer": "QTI", "model": "SM8750", "board": "sun"},
        "no-qualcomm": {"manufacturer": "Mediatek", "model": "MT6989", "board": "mt6989"},
    }
    assert shown["soc"] == expected[model]
    assert expected[model]["model"] in devkit("device", "info").out


def test_what_the_chip_is_to_qnn(sim: Sim, devkit: Cli, workdir: Path, model: str) -> None:
    shown = devkit("device", "info", "--json").data["qnn"]
    if model == "no-qualcomm":
        assert (shown["state"], shown["soc_model"], shown["dsp_arch"]) == ("no HTP", None, None)
        # The user knows better: the phone's words do not count then.
        (workdir / "devkit.yaml").write_text(
            "device: {soc: OURS}\nsocs: {OURS: {soc_model: 9, dsp_arch: v90}}\n"
        )
        shown = devkit("device", "info", "--json").data["qnn"]
        assert (shown["soc_model"], shown["dsp_arch"], shown["decided_by"]) == (9, "v90", "device.soc")
        return
    assert (shown["soc_model"], shown["dsp_arch"], shown["vtcm_mb"]) == (69, "v79", 8)
    assert (shown["state"], shown["decided_by"], shown["warnings"]) == ("known", "ro.soc.model", [])
    assert "soc_model 69, dsp_arch v79, VTCM 8 MB, by ro.soc.model" in devkit("device", "info").out
    (workdir / "devkit.yaml").write_text("device: {soc: SM8550}\n")
    told = devkit("device", "info")
    assert "dsp_arch v73" in told.out and "device.soc says SM8550, but ro.soc.model says SM8750" in told.err
    # The kernel's number is another source: 618 is SM8750 there.
    assert "soc_id 618 says SM8750" in told.err


def test_the_kernels_number_of_the_chip(device: Device, model: str) -> None:
    if model == "sm8750":
        assert lines(device, "cat /sys/devices/soc0/soc_id") == ["618"]
    else:
        assert device.shell("ls /sys/devices/soc0").exit_code != 0


def test_temperatures_move(device: Device) -> None:
    def look() -> list[str]:
        return lines(device, "cat /sys/class/thermal/thermal_zone*/temp")

    first = look()
    assert all(20_000 < int(value) < 60_000 for value in first)
    assert eventually(lambda: look() != first, 10)
    assert "battery" in lines(device, "cat /sys/class/thermal/thermal_zone*/type")


def test_processors_are_the_machines_with_the_models_clocks(device: Device) -> None:
    cpus = lines(device, "ls -d /sys/devices/system/cpu/cpu[0-9]*")
    assert len(cpus) == int(lines(device, "nproc")[0])
    for cpu in cpus:
        values = lines(device, f"cd {cpu}/cpufreq && cat scaling_min_freq scaling_cur_freq scaling_max_freq")
        assert sorted(map(int, values)) == list(map(int, values))
    assert device.shell("echo 1 >/sys/class/thermal/thermal_zone0/temp").exit_code != 0


def test_memory_is_the_models(device: Device) -> None:
    assert int(lines(device, "head -n 1 /proc/meminfo")[0].split()[1]) > 15_000_000
    assert "Total RAM: 15" in device.shell("dumpsys meminfo").text


def test_a_retail_phone_gives_no_root(device: Device) -> None:
    # The service's answer, asked the way adb asks.
    with device.dial("root:") as sock:
        assert sock.recv(100) == b"adbd cannot run as root in production builds\n"


@pytest.mark.parametrize(("command", "code", "words"), [
    ("dumpsys battery", 0, ["level: 85", "temperature: "]),
    ("dumpsys thermalservice", 0, ["Thermal Status: 0", "mName=battery"]),
    ("dumpsys cpuinfo", 0, ["Load:", "TOTAL"]),
    ("dumpsys package com.example.none", 0, ["Unable to find package: com.example.none"]),
    ("dumpsys -l", 0, ["Currently running services:", "  thermalservice"]),
    ("dumpsys no-such", 0, []),
    ("cmd no-such", 20, []),
    ("cmd package list packages", 0, ["package:android"]),
    ("settings get global airplane_mode_on", 0, ["0"]),
    ("settings get secure no_such_key", 0, ["null"]),
    ("wm size", 0, ["Physical size: 1080x2400"]),
    ("pm list packages shell", 0, ["package:com.android.shell"]),
    ("pm path com.example.none", 1, []),
    ("am start -n a/b", 1, ["Activity class {a/b} does not exist"]),
])  # fmt: skip
def test_services_answer(device: Device, command: str, code: int, words: list[str]) -> None:
    start = time.monotonic()
    done = device.shell(command)
    assert done.exit_code == code, done
    for word in words:
        assert word in done.text
    assert time.monotonic() - start < 5
