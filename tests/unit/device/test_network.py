"""What adb servers answer to connect, disconnect and pair: the text tells whether it worked."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import pytest

from devkit.device import network
from devkit.device.listing import Inventory, list_server, parse_devices
from devkit.device.network_memory import (
    NetworkPhone,
    forget_phone,
    remember_phone,
    remembered_phones,
)
from devkit.device.reconnect import reconnect
from devkit.device.select import Wish, choose, no_device_hints
from devkit.device.servers import AdbServer
from devkit.device.usb_hints import is_wsl, usb_hints
from devkit.errors import DeviceError, UsageError
from devkit.paths import state_dir
from tests.unit.device.conftest import FakeAdbServer, block, fail

A = "192.168.1.23:5555"


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("192.168.1.23", A),
        ("192.168.1.23:41555", "192.168.1.23:41555"),
        ("phone.lan", "phone.lan:5555"),
        ("[fe80::1%wlan0]", "[fe80::1%wlan0]:5555"),
        ("[::1]:7", "[::1]:7"),
    ],
)
def test_addresses(text: str, address: str) -> None:
    assert network.parse_address(text) == address


@pytest.mark.parametrize(
    "text", ["", ":5555", "a b", "1.2.3.4:0", "1.2.3.4:65536", "1.2.3.4:x", "::1", "a:1:2"]
)
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UsageError, match="is not the address") as caught:
        network.parse_address(text)
    # The example is one that works, whatever the port was.
    assert caught.value.hints[0].endswith("192.168.1.23:5555")
    with pytest.raises(UsageError):
        network.parse_address("1.2.3.4", default_port=None)


@pytest.mark.parametrize(
    ("said", "how"),
    [(f"connected to {A}", "connected"), (f"already connected to {A}\n", "already connected")],
)
def test_what_says_that_it_is_connected(fake: FakeAdbServer, said: str, how: str) -> None:
    fake.answers[f"host:connect:{A}"] = said
    assert network.connect(fake.server, A) == network.Connected(A, how)


@pytest.mark.parametrize(
    ("said", "hint"),
    [
        (f"failed to connect to '{A}': Connection refused", "TCP mode ends"),
        (f"failed to connect to '{A}': No route to host", "same network"),
        (f"failed to connect to {A}", "same network"),
        (f"failed to connect to '{A}': Operation timed out", "same network"),
        (f"unable to connect to {A}: Connection refused", "TCP mode ends"),
        (f"unable to connect to {A}", "same network"),
        ("failed to resolve host: 'x': Name or service not known", "ping"),
        ("cannot resolve host 'x' and port 5555: unknown", "ping"),
        ("bad port number '99999' in 'x:99999'", "devkit device connect"),
        ("empty address", "devkit device connect"),
        (f"failed to authenticate to {A}", "unlock the phone"),
        ("", "same network"),
        (f"not connected to {A}", "same network"),
    ],
)
def test_a_failure_that_came_with_okay(fake: FakeAdbServer, said: str, hint: str) -> None:
    fake.answers[f"host:connect:{A}"] = said
    with pytest.raises(network.CannotConnect) as caught:
        network.connect(fake.server, A)
    assert caught.value.reason == said
    assert any(hint in each for each in caught.value.hints), caught.value.hints


def test_a_remote_servers_machine_is_named() -> None:
    assert network.place_of(AdbServer("10.0.0.9", 5037, "test")) == "the adb server's machine (10.0.0.9)"


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(network, "ONLINE_TIMEOUT_S", 0.2)
    yield


def test_an_offline_phone_that_is_already_connected_is_connected_anew(
    fake: FakeAdbServer, hasty: None
) -> None:
    """After a restart of the phone: adb says it is connected, and it is of no use (case of the field)."""
    fake.answers[f"host:connect:{A}"] = f"already connected to {A}"
    fake.list(f"{A} offline transport_id:1\n")

    def disconnected(sock: socket.socket) -> None:
        fake.answers[f"host:connect:{A}"] = f"connected to {A}"
        fake.list(f"{A} device transport_id:2\n")
        sock.sendall(b"OKAY" + block(f"disconnected {A}"))

    fake.answers[f"host:disconnect:{A}"] = disconnected
    assert network.bring_online(fake.server, A) == network.Connected(A, "reconnected")


def test_a_phone_that_stays_offline(fake: FakeAdbServer, hasty: None) -> None:
    fake.answers[f"host:connect:{A}"] = f"already connected to {A}"
    fake.answers[f"host:disconnect:{A}"] = f"disconnected {A}"
    fake.list(f"{A} offline transport_id:1\n")
    with pytest.raises(network.CannotConnect, match="connected but offline") as caught:
        network.bring_online(fake.server, A)
    assert caught.value.where == "phone"
    assert fake.requests.count(f"host:disconnect:{A}") == network.ATTEMPTS


def test_an_unauthorized_phone_keeps_its_dialog(fake: FakeAdbServer, hasty: None) -> None:
    fake.answers[f"host:connect:{A}"] = f"connected to {A}"
    fake.list(f"{A} unauthorized transport_id:1\n")
    with pytest.raises(network.CannotConnect, match="unauthorized") as caught:
        network.bring_online(fake.server, A)
    assert "unlock the phone" in caught.value.hints[0]
    assert f"host:disconnect:{A}" not in fake.requests


@pytest.mark.parametrize(
    ("answer", "was_connected"),
    [
        (f"disconnected {A}", True),
        (fail(f"no such device '{A}'"), False),
        (fail(f"error: no such device '{A}'"), False),
        (f"No such device {A}", False),
    ],
)
def test_disconnecting(fake: FakeAdbServer, answer: str | bytes, was_connected: bool) -> None:
    fake.answers[f"host:disconnect:{A}"] = answer
    assert network.disconnect(fake.server, A) is was_connected


def test_a_disconnect_that_fails(fake: FakeAdbServer) -> None:
    fake.answers[f"host:disconnect:{A}"] = fail("busy")
    with pytest.raises(DeviceError, match="refused disconnecting"):
        network.disconnect(fake.server, A)


PAIR = "host:pair:482924:192.168.1.23:37123"
PAIRED = "Successfully paired to 192.168.1.23:37123 [guid=adb-SERIAL-abcdef]"


@pytest.mark.parametrize(
    "answer", [b"OKAY" + block(PAIRED), b"OKAYOKAY" + block(PAIRED)], ids=["text alone", "OKAY and text"]
)
def test_pairing(fake: FakeAdbServer, answer: bytes) -> None:
    fake.answers[PAIR] = answer
    assert network.pair(fake.server, "192.168.1.23:37123", "482924") == PAIRED


@pytest.mark.parametrize("head", [b"OKAY", b"OKAYFAIL"], ids=["adb 30", "adb 36"])
@pytest.mark.parametrize(
    ("said", "hint"),
    [
        ("Failed: Wrong password or connection was dropped.", "the code is another"),
        ("Failed: Unable to start pairing client.", "Pair device with pairing code"),
        ("Invalid port while parsing address [192.168.1.23]", "devkit device pair"),
        # The words of success at another place are none.
        ("Failed: Successfully paired but server returned unknown response=x", "Pair device"),
    ],
)
def test_a_failed_pairing(fake: FakeAdbServer, head: bytes, said: str, hint: str) -> None:
    fake.answers[PAIR] = head + block(said)
    with pytest.raises(DeviceError, match="could not pair") as caught:
        network.pair(fake.server, "192.168.1.23:37123", "482924")
    assert said in (caught.value.evidence or "")
    assert any(hint in each for each in caught.value.hints)


def test_the_code_is_in_no_message(fake: FakeAdbServer) -> None:
    for answer in (fail("unknown host service"), fail("no"), b"junk", b"OKAYzzzz", b"OKAY"):
        fake.answers[PAIR] = answer
        with pytest.raises(DeviceError) as caught:
            network.pair(fake.server, "192.168.1.23:37123", "482924")
        assert "482924" not in str(caught.value.as_dict())


# What is remembered


def test_the_last_phone_is_first_and_each_is_known_once() -> None:
    remember_phone(NetworkPhone(A, "S1", "One", "127.0.0.1:5037"))
    remember_phone(NetworkPhone("10.0.0.2:5555", "S2", "Two"))
    remember_phone(NetworkPhone("10.0.0.3:5555", "S1", "One"))
    assert [(phone.address, phone.serial_number) for phone in remembered_phones()] == [
        ("10.0.0.3:5555", "S1"),
        ("10.0.0.2:5555", "S2"),
    ]
    remember_phone(NetworkPhone("10.0.0.2:5555", "S3"))
    assert [phone.serial_number for phone in remembered_phones()] == ["S3", "S1"]
    assert [phone.serial_number for phone in forget_phone("10.0.0.2")] == ["S3"]
    assert [phone.serial_number for phone in forget_phone("S1")] == ["S1"]
    assert remembered_phones() == []


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"phones": 3}', '{"phones": [3, {"address": "x"}, {"address": "x:y"}]}']
)
def test_a_broken_memory_is_an_empty_one(text: str) -> None:
    state_dir().mkdir(parents=True, exist_ok=True)
    (state_dir() / "network-phones.json").write_text(text)
    assert remembered_phones() == []
    remember_phone(NetworkPhone(A))
    assert remembered_phones() == [NetworkPhone(A)]


# Why a phone on a cable is not listed


def test_wsl_is_told_of_usbipd_and_windows_server(tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("proc") / "osrelease"
    file.write_text("5.15.153.1-microsoft-standard-WSL2\n")
    assert is_wsl(file)
    hints = " ".join(usb_hints("linux", file))
    assert "usbipd attach --wsl" in hints and "ADB_SERVER_SOCKET=tcp:127.0.0.1:5038" in hints
    file.write_text("4.4.0-19041-Microsoft\n")
    assert is_wsl(file)
    file.write_text("6.8.0-41-generic\n")
    assert not is_wsl(file) and not is_wsl(file / "none")
    assert "lsusb" in usb_hints("linux", file)[0]


def test_other_systems_hints() -> None:
    assert "driver" in usb_hints("win32")[0]
    assert "Privacy & Security" in usb_hints("darwin")[0]


def test_a_remembered_phone_is_the_first_hint() -> None:
    assert not any("devkit device connect" in hint for hint in no_device_hints())
    remember_phone(NetworkPhone(A))
    assert "devkit device connect" in no_device_hints()[0]


# Found again


def says(text: str) -> Callable[[socket.socket], None]:
    """A shell whose command prints that (shell protocol: id, length, data; id 3 is the exit code)."""

    def serve(sock: socket.socket) -> None:
        data = text.encode()
        sock.sendall(b"\x01" + struct.pack("<I", len(data)) + data + b"\x03" + struct.pack("<I", 1) + b"\0")

    return serve


@pytest.mark.parametrize("name", ["adb-S1-x7Yz9q\t_adb-tls-connect._tcp", "adb-S1\t_adb._tcp."])
def test_a_phone_that_announces_itself(fake: FakeAdbServer, name: str) -> None:
    """Wireless debugging takes another port each time; mDNS tells it, if the adb server listens to that."""
    new = "192.168.1.40:41777"
    fake.answers[f"host:connect:{A}"] = f"failed to connect to '{A}': Connection refused"
    fake.answers[f"host:connect:{new}"] = f"connected to {new}"
    fake.answers["host:mdns:services"] = f"adb-S10-a\t_adb-tls-connect._tcp\t192.168.1.9:1\n{name}\t{new}\n"
    fake.answers[f"host-serial:{new}:features"] = "shell_v2"
    fake.list(f"{new} device transport_id:2\n")
    fake.services["shell,v2,raw"] = says("devkit-serial S1\ndevkit-model One\ndevkit-port  \n")
    inventory = Inventory(fake.server, (fake.server,), ())
    outcome = reconnect(NetworkPhone(A, "S1", "One", fake.server.address), inventory)
    assert outcome.error is None
    assert (outcome.how, outcome.via, outcome.phone.address) == ("found again", "mDNS", new)
    assert remembered_phones()[0].address == new


def test_a_phone_that_is_nowhere(fake: FakeAdbServer) -> None:
    fake.answers[f"host:connect:{A}"] = f"failed to connect to '{A}': No route to host"
    inventory = Inventory(fake.server, (fake.server,), ())
    outcome = reconnect(NetworkPhone(A, "S1"), inventory)
    assert outcome.how == "failed" and isinstance(outcome.error, network.CannotConnect)
    assert "No route to host" in outcome.error.reason


def test_an_offline_network_phone_in_the_list_is_to_be_connected_anew() -> None:
    entries = parse_devices(f"{A} offline\nUSBSERIAL offline usb:1-2\n")
    assert [entry.hint for entry in entries] == [
        f"devkit device connect {A}",
        "reconnect: adb reconnect offline",
    ]


def test_a_phone_on_the_cable_and_the_network_is_one_phone(fake: FakeAdbServer) -> None:
    fake.list(f"{A} device model:M transport_id:2\nS1 device usb:1-2 model:M transport_id:1\n")
    inventory = Inventory(fake.server, (fake.server,), tuple(list_server(fake.server)))
    with pytest.raises(DeviceError, match="2 phones are connected"):
        choose(inventory, None)
    remember_phone(NetworkPhone(A, "S1"))
    assert choose(inventory, None).serial == "S1"
    # Asked for by its address, it is that.
    assert choose(inventory, Wish(A, "-s")).serial == A
