"""`devkit device tcpip`, `connect`, `pair`, `disconnect`, `usb`: the real adb and a phone on a Wi-Fi."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit.sim import break_phone, change_wifi, heal_phone, phone_status, tap_allow
from tests.e2e.adb_host import DEBIAN_ADB, AdbHost
from tests.e2e.support import Cli, Ran, Sim, eventually, start_sim

Run = Callable[..., Ran]


@pytest.fixture
def net(tmp_path: Path, adb: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sim]:
    """A phone of the test's own: these tests change what adbd does."""
    base = tmp_path / "state"
    sim = start_sim("net", base, adb)
    monkeypatch.setenv("XDG_STATE_HOME", str(base))
    yield sim
    sim.phone.stop()


@pytest.fixture
def run(devkit: Cli, net: Sim) -> Run:
    """devkit with the adb server that the phone's cable leads to."""

    def start(*args: str, **options: Any) -> Ran:
        record = net.phone.record
        return devkit(*args, ADB_SERVER_SOCKET=f"tcp:{record.adb_host}:{record.adb_port}", **options)

    return start


def wifi() -> str:
    return f"{phone_status('net')['wifi']}:5555"


def states(run: Run) -> dict[str, str]:
    return {each["serial"]: each["state"] for each in run("device", "list", "--json").data["devices"]}


def remembered(base: Path) -> list[dict[str, Any]]:
    phones: list[dict[str, Any]] = json.loads((base / "devkit/network-phones.json").read_bytes())["phones"]
    return phones


def test_from_the_cable_to_the_network_and_back(run: Run, net: Sim) -> None:
    dry = run("device", "tcpip", "-s", "sim:net", "--dry-run", "--json").data
    assert dry["commands"] == [f"adb -s {net.phone.record.serial} tcpip 5555", f"adb connect {wifi()}"]
    assert wifi() not in states(run)

    done = run("device", "tcpip", "-s", "sim:net", "--json")
    assert done.code == 0, done.err
    serial_number = net.device().properties["ro.serialno"]
    assert done.data["serial"] == wifi() and done.data["serial_number"] == serial_number
    assert states(run)[wifi()] == "device"
    assert remembered(net.state_home)[0]["serial_number"] == serial_number

    # Its name still means its cable, and its address the network.
    assert run("device", "shell", "-s", "sim:net", "--", "echo", "cable").out == "cable\n"
    assert run("device", "shell", "-s", wifi(), "--", "echo", "air").out == "air\n"
    # Without a name it is one phone, not two to choose from.
    assert run("device", "shell", "--", "echo", "one").out == "one\n"
    assert run("device", "tcpip", "-s", "sim:net").code == 0

    back = run("device", "usb", "-s", wifi(), "--json")
    assert back.data == {"serial": wifi(), "answer": "restarting in USB mode", "forgotten": [wifi()]}
    assert wifi() not in states(run)
    assert remembered(net.state_home) == []


def test_the_phone_of_last_time_is_connected_again(run: Run, net: Sim) -> None:
    assert run("device", "tcpip", "-s", "sim:net").code == 0
    break_phone("net", "unplug")
    gone = run("device", "disconnect", "--json")
    assert gone.data["phones"] == [{"address": wifi(), "was_connected": True, "forgotten": False}]
    again = run("device", "connect", "--json")
    assert [(each["address"], each["outcome"]) for each in again.data["phones"]] == [(wifi(), "connected")]
    assert run("device", "shell", "-s", wifi(), "--", "echo", "no cable").out == "no cable\n"
    assert run("device", "connect", "--json").data["phones"][0]["outcome"] == "already connected"


def test_a_changed_address_is_found_over_the_cable(run: Run, net: Sim) -> None:
    assert run("device", "tcpip", "-s", "sim:net").code == 0
    old = wifi()
    change_wifi("net", "127.90.250.7")
    found = run("device", "connect", "--json")
    assert found.code == 0, found.err
    (phone,) = found.data["phones"]
    assert (phone["address"], phone["outcome"]) == ("127.90.250.7:5555", "found again")
    assert phone["via"] == net.phone.record.serial and old in found.err
    assert [each["address"] for each in remembered(net.state_home)] == ["127.90.250.7:5555"]


@pytest.mark.slow
def test_after_a_restart_of_the_phone(run: Run, net: Sim) -> None:
    """TCP mode has ended: over the cable it is switched on again, without it the next step is said."""
    assert run("device", "tcpip", "-s", "sim:net").code == 0
    break_phone("net", "reboot", {"down": 0.2})
    assert eventually(lambda: states(run).get(net.phone.record.serial) == "device", 20)
    assert eventually(lambda: states(run).get(wifi()) != "device", 20)
    found = run("device", "connect", "--json")
    assert [each["outcome"] for each in found.data["phones"]] == ["found again"], found.err

    break_phone("net", "reboot", {"down": 0.2})
    break_phone("net", "unplug")
    assert eventually(lambda: states(run).get(wifi()) != "device", 20)
    lost = run("device", "connect")
    assert lost.code == 125
    assert "Connection refused" in lost.err and "devkit device tcpip" in lost.err
    # adb may list the phone as offline for a while, or not at all: the next step is the same.
    assert "devkit device connect" in run("device", "info").err


def test_a_phone_without_wifi(run: Run, net: Sim) -> None:
    change_wifi("net", off=True)
    failed = run("device", "tcpip", "-s", "sim:net", "--json")
    assert failed.code == 125
    assert failed.data["where"] == "phone" and "is in no network" in failed.data["error"]
    assert net.device().shell("getprop service.adb.tcp.port").text == "\n"


@pytest.mark.slow
def test_an_address_that_does_not_lead_to_the_phone_leaves_nothing_open(run: Run, net: Sim) -> None:
    failed = run("device", "tcpip", "-s", "sim:net", "--address", "127.90.251.1", "--json", timeout=170)
    assert failed.code == 125
    assert "it was switched back" in failed.data["error"] and "refused" in failed.data["evidence"]
    assert eventually(lambda: net_port(net) == "0", 15)
    assert run("device", "connect").code == 2


def net_port(net: Sim) -> str:
    try:
        return net.device().shell("getprop service.adb.tcp.port").text.strip()
    except Exception:
        return ""


def test_another_phone_at_the_address_is_refused(run: Run, net: Sim) -> None:
    assert run("device", "tcpip", "-s", "sim:net").code == 0
    file = net.state_home / "devkit/network-phones.json"
    file.write_text(file.read_text().replace(net.device().properties["ro.serialno"], "SOMEBODYELSE"))
    run("device", "disconnect")
    failed = run("device", "connect")
    assert failed.code == 125
    assert f"another phone answers at {wifi()}" in failed.err and "SOMEBODYELSE --forget" in failed.err
    assert wifi() not in states(run)
    # Whoever names the address means the phone that is there.
    assert run("device", "connect", wifi()).code == 0
    assert run("device", "disconnect", "SOMEBODYELSE", "--forget").code == 125
    assert run("device", "disconnect", wifi(), "--forget", "--json").data["phones"][0]["forgotten"] is True
    assert run("device", "disconnect").code == 2


@pytest.mark.parametrize("program", ["wheel", "debian"])
def test_failed_connects_are_failures_whatever_adb_says(
    program: str, adb: Path, devkit: Cli, tmp_path: Path
) -> None:
    """Both servers answer OKAY."""
    with AdbHost(tmp_path / "host", adb=adb if program == "wheel" else DEBIAN_ADB) as host:
        server = {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{host.port}"}
        refused = devkit("device", "connect", "127.0.0.1:1", "--json", **server)
        assert refused.code == 125
        assert refused.data["evidence"] == "adb says: failed to connect to '127.0.0.1:1': Connection refused"
        assert any("devkit device tcpip" in hint for hint in refused.data["hints"])
        unknown = devkit("device", "connect", "no.such.host.invalid", **server)
        assert unknown.code == 125 and "ping no.such.host.invalid" in unknown.err
        gone = devkit("device", "disconnect", "127.0.0.1:1", **server)
        assert gone.code == 125 and "no phone on a network is called 127.0.0.1:1" in gone.err


def test_pairing_that_fails(adb: Path, devkit: Cli, tmp_path: Path) -> None:
    with AdbHost(tmp_path / "new", adb=adb) as host:
        server = {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{host.port}"}
        failed = devkit("device", "pair", "127.0.0.1:1", "482924", **server)
        assert failed.code == 125
        assert (
            "Unable to start pairing client" in failed.err and "Pair device with pairing code" in failed.err
        )
        assert "482924" not in failed.err + failed.out
        asked = devkit("device", "pair", "127.0.0.1:1", stdin="482924\n", **server)
        assert "Unable to start pairing client" in asked.err
        assert devkit("device", "pair", "127.0.0.1:1", "48:2924", **server).code == 2
        assert devkit("device", "pair", "127.0.0.1", "482924", **server).code == 2
    with AdbHost(tmp_path / "old", adb=DEBIAN_ADB) as host:
        old = devkit("device", "pair", "127.0.0.1:1", "1", ADB_SERVER_SOCKET=f"tcp:127.0.0.1:{host.port}")
        assert "too old to pair" in old.err and "platform-tools 30" in old.err


def test_a_phone_that_has_to_allow_this_host(
    adb: Path, devkit: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = start_sim("net", tmp_path / "state", adb, auth=True)
    monkeypatch.setenv("XDG_STATE_HOME", str(sim.state_home))
    try:
        with AdbHost(tmp_path / "host") as host:
            server = {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{host.port}"}
            failed = devkit("device", "connect", sim.phone.record.serial, **server)
            assert failed.code == 125 and "unlock the phone" in failed.err, failed.err
            assert eventually(lambda: bool(tap_allow_all()), 10)
            assert host.becomes(sim.phone.record.serial, "device")
            done = devkit("device", "connect", sim.phone.record.serial, **server)
            assert done.code == 0, done.err
    finally:
        sim.phone.stop()


def tap_allow_all() -> list[str]:
    from devkit.sim import pending_keys

    keys = pending_keys("net")
    for _ in keys:
        tap_allow("net")
    return [str(key) for key in keys]


@pytest.mark.slow
def test_an_offline_entry_is_replaced(net: Sim, devkit: Cli, tmp_path: Path) -> None:
    """The real server says `already connected` of a phone that is offline for it."""
    serial = net.phone.record.serial
    with AdbHost(tmp_path / "host") as host:
        host("connect", serial)
        assert host.becomes(serial, "device")
        break_phone("net", "offline")
        assert host.becomes(serial, "offline", 20)
        server = {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{host.port}"}
        failed = devkit("device", "connect", serial, **server)
        assert failed.code == 125, failed.out
        heal_phone("net")
        done = devkit("device", "connect", serial, "--json", **server)
        assert done.code == 0, done.err
        assert host.state(serial) == "device"


def test_nothing_is_remembered_yet(devkit: Cli) -> None:
    nothing = devkit("device", "connect")
    assert nothing.code == 2 and "devkit device tcpip" in nothing.err
    for command in ("tcpip", "connect", "pair", "disconnect", "usb"):
        shown = devkit("device", command, "--help")
        assert "Example: devkit device" in shown.out and "--json" in shown.out
