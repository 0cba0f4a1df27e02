"""The relay moves bytes both ways, takes one client, and ends when either side ends."""

from __future__ import annotations

import os
import socket
import threading
import time

import pytest

from devkit.tunnels import Relay


def pair() -> tuple[socket.socket, socket.socket]:
    ours, phone = socket.socketpair()
    return ours, phone


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.1", relay.port), timeout=5)


def read_all(sock: socket.socket) -> bytes:
    sock.settimeout(5)
    data = b""
    while chunk := sock.recv(65536):
        data += chunk
    return data


def test_bytes_arrive_whole_both_ways() -> None:
    ours, phone = pair()
    up, down = os.urandom(3_000_000), os.urandom(2_000_000)
    with Relay(ours) as relay:
        client = connect(relay)
        threading.Thread(target=client.sendall, args=(up,), daemon=True).start()
        threading.Thread(target=phone.sendall, args=(down,), daemon=True).start()
        got = bytearray()
        phone.settimeout(5)
        while len(got) < len(up):
            got += phone.recv(65536)
        back = bytearray()
        while len(back) < len(down):
            back += client.recv(65536)
        assert bytes(got) == up and bytes(back) == down
        client.close()
    assert (relay.bytes_up, relay.bytes_down) == (len(up), len(down))
    phone.close()


@pytest.mark.parametrize("who", ["client", "phone"])
def test_the_end_of_either_side_ends_both(who: str) -> None:
    ours, phone = pair()
    with Relay(ours) as relay:
        client = connect(relay)
        client.sendall(b"x")
        assert phone.recv(1) == b"x"
        first, second = (client, phone) if who == "client" else (phone, client)
        first.close()
        assert read_all(second) == b""
        second.close()


def test_only_one_client_is_taken() -> None:
    ours, phone = pair()
    with Relay(ours) as relay:
        port = relay.port
        client = connect(relay)
        client.sendall(b"x")
        assert phone.recv(1) == b"x"
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=5)
        client.close()
    phone.close()


def test_close_without_a_client_frees_port_and_threads() -> None:
    before = threading.active_count()
    ours, phone = pair()
    relay = Relay(ours)
    port = relay.port
    with relay:
        pass
    deadline = time.monotonic() + 2
    while threading.active_count() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert threading.active_count() <= before
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), timeout=5)
    assert read_all(phone) == b""
    phone.close()


def test_it_listens_on_loopback_only() -> None:
    ours, phone = pair()
    relay = Relay(ours)
    assert relay._listener.getsockname()[0] == "127.0.0.1"
    relay.close()
    phone.close()
