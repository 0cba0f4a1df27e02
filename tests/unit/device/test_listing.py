"""Case D1, and reaching servers without ever starting a wrong one."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devkit import paths
from devkit.device import listing
from devkit.device.failures import ServerUnreachable, hint_for
from devkit.device.listing import DeviceEntry, list_devices, list_server, parse_devices
from devkit.device.servers import AdbServer
from devkit.errors import DeviceError, OperationTimeout

if TYPE_CHECKING:
    from conftest import FakeAdbServer


def test_case_d1(case: Callable[[str, str], str], expected: Callable[[str], dict[str, object]]) -> None:
    entries = parse_devices(case("D1", "devices.txt"))
    assert [[entry.serial, entry.state] for entry in entries] == expected("D1")["devices.txt"]
    assert [entry.serial for entry in entries if entry.usable] == expected("D1")["usable"]
    hints = expected("D1")["hints"]
    assert isinstance(hints, dict)
    assert {state: hint_for(state) for state in hints} == hints
    assert entries[0] == DeviceEntry(
        "0123456789ABCDEF", "device", None, "phone_a", "Phone_A", "phone_a", 1, "1-4.2"
    )
    no_rights = entries[4]
    assert no_rights.usb == "3-2"
    assert no_rights.transport_id == 5
    assert "udev rules" in (no_rights.detail or "")
    assert entries[9].usb == "437387264X"


def test_case_d1_without_devices(case: Callable[[str, str], str]) -> None:
    assert parse_devices(case("D1", "devices_none.txt")) == []


def test_case_d1_plain_with_crlf(case: Callable[[str, str], str]) -> None:
    text = case("D1", "devices_plain_crlf.txt")
    assert "\r\n" in text
    assert [(entry.serial, entry.state) for entry in parse_devices(text)] == [
        ("0123456789ABCDEF", "device"),
        ("192.0.2.15:5555", "offline"),
        ("0A1B2C3D4E5F0011", "unauthorized"),
    ]


def test_unknown_states_are_kept_with_a_hint() -> None:
    entries = parse_devices("A  quantum superposition usb:1-1\nB  usb:1-2\nC\n\nD\tdetached")
    assert [(e.serial, e.state, e.usable) for e in entries] == [
        ("A", "quantum superposition", False),
        ("B", "unknown", False),
        ("D", "detached", False),
    ]
    assert all(entry.hint for entry in entries)


def test_client_talk_before_the_header_is_no_phone(case: Callable[[str, str], str]) -> None:
    text = case("D3", "stderr.txt") + case("D1", "devices_plain_crlf.txt")
    assert len(parse_devices(text)) == 3


def test_list_server(fake: FakeAdbServer) -> None:
    fake.list("PHONE1     device product:p model:M device:d transport_id:3\n")
    assert list_server(fake.server) == [
        DeviceEntry("PHONE1", "device", None, "p", "M", "d", 3, None, fake.server)
    ]


def test_a_refused_port_names_the_address_and_starts_nothing(
    free_port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("a program was started")

    monkeypatch.setattr("subprocess.Popen", never)
    inventory = list_devices(environ={"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{free_port}"})
    error = inventory.effective_problem
    assert isinstance(error, ServerUnreachable)
    assert error.refused
    assert f"127.0.0.1:{free_port}" in error.what
    assert "ADB_SERVER_SOCKET" in (error.evidence or "")
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", free_port), 1)


def test_a_server_that_hangs_is_a_timeout() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        with pytest.raises(OperationTimeout, match="did not answer"):
            list_server(AdbServer("127.0.0.1", deaf.getsockname()[1], "test"), timeout_s=0.3)
        assert time.monotonic() - begun < 2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (b"", "broke the connection off"),
        (b"OK", "broke the connection off"),
        (b"OKAY0010abc", "broke the connection off"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "refused"),
        (b"FAIL000bno way here", "refused"),
    ],
)
def test_something_else_at_the_port(fake: FakeAdbServer, answer: bytes, message: str) -> None:
    fake.answers["host:devices-l"] = answer
    with pytest.raises(DeviceError, match=message) as caught:
        list_server(fake.server)
    assert fake.server.address in caught.value.what + (caught.value.evidence or "")


def register(server: AdbServer, label: str) -> None:
    folder = paths.adb_server_registry()
    folder.mkdir(parents=True, exist_ok=True)
    entry = {"host": server.host, "port": server.port, "origin": "sim", "label": label, "pid": os.getpid()}
    (folder / f"{label}.json").write_text(json.dumps(entry))


def default_at(monkeypatch: pytest.MonkeyPatch, port: int) -> list[AdbServer]:
    """Pretend that the default address has another port; returns the list of servers started."""
    started: list[AdbServer] = []
    monkeypatch.setattr("devkit.device.servers.DEFAULT_PORT", port)
    monkeypatch.setattr(listing, "start_default_server", lambda server, adb, environ: started.append(server))
    return started


def test_the_default_server_is_started_when_nothing_listens(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    started = default_at(monkeypatch, free_port)
    inventory = list_devices(environ={})
    assert [server.port for server in started] == [free_port]
    assert inventory.effective_problem is not None  # the pretended start brought none


def test_an_explicit_default_port_is_never_started(monkeypatch: pytest.MonkeyPatch, free_port: int) -> None:
    """It may be where a tunnel of the user ends: a server of ours would keep it from coming back."""
    started = default_at(monkeypatch, free_port)
    list_devices(environ={"ADB_SERVER_SOCKET": f"tcp:{free_port}"})
    list_devices(environ={"ANDROID_ADB_SERVER_PORT": str(free_port)})
    list_devices(environ={}, configured_server=f"127.0.0.1:{free_port}")
    assert started == []


def test_the_default_server_is_not_needed_beside_a_registered_one(
    fake: FakeAdbServer, monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    started = default_at(monkeypatch, free_port)
    fake.list("127.0.0.1:1 device\n")
    register(fake.server, "p1")
    inventory = list_devices(environ={})
    assert started == []
    assert [entry.serial for entry in inventory.entries] == ["127.0.0.1:1"]
    assert [server.name for server in inventory.servers] == ["sim:p1"]


def test_a_registered_server_that_does_not_answer_is_no_reason_to_start_another(
    monkeypatch: pytest.MonkeyPatch, free_port: int
) -> None:
    """A busy virtual phone or a tunnel that is being mended: the phone is not behind a new server."""
    started = default_at(monkeypatch, free_port)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        register(AdbServer("127.0.0.1", deaf.getsockname()[1], "sim"), "busy")
        monkeypatch.setattr(listing, "list_server", lambda server: list_server(server, timeout_s=0.2))
        inventory = list_devices(environ={})
    assert started == [] and len(inventory.problems) == 1
    assert inventory.effective_problem is not None


def test_a_silent_default_server_is_not_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "LIST_TIMEOUT_S", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        started = default_at(monkeypatch, deaf.getsockname()[1])
        monkeypatch.setattr(listing, "list_server", lambda server: list_server(server, timeout_s=0.2))
        inventory = list_devices(environ={})
    assert isinstance(inventory.effective_problem, OperationTimeout)
    assert started == []


def test_effective_server_comes_first_and_one_address_is_asked_once(
    make_fake: Callable[[], FakeAdbServer],
) -> None:
    user, sim = make_fake(), make_fake()
    user.list("USB1 device\n")
    sim.list("127.0.0.1:1 device\n")
    register(sim.server, "p1")
    inventory = list_devices(environ={}, configured_server=user.server.address)
    assert [entry.serial for entry in inventory.entries] == ["USB1", "127.0.0.1:1"]
    both = list_devices(environ={}, configured_server=sim.server.address)
    assert [entry.serial for entry in both.entries] == ["127.0.0.1:1"]
    assert both.effective.name == "sim:p1"


def test_a_registered_server_that_is_gone_does_not_hide_the_rest(fake: FakeAdbServer, free_port: int) -> None:
    fake.list("USB1 device\n")
    register(AdbServer("127.0.0.1", free_port, "sim"), "gone")
    inventory = list_devices(environ={}, configured_server=fake.server.address)
    assert [entry.serial for entry in inventory.entries] == ["USB1"]
    assert len(inventory.problems) == 1


def test_start_runs_the_users_adb_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    adb = tmp_path / "a ü" / "adb"
    adb.parent.mkdir()
    adb.write_text(
        "#!/bin/sh\n"
        f"echo \"$@\" >>'{tmp_path}/called'\n"
        "echo 'Android Debug Bridge version 1.0.41'; echo 'Version 36.0.0-1'\n"
    )
    adb.chmod(0o755)
    listing.start_default_server(AdbServer("127.0.0.1", 5037, "default"), adb)
    assert (tmp_path / "called").read_text() == "version\nstart-server\n"
    said = capsys.readouterr().err
    assert str(adb) in said
    assert "36.0.0" in said
