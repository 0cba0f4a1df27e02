"""Android releases: what each one's adbd speaks, offers and refuses."""

from __future__ import annotations

import struct

import pytest
from sim_peer import Peer, make_peer

from devkit.errors import SimError
from devkit.sim import image, releases
from devkit.sim.adbd.packets import CLSE, CNXN, OKAY, OPEN, WRTE
from devkit.sim.adbd.shell import parse_request
from devkit.sim.adbd.streams import DELAYED_ACK_WINDOW_BYTES
from devkit.sim.releases import find_release


@pytest.fixture
def old_peer(log: list[str]) -> Peer:
    return make_peer("6")


def test_every_release_can_be_loaded() -> None:
    assert releases.release_names() == ["6", "8", "11", "14", "15", "16"]
    levels = [int(find_release(name).properties["ro.build.version.sdk"]) for name in releases.release_names()]
    assert levels == [23, 26, 30, 34, 35, 36]
    for name in releases.release_names():
        features = find_release(name).wire.features
        assert len(set(features)) == len(features)
        assert ("shell_v2" in features) == (int(name) >= 7)
        assert ("delayed_ack" in features) == (int(name) >= 14)


def test_an_unknown_release_names_the_known() -> None:
    with pytest.raises(SimError) as caught:
        find_release("5")
    assert "6, 8, 11" in caught.value.hints[0]


def test_android_6_speaks_version_0_with_checksums_and_4_kib(old_peer: Peer) -> None:
    old_peer.send_connect(max_payload=1 << 20)
    answer = old_peer.expect(CNXN)
    assert (answer.arg0, answer.arg1) == (0x01000000, 4096)
    assert bytes(answer.payload) == b"device::ro.product.name=n;ro.product.model=m;ro.product.device=d;"
    # A peer of version 1 sends checksums too, once it knows.
    old_peer.send(OPEN, 5, 0, b"no-such-service\0", checksum=True)
    assert old_peer.expect(CLSE).arg1 == 5
    old_peer.send(OPEN, 6, 0, b"no-such-service\0", checksum=False)
    assert old_peer.receive() is None


def test_android_6_drops_a_peer_that_sends_more_than_4_kib(old_peer: Peer) -> None:
    old_peer.connect()
    old_peer.send(OPEN, 5, 0, b"x" * 4097, checksum=True)
    with pytest.raises(ConnectionError):
        old_peer.receive()


def test_android_6_knows_no_shell_protocol_and_no_later_sync(old_peer: Peer) -> None:
    old_peer.connect()
    old_peer.send(OPEN, 5, 0, b"shell,v2:id\0", checksum=True)
    assert old_peer.expect(CLSE).arg0 == 0
    old_peer.send(OPEN, 6, 0, b"sync:\0", checksum=True)
    stream = old_peer.expect(OKAY).arg0
    old_peer.send(WRTE, 6, stream, struct.pack("<4sI", b"STA2", 1) + b"/", checksum=True)
    old_peer.expect(OKAY)
    assert bytes(old_peer.expect(WRTE).payload[:4]) == b"FAIL"


def test_shells_of_android_6() -> None:
    shell = parse_request("shell:ls", old=True)
    assert shell is not None and shell.terminal and not shell.one_socket
    program = parse_request("exec:ls", old=True)
    assert program is not None and program.one_socket and not program.terminal
    assert parse_request("shell,raw:ls", old=True) is None
    now = parse_request("shell:ls")
    assert now is not None and not now.terminal


def test_tools_that_came_later_are_missing_in_android_6() -> None:
    old, new = image.plan_system(find_release("6")), image.plan_system(find_release("14"))
    assert "sha256sum" in new.programs and "sha256sum" not in old.programs
    assert old.scripts["ps"] != new.scripts["ps"]
    # One state of the machine, two images that do not prune each other.
    assert old.key == new.key + "-6"


# ---- delayed acks


def windowed_peer() -> Peer:
    peer = make_peer("14")
    peer.send_connect(features="shell_v2,delayed_ack")
    assert b"delayed_ack" in bytes(peer.expect(CNXN).payload)
    return peer


def _open(peer: Peer, service: bytes, window: int) -> int:
    peer.send(OPEN, 9, window, service + b"\0")
    okay = peer.expect(OKAY)
    assert struct.unpack("<i", okay.payload) == (DELAYED_ACK_WINDOW_BYTES,)
    return okay.arg0


def test_without_both_sides_nothing_is_delayed(peer: Peer) -> None:
    peer.connect()
    peer.send(OPEN, 9, 0, b"sync:\0")
    assert len(peer.expect(OKAY).payload) == 0


def test_an_open_without_window_is_refused_once_delayed_acks_are_agreed(log: list[str]) -> None:
    peer = windowed_peer()
    peer.send(OPEN, 9, 0, b"sync:\0")
    assert peer.expect(CLSE).arg1 == 9
    peer.hang_up()


def test_the_peers_window_is_respected(log: list[str], shell_here: None) -> None:
    peer = windowed_peer()
    stream = _open(peer, b"shell,v2,raw:head -c 300000 /dev/zero", 100_000)
    received = 0
    peer.sock.settimeout(0.5)
    with pytest.raises(TimeoutError):
        while True:
            received += len(peer.expect(WRTE).payload)
    # The last packet may go beyond the window, as adbd's does.
    assert 100_000 <= received <= 100_000 + (1 << 20)
    peer.sock.settimeout(10)
    # A wrong kind of OKAY changes nothing, one with a count goes on.
    peer.send(OKAY, 9, stream)
    peer.send(OKAY, 9, stream, struct.pack("<i", received))
    while True:
        packet = peer.receive()
        assert packet is not None
        if packet.command == CLSE:
            break
        received += len(packet.payload)
        peer.send(OKAY, 9, stream, struct.pack("<i", len(packet.payload)))
    assert received > 300_000
    peer.hang_up()


def test_what_was_taken_is_acknowledged_in_bytes(log: list[str]) -> None:
    peer = windowed_peer()
    stream = _open(peer, b"sync:", 1 << 20)
    request = struct.pack("<4sI", b"STAT", 1) + b"/"
    for piece in (request[:5], request[5:]):
        peer.send(WRTE, 9, stream, piece)
        assert struct.unpack("<i", peer.expect(OKAY).payload) == (len(piece),)
    assert bytes(peer.expect(WRTE).payload[:4]) == b"STAT"
    peer.hang_up()


def test_a_peer_that_sends_more_than_its_window_is_dropped(log: list[str], shell_here: None) -> None:
    peer = windowed_peer()
    stream = _open(peer, b"shell,v2,raw:sleep 100", 1 << 20)
    block = struct.pack("<BI", 0, 1 << 30) + bytes((1 << 20) - 5)
    with pytest.raises((AssertionError, OSError)):
        for _ in range(DELAYED_ACK_WINDOW_BYTES // len(block) + 40):
            peer.send(WRTE, 9, stream, block)
        while peer.receive() is not None:
            pass
        raise AssertionError
