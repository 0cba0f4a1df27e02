"""Framing of shell v2, the v1 stand-in with its marker, and what happens when links break."""

from __future__ import annotations

import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from devkit.device import phone
from devkit.device.connection import open_service
from devkit.device.failures import DeviceNotReady, NothingListens, PhoneLost
from devkit.device.servers import AdbServer
from devkit.device.shell import (
    Chunk,
    ShellV1Stream,
    ShellV2Stream,
    shell_service,
    wrap_for_v1,
)
from devkit.errors import DeviceError, OperationTimeout, UsageError

if TYPE_CHECKING:
    from conftest import FakeAdbServer

SERVER = AdbServer("127.0.0.1", 1, "test")


def packet(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end and the phone's end of a connection."""
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def v2(sock: socket.socket) -> ShellV2Stream:
    return ShellV2Stream(sock, server=SERVER, serial="P", doing="running x")


def v1(sock: socket.socket, marker: str | None) -> ShellV1Stream:
    return ShellV1Stream(sock, marker, server=SERVER, serial="P", doing="running x")


def merged(chunks: list[Chunk]) -> list[Chunk]:
    """Neighbouring pieces of one stream joined: how they were cut is chance."""
    out: list[Chunk] = []
    for name, data in chunks:
        if isinstance(data, bytes) and out and out[-1][0] == name:
            out[-1] = (name, out[-1][1] + data)  # type: ignore[assignment, operator]
        else:
            out.append((name, data))  # type: ignore[arg-type]
    return out


def ready(stream: ShellV2Stream) -> list[Chunk]:
    """All chunks, as `read_ready` hands them out."""
    chunks: list[Chunk] = []
    while not chunks or chunks[-1][0] != "exit":
        chunks += stream.read_ready(5)
    return chunks


@pytest.mark.parametrize("read", [list, ready])
@pytest.mark.parametrize("step", [1, 2, 3, 7, 1000])
def test_v2_packets_in_any_pieces(
    pair: tuple[socket.socket, socket.socket], step: int, read: Callable[[ShellV2Stream], list[Chunk]]
) -> None:
    ours, theirs = pair
    data = (
        packet(1, b"out1")
        + packet(2, b"err")
        + packet(1, b"")
        + packet(9, b"unknown kinds are skipped")
        + packet(1, b"out2\0\xff")
        + packet(3, b"\x2a")
    )

    def send() -> None:
        for start in range(0, len(data), step):
            theirs.sendall(data[start : start + step])

    thread = threading.Thread(target=send)
    thread.start()
    stream = v2(ours)
    assert merged(read(stream)) == [
        ("stdout", b"out1"),
        ("stderr", b"err"),
        ("stdout", b"out2\0\xff"),
        ("exit", 42),
    ]
    thread.join()
    assert stream.read() == ("exit", 42) and stream.read_ready() == [("exit", 42)]


def test_v2_output_comes_before_its_packet_is_complete(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(struct.pack("<BI", 1, 100) + b"first half")
    assert v2(ours).read(5) == ("stdout", b"first half")


def test_v2_sends(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = v2(ours)
    stream.write_stdin(b"x" * 100_000)
    stream.write_stdin(b"")
    stream.resize(24, 80)
    stream.close_stdin()
    stream.close()
    sent = b""
    while data := theirs.recv(1 << 20):
        sent += data
    size = b"24x80,0x0\0"
    assert sent == (packet(0, b"x" * 65536) + packet(0, b"x" * 34464) + packet(5, size) + packet(4, b""))


def test_timeouts_and_silence(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = v2(ours)
    with pytest.raises(OperationTimeout, match="running x"):
        stream.read(0.05)
    theirs.sendall(packet(1, b"later"))
    assert stream.read(5) == ("stdout", b"later")


def test_end_without_an_exit_code_is_a_lost_phone(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = v2(ours)
    theirs.sendall(packet(1, b"part") + b"\x03\x01\0")
    theirs.close()
    assert stream.read() == ("stdout", b"part")
    with pytest.raises(PhoneLost, match="broke off") as caught:
        stream.read()
    assert caught.value.where == "phone"


@pytest.mark.parametrize("timeout_s", [None, 30])
def test_close_wakes_a_reader(pair: tuple[socket.socket, socket.socket], timeout_s: float | None) -> None:
    stream = v2(pair[0])
    caught: list[BaseException] = []

    def reader() -> None:
        try:
            stream.read(timeout_s)
        except PhoneLost as error:
            caught.append(error)

    thread = threading.Thread(target=reader)
    thread.start()
    time.sleep(0.1)
    stream.close()
    thread.join(5)
    assert not thread.is_alive()
    assert len(caught) == 1


def test_writing_to_an_ended_command_is_no_error(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(packet(3, b"\0"))
    theirs.close()
    stream = v2(ours)
    for _ in range(3):
        stream.write_stdin(b"x" * 1000)
    assert stream.read() == ("exit", 0)


@pytest.mark.parametrize("step", [1, 3, 1000])
@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
@pytest.mark.parametrize("output", [b"", b"a\nb\n", b"\n\n", b"no end", b"x\r", b"\r\n\r\nMAR", b"MARK"])
def test_v1_marker_in_any_pieces(
    pair: tuple[socket.socket, socket.socket], step: int, newline: bytes, output: bytes
) -> None:
    ours, theirs = pair
    data = output + newline + b"MARK:7:" + newline

    def send() -> None:
        for start in range(0, len(data), step):
            theirs.sendall(data[start : start + step])
        theirs.close()

    thread = threading.Thread(target=send)
    thread.start()
    chunks = merged(list(v1(ours, "MARK")))
    thread.join()
    if newline == b"\n":
        output = output.removesuffix(b"\r")  # taken for the pty's: what old phones make of \n
    assert chunks == ([("stdout", output)] if output else []) + [("exit", 7)]


def test_v1_hands_out_lines_at_once(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    stream = v1(ours, "MARK")
    theirs.sendall(b"line 1\nprompt> ")
    assert stream.read(5) == ("stdout", b"line 1\nprompt> ")
    theirs.sendall(b"x\nMA")
    assert stream.read(5) == ("stdout", b"x")
    theirs.sendall(b"NY\n")
    assert stream.read(5) == ("stdout", b"\nMANY")


def test_v1_lost_and_interactive_ends(pair: tuple[socket.socket, socket.socket]) -> None:
    ours, theirs = pair
    theirs.sendall(b"half\nMARK")
    theirs.close()
    stream = v1(ours, "MARK")
    assert merged([stream.read(), stream.read()]) == [("stdout", b"half\nMARK")]
    with pytest.raises(PhoneLost):
        stream.read()
    ours, theirs = socket.socketpair()
    theirs.sendall(b"$ ")
    theirs.close()
    assert list(v1(ours, None)) == [("stdout", b"$ "), ("exit", 0)]
    ours.close()


@pytest.mark.parametrize(
    ("command", "stdin", "output", "code"),
    [
        ("echo hi; exit 3", b"", b"hi\n", 3),
        ("printf x", b"", b"x", 0),
        ("cat; exit 5", b"it's\nbytes \0 \xff", b"it's\nbytes \0 \xff", 5),
        ("cat", b"", b"", 0),
        ("kill -9 $$", b"", b"", 137),
        ("if", b"", None, 2),
        ("echo '\"$HOME'", b"", b'"$HOME\n', 0),
    ],
)
def test_v1_wrapping_in_a_real_sh(command: str, stdin: bytes, output: bytes | None, code: int) -> None:
    line, marker = wrap_for_v1(command, stdin_bytes=len(stdin))
    # The phone's side never sees the end of this input: extra bytes stand for the open connection.
    done = subprocess.run(["sh", "-c", line], input=stdin + b"never read", capture_output=True, check=True)
    ours, theirs = socket.socketpair()
    theirs.sendall(done.stdout)
    theirs.close()
    chunks = merged(list(v1(ours, marker)))
    ours.close()
    assert chunks[-1] == ("exit", code)
    if output is not None:
        assert chunks[:-1] == ([("stdout", output)] if output else [])


def test_service_names() -> None:
    assert shell_service("ls", v2=True, pty=False, term=None) == "shell,v2,raw:ls"
    assert shell_service("", v2=True, pty=True, term="xterm") == "shell,v2,TERM=xterm,pty:"
    assert shell_service("ls", v2=True, pty=True, term="a,raw:rm") == "shell,v2,pty:ls"
    assert shell_service("ls", v2=False, pty=False, term=None) == "exec:ls"
    assert shell_service("", v2=False, pty=True, term="xterm") == "shell:"


def test_shell_collects_and_counts(fake: FakeAdbServer) -> None:
    def serve(sock: socket.socket) -> None:
        sock.sendall(packet(1, b"out") + packet(2, b"err") + packet(3, b"\x05"))

    fake.services["shell,v2,raw"] = serve
    device = fake.device()
    result = device.shell(["a b", "c"])
    assert (result.exit_code, result.stdout, result.stderr, result.text) == (5, b"out", b"err", "out")
    assert fake.requests[-1] == "shell,v2,raw:'a b' c"
    assert device.round_trips == 1
    with pytest.raises(DeviceError, match=r"exit code 5") as caught:
        device.shell("x", check=True)
    assert caught.value.evidence == "err"
    assert device.round_trips == 2
    # The features are asked once.
    assert fake.requests.count("host-serial:PHONE1:features") == 1


def test_shell_timeout_shows_what_was_said(fake: FakeAdbServer) -> None:
    def serve(sock: socket.socket) -> None:
        sock.sendall(packet(1, b"loading model"))
        time.sleep(1)

    fake.services["shell,v2,raw"] = serve
    with pytest.raises(OperationTimeout, match=r"`slow` was not done .* after 0.2 s") as caught:
        fake.device().shell("slow", timeout_s=0.2)
    assert caught.value.evidence == "loading model"
    assert caught.value.exit_code == 124


def test_shell_timeout_holds_against_a_talker(fake: FakeAdbServer) -> None:
    def serve(sock: socket.socket) -> None:
        while True:
            sock.sendall(packet(1, b"y\n" * 1000))

    fake.services["shell,v2,raw"] = serve
    begun = time.monotonic()
    with pytest.raises(OperationTimeout):
        fake.device().shell("yes", timeout_s=0.2)
    assert time.monotonic() - begun < 3


def test_a_command_that_is_too_long_is_not_sent(fake: FakeAdbServer) -> None:
    device = fake.device()
    with pytest.raises(DeviceError, match="too long") as caught:
        device.shell("x" * 70_000)
    assert "push" in caught.value.hints[0]
    with pytest.raises(DeviceError, match="too long"):
        fake.device("cmd", serial="OLD").shell("x" * 5_000)
    with pytest.raises(UsageError, match="NUL"):
        device.shell("a\0b")
    assert not [request for request in fake.requests if request.startswith(("shell", "exec"))]


@pytest.mark.parametrize(
    ("said", "state"),
    [
        ("device offline", "offline"),
        ("device unauthorized.\nThis adb server's $ADB_VENDOR_KEYS is not set", "unauthorized"),
        ("device still authorizing", "authorizing"),
        ("device still connecting", "connecting"),
        ("insufficient permissions for device: user in plugdev group", "no permissions"),
        ("device 'PHONE1' not found", "not found"),
    ],
)
def test_a_phone_that_is_not_ready(fake: FakeAdbServer, said: str, state: str) -> None:
    device = fake.device()
    fake.transport = b"FAIL%04x" % len(said) + said.encode()
    with pytest.raises(DeviceNotReady) as caught:
        device.shell("ls")
    assert caught.value.state == state
    assert said.splitlines()[0] in (caught.value.evidence or "")
    assert "running `ls`" in caught.value.what
    assert caught.value.hints


def test_dial(fake: FakeAdbServer) -> None:
    def echo(sock: socket.socket) -> None:
        while data := sock.recv(1000):
            sock.sendall(data)

    fake.services["localabstract:x"] = echo
    device = fake.device()
    with device.dial("localabstract:x") as sock:
        assert sock.gettimeout() is None
        assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        sock.sendall(b"ping")
        assert sock.recv(100) == b"ping"
    with pytest.raises(NothingListens, match="dialling tcp:1") as refused:
        device.dial("tcp:1")
    assert refused.value.hints


def test_a_server_that_never_accepts_a_service(fake: FakeAdbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        phone, "open_service", lambda *args, **named: open_service(*args, **named, timeout_s=0.2)
    )
    device = fake.device()
    assert device.features
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        device.server = AdbServer("127.0.0.1", deaf.getsockname()[1], "test")
        with pytest.raises(OperationTimeout, match=r"did not answer within 0.2 s \(running `ls`\)"):
            device.shell("ls")
