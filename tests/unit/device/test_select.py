"""Which phone is chosen, and what is said when none can be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from devkit import paths
from devkit.device import select
from devkit.device.failures import ServerUnreachable
from devkit.device.listing import DeviceEntry, Inventory, parse_devices
from devkit.device.select import Wish, choose, select_device
from devkit.device.servers import AdbServer
from devkit.errors import DeviceError

if TYPE_CHECKING:
    from conftest import FakeAdbServer

USER = AdbServer("127.0.0.1", 5037, "default")
SIM = AdbServer("127.0.0.1", 6000, "sim", "p1")


def inventory(user: str = "", sim: str | None = None, **rest: Any) -> Inventory:
    entries = parse_devices(user, USER) + (parse_devices(sim, SIM) if sim is not None else [])
    servers = (USER,) if sim is None else (USER, SIM)
    return Inventory(USER, servers, tuple(entries), **rest)


@pytest.mark.parametrize(
    ("found", "wish", "serial", "server"),
    [
        (inventory("A device"), None, "A", USER),
        (inventory("A device\nB offline\nC unauthorized"), None, "A", USER),
        (inventory("A device\nB device"), "B", "B", USER),
        (inventory("", "S device"), None, "S", SIM),
        (inventory("A device", "A device"), None, "A", USER),
        (inventory("A device", "A device"), "A", "A", USER),
        (inventory("A offline", "A device"), "A", "A", SIM),
    ],
)
def test_chosen(found: Inventory, wish: str | None, serial: str, server: AdbServer) -> None:
    entry = choose(found, Wish(wish, "-s") if wish else None)
    assert (entry.serial, entry.server) == (serial, server)


def refused(found: Inventory, wish: Wish | None = None) -> str:
    with pytest.raises(DeviceError) as caught:
        choose(found, wish)
    error = caught.value
    return "\n".join((error.what, error.evidence or "", *error.hints))


def test_no_phone_says_how_to_get_one() -> None:
    text = refused(inventory())
    assert "no phone is connected" in text
    assert "USB debugging" in text
    assert "devkit sim start" in text


def test_several_phones_are_listed() -> None:
    text = refused(inventory("A device model:M\nB device\nC unauthorized", "S device"))
    assert "3 phones" in text
    for part in ("A", "M", "B", "C", "unlock the phone", "sim:p1", "-s A", "device select"):
        assert part in text


@pytest.mark.parametrize(
    ("state", "advice"),
    [
        ("unauthorized", "the host that runs the adb SERVER"),
        ("offline", "adb reconnect offline"),
        ("no permissions (user in plugdev group; are your udev rules wrong?)", "udev"),
        ("authorizing", "allow debugging"),
        ("recovery", "adb reboot"),
        ("bootloader", "fastboot reboot"),
        ("quantum", "does not know this state"),
    ],
)
def test_the_only_phone_is_not_usable(state: str, advice: str) -> None:
    text = refused(inventory(f"A {state}"))
    assert "A is not usable: " + state.partition(" (")[0] in text
    assert advice in text
    assert state.partition("(")[2].rstrip(")") in text


def test_none_of_several_is_usable() -> None:
    text = refused(inventory("A offline\nB unauthorized"))
    assert "no connected phone is usable" in text
    assert "adb reconnect offline" in text
    assert "unlock the phone" in text


def test_unknown_serial_names_the_nearest_and_who_asked() -> None:
    text = refused(inventory("R5CT20ABCDE device", "S device"), Wish("R5CT20ABCDF", "ANDROID_SERIAL"))
    assert "R5CT20ABCDF is not connected (asked for by ANDROID_SERIAL)" in text
    assert "did you mean R5CT20ABCDE?" in text
    assert "did you mean sim:p1?" in refused(inventory("", "S device"), Wish("sim:p2", "-s"))


def test_asked_for_but_unusable() -> None:
    assert "asked for by device.serial" in refused(
        inventory("A offline\nB device"), Wish("A", "device.serial")
    )


def test_an_asked_for_server_that_is_away_is_not_replaced_by_another_phone() -> None:
    problem = ServerUnreachable("away")
    away = AdbServer("127.0.0.1", 7000, "ADB_SERVER_SOCKET")
    found = Inventory(away, (SIM,), tuple(parse_devices("S device", SIM)), problem)
    with pytest.raises(ServerUnreachable):
        choose(found, None)
    assert choose(found, Wish("S", "-s")).serial == "S"
    # But nobody asked for the default one.
    by_default = Inventory(USER, (SIM,), tuple(parse_devices("S device", SIM)), problem)
    assert choose(by_default, None).serial == "S"


def settings(server: str | None = None, serial: str | None = None) -> Any:
    return SimpleNamespace(
        device=SimpleNamespace(serial=serial, dir="/data/local/tmp/devkit"),
        adb=SimpleNamespace(server=server, path=None),
    )


def register(server: AdbServer, label: str) -> None:
    folder = paths.adb_server_registry()
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"host": server.host, "port": server.port, "origin": "sim", "label": label, "pid": os.getpid()}
    (folder / f"{label}.json").write_text(json.dumps(entry))


def test_order_of_wishes(fake: FakeAdbServer) -> None:
    fake.list("".join(f"{name} device\n" for name in ("FLAG", "ENV", "CONFIG", "KEPT")))
    address = fake.server.address
    select.remember_choice("KEPT")
    env = {"ANDROID_SERIAL": "ENV"}
    assert select_device("FLAG", environ=env, config=settings(address, "CONFIG")).serial == "FLAG"
    assert select_device(environ=env, config=settings(address, "CONFIG")).serial == "ENV"
    assert select_device(environ={}, config=settings(address, "CONFIG")).serial == "CONFIG"
    assert select_device(environ={}, config=settings(address)).serial == "KEPT"
    select.forget_choice()
    with pytest.raises(DeviceError, match="4 phones"):
        select_device(environ={}, config=settings(address))


def test_a_remembered_phone_that_is_away_is_not_replaced(fake: FakeAdbServer) -> None:
    fake.list("OTHER device\n")
    select.remember_choice("KEPT")
    with pytest.raises(DeviceError, match="KEPT is not connected") as caught:
        select_device(environ={}, config=settings(fake.server.address))
    assert any("--clear" in hint for hint in caught.value.hints)


@pytest.mark.parametrize("content", ["", "{", "[]", '{"serial": 3}', '{"serial": ""}'])
def test_a_broken_memory_is_no_memory(content: str) -> None:
    file = paths.state_dir() / "device.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content)
    assert select.remembered_choice() is None


@pytest.mark.parametrize("name", ["sim:手机 1", "手机 1"])
def test_a_virtual_phone_by_name_needs_no_other_server(
    fake: FakeAdbServer, name: str, free_port: int
) -> None:
    fake.list("127.0.0.1:16001 device\n")
    register(fake.server, "手机 1")
    device = select_device(name, environ={}, config=settings(f"127.0.0.1:{free_port}"))
    assert device.serial == "127.0.0.1:16001"
    assert device.server.port == fake.port
    assert device.server.name == "sim:手机 1"


def test_the_label_wins_over_the_effective_server(make_fake: Callable[[], FakeAdbServer]) -> None:
    user, sim = make_fake(), make_fake()
    user.list("X device\n")
    sim.list("X device\n")
    register(sim.server, "p1")
    config = settings(user.server.address)
    assert select_device("X", environ={}, config=config).server.port == user.port
    assert select_device("sim:p1", environ={}, config=config).server.port == sim.port


def test_a_virtual_phone_without_a_phone(fake: FakeAdbServer) -> None:
    register(fake.server, "p1")
    fake.list("")
    with pytest.raises(DeviceError, match="no phone is behind sim:p1") as caught:
        select_device("sim:p1", environ={}, config=settings())
    assert "devkit sim status" in caught.value.hints
    fake.list("A offline\n")
    with pytest.raises(DeviceError, match="A is not usable: offline"):
        select_device("sim:p1", environ={}, config=settings())


def test_describe_needs_no_server() -> None:
    assert select.describe([DeviceEntry("A", "device", model="M", usb="1-2")]) == "A  device  M usb:1-2\n"


def test_choice_survives_in_the_state_folder() -> None:
    select.remember_choice("sim:手机")
    assert json.loads(Path(paths.state_dir() / "device.json").read_text(encoding="utf-8")) == {
        "serial": "sim:手机"
    }
    assert select.remembered_choice() == "sim:手机"
