from __future__ import annotations

import os
import socket
import threading
from pathlib import Path

import pytest
from sim_peer import Peer

from devkit.sim.adbd.packets import CLSE, OKAY, OPEN, WRTE
from devkit.sim.adbd.sockets import SocketSpec, parse_spec


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("tcp:31313", SocketSpec(port=31313)),
        ("tcp:0", SocketSpec(port=0)),
        ("tcp:31313:127.0.0.1", SocketSpec(port=31313)),
        ("tcp:localhost:31313", SocketSpec(port=31313)),
        ("tcp:65536", None),
        ("tcp:", None),
        ("tcp:-1", None),
        ("tcp:²", None),
        ("tcp:80:example.com", None),
        ("localabstract:a:b 手", SocketSpec(name="\0a:b 手".encode())),
        ("localreserved:adbd", SocketSpec(name=b"/dev/socket/adbd")),
        ("local:adbd", SocketSpec(name=b"/dev/socket/adbd")),
        ("localfilesystem:/data/x", SocketSpec(name=b"/data/x")),
        ("udp:1", None),
        ("localabstract", None),
        ("", None),
    ],
)
def test_parse_spec(text: str, expected: SocketSpec | None) -> None:
    assert parse_spec(text) == expected


@pytest.fixture
def program(tmp_path: Path) -> tuple[str, socket.socket]:
    path = str(tmp_path / "s")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    listener.settimeout(10)
    return f"localfilesystem:{path}", listener


def test_both_directions(peer: Peer, program: tuple[str, socket.socket]) -> None:
    service, listener = program
    peer.connect()
    stream = peer.open(service)
    near, _ = listener.accept()
    with near:
        stream.write(b"question")
        assert near.recv(100) == b"question"
        near.sendall(b"answer")
        assert stream.read(6) == b"answer"
        near.close()
        assert stream.read_to_end() == b""


def test_data_sent_before_a_close_still_arrives(peer: Peer, program: tuple[str, socket.socket]) -> None:
    service, listener = program
    peer.connect()
    stream = peer.open(service)
    near, _ = listener.accept()
    with near:
        payload = os.urandom(900_000)
        peer.send(WRTE, stream.local_id, stream.remote_id, payload)
        peer.send(CLSE, stream.local_id, stream.remote_id)
        received = bytearray()
        while piece := near.recv(65536):
            received += piece
        assert received == payload


def test_data_of_the_program_arrives_before_the_close(peer: Peer, program: tuple[str, socket.socket]) -> None:
    service, listener = program
    peer.connect()
    stream = peer.open(service)
    near, _ = listener.accept()
    payload = os.urandom(3_000_000)

    def send() -> None:
        with near:
            near.sendall(payload)

    thread = threading.Thread(target=send)
    thread.start()
    assert stream.read_to_end() == payload
    thread.join()


def test_nobody_listens(peer: Peer, tmp_path: Path) -> None:
    peer.connect()
    assert not peer.open(f"localfilesystem:{tmp_path}/none").accepted
    assert not peer.open("localabstract:devkit-test-nobody").accepted
    assert not peer.open("localfilesystem:" + "x" * 500).accepted


# ---- reverse


def ask(peer: Peer, command: str) -> bytes:
    return peer.open(f"reverse:{command}").read_to_end()


def test_reverse_listeners(peer: Peer) -> None:
    peer.connect()
    assert ask(peer, "list-forward") == b"0000"
    answer = ask(peer, "forward:tcp:0;tcp:5000")
    assert answer[:4] == b"OKAY"
    port = int(answer[8:])
    assert int(answer[4:8], 16) == len(answer[8:])
    line = f"(reverse) tcp:{port} tcp:5000\n".encode()
    assert ask(peer, "list-forward") == b"%04x" % len(line) + line
    with socket.create_connection(("127.0.0.1", port), 10) as near:
        packet = peer.expect(OPEN)
        assert bytes(packet.payload) == b"tcp:5000\0"
        peer.send(OKAY, 500, packet.arg0)
        near.sendall(b"hello")
        data = peer.expect(WRTE)
        assert (data.arg0, data.arg1, bytes(data.payload)) == (packet.arg0, 500, b"hello")
        peer.send(OKAY, 500, packet.arg0)
        peer.send(WRTE, 500, packet.arg0, b"back")
        assert near.recv(4) == b"back"
        peer.expect(OKAY)
        peer.send(CLSE, 500, packet.arg0)
        assert near.recv(1) == b""
    peer.expect(CLSE)
    # A second request changes where it leads, unless it must not.
    assert ask(peer, f"forward:norebind:tcp:{port};tcp:6000").endswith(b"cannot rebind existing socket")
    assert ask(peer, f"forward:tcp:{port};tcp:6000") == b"OKAY"
    assert b"tcp:6000" in ask(peer, "list-forward")
    assert ask(peer, f"killforward:tcp:{port}") == b"OKAY"
    assert b"not found" in ask(peer, f"killforward:tcp:{port}")
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1)


def test_a_refused_reverse_connection_is_closed(peer: Peer) -> None:
    peer.connect()
    port = int(ask(peer, "forward:tcp:0;tcp:1")[8:])
    with socket.create_connection(("127.0.0.1", port), 10) as near:
        packet = peer.expect(OPEN)
        peer.send(CLSE, 0, packet.arg0)
        assert near.recv(1) == b""
    assert ask(peer, "killforward-all") == b"OKAY"
    assert ask(peer, "list-forward") == b"0000"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("forward:", b"bad forward"),
        ("forward:tcp:1", b"bad forward"),
        ("forward:tcp:1;*", b"bad forward"),
        ("forward:nonsense;tcp:1", b"cannot bind listener"),
        ("forward:localfilesystem:/no/such/folder/s;tcp:1", b"cannot bind listener: No such file"),
        ("what", b"not a reverse forwarding command"),
    ],
)
def test_wrong_reverse_requests(peer: Peer, command: str, words: bytes) -> None:
    peer.connect()
    answer = ask(peer, command)
    assert answer[:4] == b"FAIL"
    assert words in answer


def test_listeners_end_with_their_connection(peer: Peer) -> None:
    peer.connect()
    port = int(ask(peer, "forward:tcp:0;tcp:1")[8:])
    peer.hang_up()
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), 1)
