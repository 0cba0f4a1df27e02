"""The connection: handshake, dispatch, and what a hostile or broken peer can do to it."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sim_peer import Peer, make_peer

from devkit.sim.adbd import packets, streams
from devkit.sim.adbd.packets import AUTH, CLSE, CNXN, OKAY, OPEN, STLS, WRTE
from devkit.sim.adbd.streams import Stream
from devkit.sim.adbd.transport import Transport
from devkit.sim.releases import find_release


def test_handshake(peer: Peer) -> None:
    answer = peer.connect()
    assert answer.arg0 == packets.VERSION_SKIP_CHECKSUM
    assert answer.arg1 == 1024 * 1024
    banner = bytes(answer.payload).decode()
    assert banner.startswith(
        "device::ro.product.name=n;ro.product.model=m;ro.product.device=d;features=shell_v2,"
    )
    assert "sendrecv_v2" in banner


def test_old_peers_get_and_must_send_checksums(peer: Peer) -> None:
    peer.connect(packets.VERSION_WITH_CHECKSUM)
    service = b"no-such-service\0"
    peer.send(OPEN, 5, 0, service, checksum=True)
    assert peer.expect(CLSE).arg1 == 5
    peer.send(OPEN, 6, 0, service, checksum=False)
    assert peer.receive() is None


def test_small_payloads_of_the_peer_are_respected(peer: Peer, shell_here: None) -> None:
    peer.connect(max_payload=300)
    stream = peer.open("shell,v2,raw:head -c 5000 /dev/zero")
    frames = stream.read_to_end()
    assert frames.count(b"\0") > 5000
    peer.send(OPEN, 7, 0, b"shell,v2,raw:head -c 1000 /dev/zero\0")
    sizes = []
    while (packet := peer.receive()) is not None and packet.command != CLSE:
        sizes.append(len(packet.payload))
        if packet.command == WRTE:
            peer.send(OKAY, 7, packet.arg0)
    assert max(sizes) == 300


def test_nothing_is_served_before_the_handshake(peer: Peer) -> None:
    peer.send(OPEN, 1, 0, b"shell:id\0", checksum=True)
    peer.send(WRTE, 1, 1, b"x", checksum=True)
    peer.send(STLS, 1, 0)
    # The first thing that comes back is the answer to CNXN.
    peer.connect()


def test_unknown_service_is_refused_with_id_0(peer: Peer) -> None:
    peer.connect()
    peer.send(OPEN, 9, 0, b"framebuffer:\0")
    packet = peer.expect(CLSE)
    assert (packet.arg0, packet.arg1) == (0, 9)


def test_opens_with_a_window_nobody_agreed_on_or_without_id(peer: Peer) -> None:
    peer.connect()
    peer.send(OPEN, 0, 0, b"sync:\0")
    peer.send(OPEN, 9, 33554432, b"sync:\0")
    packet = peer.expect(CLSE)
    assert (packet.arg0, packet.arg1) == (0, 9)


def test_packets_for_streams_that_do_not_exist_are_ignored(peer: Peer) -> None:
    peer.connect()
    for command in (WRTE, OKAY, CLSE, AUTH):
        peer.send(command, 77, 88, b"x" if command == WRTE else b"")
    sync = peer.open("sync:")
    assert sync.accepted
    # Right stream, wrong peer: not for us either.
    peer.send(CLSE, 4711, sync.remote_id)
    sync.write(struct.pack("<4sI", b"QUIT", 0))
    assert sync.read_to_end() == b""


def test_a_close_is_answered_once(peer: Peer) -> None:
    peer.connect()
    stream = peer.open("sync:")
    peer.send(CLSE, stream.local_id, stream.remote_id)
    assert peer.expect(CLSE).arg1 == stream.local_id
    peer.send(CLSE, stream.local_id, stream.remote_id)
    assert peer.open("sync:").accepted


def test_a_new_connect_closes_the_old_streams(peer: Peer, shell_here: None) -> None:
    peer.connect()
    assert peer.open("shell,v2,raw:cat").accepted
    peer.send(CNXN, packets.VERSION_SKIP_CHECKSUM, 1 << 20, b"host::\0")
    while (packet := peer.receive()) is not None and packet.command != CNXN:
        pass
    assert packet is not None


def test_a_peer_that_floods_a_stream_is_dropped(peer: Peer, shell_here: None) -> None:
    peer.connect()
    # The program reads nothing, so nothing but the pipe's size is taken.
    stream = peer.open("shell,v2,raw:sleep 100")
    frame = struct.pack("<BI", 0, 1 << 20) + bytes(1 << 20)
    with pytest.raises((AssertionError, OSError)):
        for _ in range(streams.MAX_QUEUED_CHUNKS + 30):
            peer.send(WRTE, stream.local_id, stream.remote_id, frame[: 1 << 20])
        while peer.receive() is not None:
            pass
        raise AssertionError


class _Password:
    def __init__(self) -> None:
        self.challenges = 0
        self.asked: list[bytes] = []
        self.withdrawn = threading.Event()

    def challenge(self) -> bytes:
        self.challenges += 1
        return b"%d" % self.challenges

    def accepts(self, signature: bytes) -> bool:
        return signature == b"signed 2"

    def ask(self, public_key: bytes, let_in: Callable[[], None]) -> None:
        self.asked.append(public_key)
        if public_key == b"friend":
            let_in()

    def withdraw(self) -> None:
        self.withdrawn.set()


def _guarded_peer(password: _Password) -> Peer:
    ours, theirs = socket.socketpair()

    def refuse(_: Transport, stream: Stream, __: str) -> None:
        stream.refuse()

    transport = Transport(theirs, b"device::", refuse, find_release("14").wire, password)
    thread = threading.Thread(target=transport.run, daemon=True)
    thread.start()
    peer = Peer(ours, thread)
    peer.send(CNXN, packets.VERSION_SKIP_CHECKSUM, 1 << 20, b"host::\0")
    assert bytes(peer.expect(AUTH).payload) == b"1"
    return peer


def test_an_authenticator_decides() -> None:
    password = _Password()
    peer = _guarded_peer(password)
    peer.send(OPEN, 1, 0, b"shell:\0", checksum=True)
    peer.send(AUTH, 2, 0, b"signed 1")
    assert bytes(peer.expect(AUTH).payload) == b"2"
    peer.send(AUTH, 2, 0, b"signed 2")
    peer.expect(CNXN)
    peer.send(OPEN, 1, 0, b"shell:\0")
    peer.expect(CLSE)
    # A new CNXN starts over.
    peer.send(CNXN, packets.VERSION_SKIP_CHECKSUM, 1 << 20, b"host::\0")
    peer.expect(AUTH)
    peer.send(OPEN, 1, 0, b"shell:\0")
    peer.hang_up()
    assert password.withdrawn.is_set()


def test_a_public_key_is_shown_to_the_user() -> None:
    password = _Password()
    peer = _guarded_peer(password)
    peer.send(AUTH, 3, 0, b"stranger")
    peer.send(AUTH, 3, 0, b"friend")
    peer.expect(CNXN)
    assert password.asked == [b"stranger", b"friend"]
    peer.hang_up()


# ---- fuzz

_IDS = st.one_of(st.integers(0, 8), st.integers(99, 103), st.integers(0, 2**32 - 1))
_SERVICES = st.sampled_from(
    [
        b"sync:\0",
        b"no-such:\0",
        b"",
        b"\0",
        b"tcp:1\0",
        b"tcp:99999\0",
        b"tcp:\xff\0",
        b"localabstract:devkit-nobody\0",
        b"localfilesystem:" + b"x" * 300,
        b"reverse:list-forward\0",
        b"reverse:killforward:x\0",
        b"reverse:forward:\0",
        b"shell,v2\0",
        b"exec\0",
    ]
)
# Requests that only read: the daemon under test sees this machine's files.
_SYNC = st.sampled_from(
    [
        struct.pack("<4sI", b"STAT", 1) + b"/",
        struct.pack("<4sI", b"LST2", 5) + b"/proc",
        struct.pack("<4sI", b"LIS2", 9) + b"/nonexist",
        struct.pack("<4sI", b"RECV", 2) + b"\0\0",
        struct.pack("<4sI", b"RCV2", 1) + b"/" + struct.pack("<4sI", b"RCV2", 0x55),
        struct.pack("<4sI", b"QUIT", 0),
        struct.pack("<4sI", b"WHAT", 3) + b"abc",
        struct.pack("<4sI", b"STAT", 0xFFFFFFFF),
        b"",
        b"S",
    ]
)
_PACKETS = st.tuples(
    st.sampled_from([OPEN, OKAY, WRTE, CLSE, AUTH, STLS, CNXN, 0x12345678]),
    _IDS,
    _IDS,
    st.one_of(_SERVICES, _SYNC, st.binary(max_size=40)),
)


def _drain(peer: Peer) -> None:
    """Read everything there is, so that the daemon never waits for us."""
    try:
        while peer.sock.recv(1 << 20):
            pass
    except OSError:
        pass


def _finish(peer: Peer, log: list[str]) -> None:
    reader = threading.Thread(target=_drain, args=(peer,), daemon=True)
    reader.start()
    peer.sock.shutdown(socket.SHUT_WR)
    peer.thread.join(10)
    assert not peer.thread.is_alive()
    reader.join(10)
    peer.sock.close()
    assert not [line for line in log if "Traceback" in line], log


_FUZZ = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@_FUZZ
@given(data=st.binary(max_size=400))
def test_bytes_that_are_no_packets_end_the_connection_only(log: list[str], data: bytes) -> None:
    peer = make_peer()
    peer.sock.sendall(data)
    _finish(peer, log)


@_FUZZ
@given(sequence=st.lists(_PACKETS, max_size=25), tail=st.binary(max_size=30))
def test_any_sequence_of_packets_is_survived(
    log: list[str], sequence: list[tuple[int, int, int, bytes]], tail: bytes
) -> None:
    peer = make_peer()
    peer.connect()
    try:
        for command, arg0, arg1, payload in sequence:
            peer.send(command, arg0, arg1, payload)
        peer.sock.sendall(tail)
    except OSError:
        pass  # The daemon has dropped the connection already, which is its right.
    _finish(peer, log)
    # Other connections do not notice.
    other = make_peer()
    other.connect()
    other.hang_up()
