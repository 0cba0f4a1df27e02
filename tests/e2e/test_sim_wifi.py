"""The virtual phone's Wi-Fi: adbd in TCP mode listens there, as a phone's does."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.errors import UsageError
from devkit.sim import break_phone, change_wifi, heal_phone, phone_status, slow_phone
from tests.e2e.adb_host import AdbHost
from tests.e2e.support import Sim, eventually, start_sim


@pytest.fixture(scope="module")
def own_sim(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("wifi", tmp_path_factory.mktemp("state"), adb)
    yield sim
    sim.phone.stop()


@pytest.fixture
def phone(own_sim: Sim, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sim]:
    monkeypatch.setenv("XDG_STATE_HOME", str(own_sim.state_home))
    yield own_sim
    heal_phone("wifi")
    change_wifi("wifi")
    assert eventually(lambda: is_online(own_sim), 15)
    own_sim.device().dial("usb:").recv(100)
    assert eventually(lambda: not listens(address_of("wifi")), 10)
    assert eventually(lambda: is_online(own_sim), 15)


@pytest.fixture
def host(tmp_path: Path) -> Iterator[AdbHost]:
    with AdbHost(tmp_path / "host") as made:
        yield made


def address_of(name: str) -> str:
    address = phone_status(name)["wifi"]
    assert isinstance(address, str)
    return address


def listens(address: str, port: int = 5555) -> bool:
    try:
        socket.create_connection((address, port), 1).close()
    except OSError:
        return False
    return True


def is_online(sim: Sim) -> bool:
    try:
        return sim.device().shell("true").exit_code == 0
    except Exception:
        return False


def to_tcp_mode(sim: Sim, port: int = 5555) -> str:
    address = address_of("wifi")
    host = sim.phone.record
    answer = sim.device().dial(f"tcpip:{port}").recv(100)
    assert answer == f"restarting in TCP mode port: {port}\n".encode(), host
    assert eventually(lambda: listens(address, port), 10)
    return f"{address}:{port}"


def test_ip_says_what_a_phones_says(phone: Sim) -> None:
    device = phone.device()
    address = address_of("wifi")
    route = device.shell("ip route").text
    assert route == f"127.90.0.0/16 dev wlan0 proto kernel scope link src {address} \n"
    assert (
        f"    inet {address}/16 brd 127.90.255.255 scope global wlan0\n"
        in device.shell("ip addr show wlan0").text
    )
    assert device.shell("ip addr show rmnet0").exit_code == 1
    change_wifi("wifi", off=True)
    assert device.shell("ip route").text == ""
    assert "wlan0" not in device.shell("ip -o addr").text


def test_tcp_mode_listens_on_the_wifi_until_usb_mode(phone: Sim, host: AdbHost) -> None:
    assert not listens(address_of("wifi"))
    serial = to_tcp_mode(phone)
    assert host("connect", serial).stdout.decode() == f"connected to {serial}\n"
    assert host("-s", serial, "shell", "echo over the air").stdout == b"over the air\n"
    assert host("-s", serial, "usb").stdout == b"restarting in USB mode\n"
    assert eventually(lambda: not listens(address_of("wifi")), 10)


def test_a_pulled_cable_leaves_the_wifi_alone(phone: Sim, host: AdbHost) -> None:
    serial = to_tcp_mode(phone)
    host("connect", serial)
    running = host.start("-s", serial, "shell", "sleep 1; echo still here")
    break_phone("wifi", "unplug")
    assert running.communicate(timeout=20)[0] == b"still here\n"
    slow_phone("wifi", delay="5ms")
    assert host("-s", serial, "shell", "echo slow").stdout == b"slow\n"
    slow_phone("wifi", delay="0")


def test_another_address_breaks_the_old_one_off(phone: Sim, host: AdbHost) -> None:
    serial = to_tcp_mode(phone)
    host("connect", serial)
    other = change_wifi("wifi", "127.90.0.7")
    assert other == "127.90.0.7" and not listens(serial.partition(":")[0])
    assert host("connect", other).stdout.decode() == f"connected to {other}:5555\n"
    with pytest.raises(UsageError, match="cannot be the Wi-Fi address"):
        change_wifi("wifi", "192.168.1.7")


def test_a_reboot_ends_tcp_mode(phone: Sim) -> None:
    to_tcp_mode(phone)
    break_phone("wifi", "reboot", {"down": 0.2})
    assert eventually(lambda: not listens(address_of("wifi")), 15)


def test_adbd_through_a_forward_to_its_own_port(phone: Sim, host: AdbHost) -> None:
    """What the articles tunnel: `adb forward` to 5555, and a second adb server that connects to that."""
    to_tcp_mode(phone)
    cable = phone.phone.record.serial
    assert host("connect", cable).stdout.startswith(b"connected")
    local = host("-s", cable, "forward", "tcp:0", "tcp:5555").stdout.decode().strip()
    assert host("connect", f"127.0.0.1:{local}").stdout.decode() == f"connected to 127.0.0.1:{local}\n"
    assert host("-s", f"127.0.0.1:{local}", "shell", "echo inside").stdout == b"inside\n"
