"""Forwards through the real sshd: several on one link, half-close, backpressure, nothing left behind."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.errors import DeviceError, TunnelError
from devkit.tunnels import Link
from tests.e2e.ssh_support import Echo, Lab, ask, lab_in, read_all, wait_for


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_in(tmp_path_factory.mktemp("ssh")) as lab:
        lab.server("s")
        yield lab


@pytest.fixture(scope="module")
def link(lab: Lab) -> Link:
    return lab.connect("s")


def forward_port(link: Link, direction: str, target: tuple[str, int]) -> int:
    if direction == "remote":
        return link.remote_forward(target).port
    return link.local_forward(target).port


BOTH = pytest.mark.parametrize("direction", ["remote", "local"])


@BOTH
def test_bytes_arrive_whole_both_ways(link: Link, direction: str) -> None:
    with Echo() as target:
        port = forward_port(link, direction, target.address)
        for size in (0, 1, 40_000, 9_000_000):
            data = os.urandom(size)
            assert ask(port, data) == data


@BOTH
@pytest.mark.parametrize(("send", "expect"), [(0, 10), (10, 0), (1, 1_000_000), (1_000_000, 1_000_000)])
def test_case_e7_half_close(link: Link, direction: str, send: int, expect: int) -> None:
    """The server answers only after the client has closed its sending side."""

    def serve(sock: socket.socket) -> None:
        got = len(read_all(sock))
        sock.sendall(b"%d\n" % got + b"x" * expect)
        sock.shutdown(socket.SHUT_WR)

    with Echo(serve) as target:
        head, _, body = ask(forward_port(link, direction, target.address), b"y" * send).partition(b"\n")
    assert (int(head), len(body)) == (send, expect)


@BOTH
def test_the_server_may_end_first(link: Link, direction: str) -> None:
    got: list[bytes] = []
    done = threading.Event()

    def serve(sock: socket.socket) -> None:
        sock.sendall(b"first")
        sock.shutdown(socket.SHUT_WR)
        got.append(read_all(sock))
        done.set()

    with Echo(serve) as target:
        with socket.create_connection(("127.0.0.1", forward_port(link, direction, target.address))) as sock:
            assert read_all(sock) == b"first"
            sock.sendall(b"still here")
        assert done.wait(30)
    assert got == [b"still here"]


def test_several_forwards_on_one_link_go_to_their_own_targets(link: Link) -> None:
    """paramiko keeps one handler for all remote forwards, and forgets it when one is cancelled."""
    targets = [Echo(lambda sock, n=n: sock.sendall(b"target %d" % n)) for n in range(4)]
    forwards = [link.remote_forward(target.address) for target in targets[:3]]
    forwards.append(link.local_forward(targets[3].address))
    assert [ask(forward.port) for forward in forwards] == [b"target %d" % n for n in range(4)]
    forwards[1].close()
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", forwards[1].port), timeout=10)
    assert [ask(forwards[n].port) for n in (0, 2, 3)] == [b"target 0", b"target 2", b"target 3"]
    for target in targets:
        target.close()


@BOTH
def test_target_down_closes_the_client_at_once_and_the_listener_stays(link: Link, direction: str) -> None:
    target = Echo()
    address = target.address
    target.close()
    forward = link.remote_forward(address) if direction == "remote" else link.local_forward(address)
    assert ask(forward.port) == b""
    wait_for(lambda: forward.status().last_error, "the reason")
    assert "refused" in str(forward.status().last_error).lower()
    with Echo(port=target.port):
        assert ask(forward.port) == b"hello"
    assert forward.status().total_connections == 2


def test_a_dialler_stands_for_the_target_and_its_errors_are_told(link: Link) -> None:
    calls = []

    def dial() -> socket.socket:
        calls.append(1)
        if len(calls) == 2:
            raise DeviceError("the adb server is gone")
        ours, theirs = socket.socketpair()
        theirs.sendall(b"dialled")
        theirs.close()
        return ours

    forward = link.remote_forward(dial)
    assert ask(forward.port) == b"dialled"
    assert ask(forward.port) == b""
    wait_for(lambda: forward.status().last_error, "the reason")
    assert "the adb server is gone" in str(forward.status().last_error)
    assert ask(forward.port) == b"dialled"
    assert forward.status().target == "dial"


@BOTH
def test_a_stuck_reader_stops_neither_the_others_nor_grows_without_end(link: Link, direction: str) -> None:
    sent = [0]

    def pour(sock: socket.socket) -> None:
        sock.settimeout(300)
        while True:
            sent[0] += sock.send(b"z" * 65536)

    with Echo(pour) as flood, Echo() as other:
        flooded = socket.create_connection(("127.0.0.1", forward_port(link, direction, flood.address)))
        flooded.recv(1)
        port = forward_port(link, direction, other.address)
        before = -1
        while before != sent[0]:
            before = sent[0]
            assert ask(port, b"a" * 200_000) == b"a" * 200_000
            time.sleep(0.5)
        assert sent[0] < 100_000_000
        flooded.close()


def _serve_packets(sock: socket.socket) -> None:
    """A header and a body, a write each, as adb and lldb-server send them."""
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while _read_exactly(sock, 12):
        sock.sendall(b"head")
        time.sleep(0.001)
        sock.sendall(b"b" * 16384)


def _read_exactly(sock: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size and (piece := sock.recv(size - len(data))):
        data += piece
    return data


@BOTH
def test_small_packets_do_not_stall(link: Link, direction: str) -> None:
    """Without a session sshd leaves Nagle on: what it sends second waits for an acknowledgement, 40 ms."""
    times = []
    with Echo(_serve_packets) as target:
        port = forward_port(link, direction, target.address)
        with socket.create_connection(("127.0.0.1", port)) as sock:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for _ in range(40):
                started = time.perf_counter()
                sock.sendall(b"head")
                time.sleep(0.001)
                sock.sendall(b"question")
                assert len(_read_exactly(sock, 16388)) == 16388
                times.append(time.perf_counter() - started)
    # The lower quarter: a busy machine moves single ones, and never all of them below 40 ms.
    assert sorted(times)[10] < 0.03


@BOTH
def test_many_connections_leave_no_thread_and_no_descriptor(link: Link, direction: str) -> None:
    with Echo() as target:
        port = forward_port(link, direction, target.address)
        assert ask(port) == b"hello"
        threads = threading.active_count()
        descriptors = len(os.listdir("/proc/self/fd"))
        for _ in range(200):
            assert ask(port) == b"hello"
        wait_for(lambda: len(os.listdir("/proc/self/fd")) <= descriptors, "descriptors as before")
        wait_for(lambda: threading.active_count() <= threads, "threads as before")


def test_bytes_and_connections_are_counted(link: Link) -> None:
    with Echo(lambda sock: (read_all(sock), sock.sendall(b"12345"))[0]) as target:  # type: ignore[return-value]
        forward = link.remote_forward(target.address)
        assert ask(forward.port, b"abc") == b"12345"
        wait_for(lambda: forward.status().open_connections == 0, "its end")
        status = forward.status()
        assert (status.bytes_in, status.bytes_out, status.total_connections) == (3, 5, 1)
        assert status.target == f"127.0.0.1:{target.port}" and status.last_error is None


def test_a_chosen_port_is_taken_and_free_again_after_close(link: Link) -> None:
    with Echo() as target:
        first = link.remote_forward(target.address)
        port = first.port
        first.close()
        second = link.remote_forward(target.address, port=port)
        assert second.port == port and ask(port) == b"hello"
        second.close()
        local = link.local_forward(target.address, port=port)
        assert ask(port) == b"hello"
        local.close()
        local.close()


def test_both_listen_on_loopback_and_anything_else_is_warned_of(
    link: Link, capsys: pytest.CaptureFixture[str]
) -> None:
    with Echo() as target:
        for forward in (link.remote_forward(target.address), link.local_forward(target.address)):
            assert forward.bind == "127.0.0.1" and _listens_on(forward.port) == {"127.0.0.1"}
            forward.close()
        assert capsys.readouterr().err == ""
        forward = link.local_forward(target.address, bind="0.0.0.0")
        assert "0.0.0.0" in capsys.readouterr().err and _listens_on(forward.port) == {"0.0.0.0"}
        forward.close()


def test_a_local_port_in_use_is_said(link: Link) -> None:
    with Echo() as target, pytest.raises(TunnelError) as caught:
        link.local_forward(target.address, port=target.port)
    assert caught.value.reason == "address-in-use" and str(target.port) in str(caught.value)


def test_close_returns_soon_with_open_connections_and_leaves_nothing(lab: Lab) -> None:
    descriptors = len(os.listdir("/proc/self/fd"))
    over = threading.Event()
    with Echo(lambda sock: over.wait(300)) as target:  # type: ignore[arg-type,return-value]
        known = set(threading.enumerate())
        link = lab.connect("s")
        port = link.remote_forward(target.address).port
        local = link.local_forward(target.address).port
        clients = [socket.create_connection(("127.0.0.1", p)) for p in (port, port, local)]
        wait_for(lambda: target.served == 3, "three idle connections")
        ours = {thread for thread in set(threading.enumerate()) - known if "_one" not in thread.name}
        started = time.monotonic()
        link.close()
        assert time.monotonic() - started < 5
        assert [read_all(client) for client in clients] == [b"", b"", b""]
        for client in clients:
            client.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", local), timeout=10)
        # The server's listener goes when sshd has noticed the end of the connection.
        wait_for(lambda: not _listens_on(port), "the end of the remote port")
        over.set()
    assert not [thread for thread in ours if thread.is_alive()]
    wait_for(lambda: len(os.listdir("/proc/self/fd")) <= descriptors, "descriptors as before")
    assert link.failure is None and not link.alive


def _listens_on(port: int) -> set[str]:
    found = set()
    for line in Path("/proc/net/tcp").read_text("ascii").splitlines()[1:]:
        words = line.split()
        address, hex_port = words[1].split(":")
        if words[3] == "0A" and int(hex_port, 16) == port:
            found.add(socket.inet_ntoa(bytes.fromhex(address)[::-1]))
    return found
