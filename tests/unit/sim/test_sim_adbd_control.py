"""Services that restart adbd, and the small ones: what is answered, and what is done after it."""

from __future__ import annotations

from pathlib import Path

import pytest
from sim_peer import Peer, make_peer

from devkit.sim import power
from devkit.sim.adbd import control
from devkit.sim.adbd.control import answer_control
from devkit.sim.adbd.packets import CLSE, OPEN
from devkit.sim.adbd.small_services import command_of
from devkit.sim.releases import find_release

USER, USERDEBUG = {"ro.debuggable": "0"}, {"ro.debuggable": "1"}


@pytest.mark.parametrize(
    ("service", "properties", "root", "text", "changes"),
    [
        ("root:", USERDEBUG, False, "restarting adbd as root\n", {"service.adb.root": "1"}),
        ("root:", USERDEBUG, True, "adbd is already running as root\n", {}),
        ("root:", USER, False, "adbd cannot run as root in production builds\n", {}),
        ("unroot:", USERDEBUG, True, "restarting adbd as non root\n", {"service.adb.root": "0"}),
        ("unroot:", USERDEBUG, False, "adbd not running as root\n", {}),
        ("tcpip:5555", USER, False, "restarting in TCP mode port: 5555\n", {"service.adb.tcp.port": "5555"}),
        ("tcpip:0", USER, False, "invalid port 0\n", {}),
        ("tcpip:-1", USER, False, "invalid port -1\n", {}),
        ("tcpip:x", USER, False, "invalid port 0\n", {}),
        ("usb:", USER, False, "restarting in USB mode\n", {"service.adb.tcp.port": "0"}),
        ("reboot:", USER, False, "", {"sys.powerctl": "reboot,"}),
        ("reboot:bootloader", USER, False, "", {"sys.powerctl": "reboot,bootloader"}),
    ],
)
def test_answers_are_those_of_adbd(
    service: str, properties: dict[str, str], root: bool, text: str, changes: dict[str, str]
) -> None:
    answer = answer_control(service, properties, is_root=root)
    assert answer is not None
    assert (answer.text, dict(answer.changes)) == (text, changes)
    # adbd ends exactly when something has changed, and only a reboot says nothing.
    assert answer.ends == bool(changes)
    assert answer.silent == service.startswith("reboot")


def test_a_reboot_with_too_long_a_reason_fails_and_changes_nothing() -> None:
    for reason in ("x" * 100, "a\nro.secure=0"):
        answer = answer_control(f"reboot:{reason}", USER, is_root=False)
        assert answer is not None and not answer.ends and "failed" in answer.text


@pytest.mark.parametrize("service", ["root", "rooted:", "shell:root:", "reboot", ""])
def test_what_is_no_such_service(service: str) -> None:
    assert answer_control(service, USERDEBUG, is_root=False) is None


def test_properties_of_adbd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "CHANGED_PROPERTIES", tmp_path)
    assert control.changed_property("service.adb.root") == ""
    control.set_property("service.adb.root", "1")
    control.set_property("service.adb.root", "0")
    assert control.changed_property("service.adb.root") == "0"
    assert [path.name for path in tmp_path.iterdir()] == ["service.adb.root"]
    assert not power.reboot_is_wanted()
    control.set_property("sys.powerctl", "reboot,")
    assert power.reboot_is_wanted()


def test_services_that_are_programs() -> None:
    new, old = find_release("14").wire, find_release("6").wire
    remount = command_of("remount:-R", new)
    assert remount is not None and remount.command == "/system/bin/remount -R"
    install = command_of("abb_exec:package\0install\0-S\0it's", new)
    assert install is not None and install.command == "cmd package install -S 'it'\"'\"'s'"
    assert not install.protocol
    abb = command_of("abb:package\0list", new)
    assert abb is not None and abb.protocol
    assert command_of("abb_exec:package", old) is None
    assert command_of("sync:", new) is None


def test_no_app_is_ever_debuggable(peer: Peer) -> None:
    peer.connect()
    assert peer.open("jdwp").read_to_end() == b""
    for service in ("track-jdwp", "track-app"):
        tracker = peer.open(service)
        assert tracker.read(4) == b"0000"
        tracker.close()


def test_reconnect_says_done_and_breaks_the_connection(log: list[str]) -> None:
    peer = make_peer()
    peer.connect()
    stream = peer.open("reconnect")
    assert stream.read(4) == b"done"
    stream.close()
    assert peer.receive() is None
    peer.hang_up()


def test_devices_are_opened_and_refused(peer: Peer) -> None:
    peer.connect()
    zero = peer.open("dev:/dev/zero")
    assert zero.read(1000) == bytes(1000)
    zero.close()
    peer.send(OPEN, 3, 0, b"dev:/dev/no-such-device\0")
    while (packet := peer.receive()) is not None and packet.arg1 != 3:
        pass
    assert packet is not None and packet.command == CLSE
