"""A phone that asks before it lets an adb host in, with real adb servers that have keys of their own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import sim
from devkit.errors import SimError
from devkit.sim import Phone, adbserver
from tests.e2e.adb_host import AdbHost
from tests.e2e.support import WHEEL_ADB, Cli, eventually


@pytest.fixture
def phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Phone]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "état 状态"))
    with sim.start_phone("shy", auth=True, lifeline=True) as started:
        yield started
        log = (started.record.state_dir / "adbd.log").read_text()
    assert "Traceback" not in log
    assert "late import" not in log


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AdbHost]:
    with AdbHost(tmp_path / "host 主机") as made:
        yield made


def test_a_new_host_is_unauthorized_until_the_user_allows_it(phone: Phone, host: AdbHost) -> None:
    serial = phone.record.serial
    tracker = host.start("track-devices")
    connected = host("connect", serial)
    assert b"failed to authenticate" in connected.stdout
    assert host.becomes(serial, "unauthorized")
    refused = host("-s", serial, "shell", "id")
    assert refused.returncode == 1
    assert b"device unauthorized" in refused.stderr
    key = sim.tap_allow("shy")
    assert host.becomes(serial, "device")
    assert b"uid=2000" in host("-s", serial, "shell", "id").stdout
    assert key.line.split()[0] == host.public_key()
    tracker.kill()
    events = tracker.communicate()[0].decode()
    assert events.index(f"{serial}\tunauthorized") < events.index(f"{serial}\tdevice")


def test_a_host_that_was_allowed_always_need_not_ask_again(phone: Phone, host: AdbHost) -> None:
    serial = phone.record.serial
    host("connect", serial)
    sim.tap_allow("shy")
    assert host.becomes(serial, "device")
    host("-s", serial, "reboot")
    # The phone is away and comes back with what it knew.
    assert eventually(lambda: host.state(serial) != "device")
    host("disconnect", serial)
    assert eventually(lambda: b"connected to" in host("connect", serial).stdout, 10)
    assert host.becomes(serial, "device")
    assert sim.pending_keys("shy") == []


def test_once_lasts_until_the_host_goes(phone: Phone, host: AdbHost) -> None:
    serial = phone.record.serial
    host("connect", serial)
    sim.tap_allow("shy", always=False)
    assert host.becomes(serial, "device")
    host("disconnect", serial)
    host("connect", serial)
    assert host.becomes(serial, "unauthorized")


def test_a_refused_host_may_ask_again(phone: Phone, host: AdbHost) -> None:
    serial = phone.record.serial
    host("connect", serial)
    sim.tap_deny("shy")
    assert host.state(serial) == "unauthorized"
    assert sim.pending_keys("shy") == []
    host("disconnect", serial)
    host("connect", serial)
    sim.tap_allow("shy")
    assert host.becomes(serial, "device")


def test_new_keys_on_the_host_are_strangers(phone: Phone, host: AdbHost, tmp_path: Path) -> None:
    serial = phone.record.serial
    host("connect", serial)
    sim.tap_allow("shy")
    assert host.becomes(serial, "device")
    with AdbHost(tmp_path / "host 新") as other:
        other("connect", serial)
        assert other.becomes(serial, "unauthorized")
        assert host.state(serial) == "device", "the first host is not disturbed"
        assert [key.line.split()[0] for key in sim.pending_keys("shy")] == [other.public_key()]
        assert host.public_key() != other.public_key()
        sim.tap_allow("shy")
        assert other.becomes(serial, "device")


def test_a_host_with_several_keys_is_known_by_any_of_them(
    phone: Phone, host: AdbHost, tmp_path: Path
) -> None:
    serial = phone.record.serial
    host("connect", serial)
    sim.tap_allow("shy")
    assert host.becomes(serial, "device")
    old_key = next(host.home.rglob("adbkey"))
    with AdbHost(tmp_path / "rotated", environment={"ADB_VENDOR_KEYS": str(old_key)}) as rotated:
        assert b"connected to" in rotated("connect", serial).stdout
        assert rotated.becomes(serial, "device")
        assert sim.pending_keys("shy") == []


def test_the_private_server_of_a_shy_phone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with sim.start_phone("own", auth=True, adb=WHEEL_ADB, lifeline=True) as phone:
        record = phone.record
        assert record.adb_host is not None and record.adb_port is not None
        address = (record.adb_host, record.adb_port)
        assert adbserver.device_state(address, record.serial) == "unauthorized"
        sim.tap_allow("own")
        assert eventually(lambda: adbserver.device_state(address, record.serial) == "device")
    with pytest.raises(SimError, match="no virtual phone named own"):
        sim.tap_allow("own")


def test_the_command_line_allows_too(devkit: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert devkit("sim", "start", "asks", "--auth").code == 0
    try:
        refused = devkit("device", "info", "-s", "sim:asks")
        assert refused.code != 0
        assert "unauthorized" in refused.err
        assert devkit("sim", "allow", "asks").code == 0
        assert eventually(lambda: devkit("device", "info", "-s", "sim:asks").code == 0)
    finally:
        devkit("sim", "stop", "asks")
    assert "no virtual phone named asks" in devkit("sim", "allow", "asks").err
