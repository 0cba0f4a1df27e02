from __future__ import annotations

import struct
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sim_peer import Peer

from devkit.sim.adbd.packets import CLSE
from devkit.sim.adbd.shell import (
    ID_CLOSE_STDIN,
    ID_EXIT,
    ID_STDERR,
    ID_STDIN,
    ID_STDOUT,
    ID_WINDOW_SIZE,
    FrameParser,
    ShellRequest,
    parse_request,
    parse_window_size,
)


@pytest.mark.parametrize(
    ("service", "expected"),
    [
        ("shell:", ShellRequest("", True, False, "dumb")),
        ("shell:ls -l", ShellRequest("ls -l", False, False, "dumb")),
        ("shell:echo a:b", ShellRequest("echo a:b", False, False, "dumb")),
        ("shell,v2,raw:id", ShellRequest("id", False, True, "dumb")),
        ("shell,v2,TERM=xterm-256color,pty:", ShellRequest("", True, True, "xterm-256color")),
        ("shell,v2,raw:", ShellRequest("", False, True, "dumb")),
        ("shell,future=1:id", ShellRequest("id", False, False, "dumb")),
        ("exec:cat", ShellRequest("cat", False, False, None)),
        ("exec,v2:cat", None),
        ("shell", None),
        ("shells:x", None),
        ("sync:", None),
    ],
)
def test_parse_request(service: str, expected: ShellRequest | None) -> None:
    assert parse_request(service) == expected


def test_parse_window_size() -> None:
    assert parse_window_size(b"24x80,640x480\0") == (24, 80, 640, 480)
    for wrong in (b"", b"24x80", b"ax1,1x1", b"1x1,1x99999", b"-1x1,1x1", b"\xff", b"1x1,1x1,1x1"):
        assert parse_window_size(wrong) is None, wrong


def frame(kind: int, data: bytes) -> bytes:
    return struct.pack("<BI", kind, len(data)) + data


@given(
    st.lists(
        st.tuples(st.sampled_from([ID_STDIN, ID_CLOSE_STDIN, ID_WINDOW_SIZE, 77]), st.binary(max_size=50))
    ),
    st.lists(st.integers(1, 40), min_size=1),
)
def test_frames_do_not_depend_on_how_they_were_cut(frames: list[tuple[int, bytes]], cuts: list[int]) -> None:
    data = b"".join(frame(kind, body) for kind, body in frames)
    parser, found, index = FrameParser(), [], 0
    while data:
        size = cuts[index % len(cuts)]
        index += 1
        found += parser.feed(memoryview(data[:size]))
        data = data[size:]
    stdin = b"".join(bytes(body) for kind, body in found if kind == ID_STDIN)
    assert stdin == b"".join(body for kind, body in frames if kind == ID_STDIN)
    others = [(kind, bytes(body)) for kind, body in found if kind != ID_STDIN]
    assert others == [(kind, body) for kind, body in frames if kind != ID_STDIN]


def parse_frames(data: bytes) -> list[tuple[int, bytes]]:
    frames = []
    while data:
        kind, size = struct.unpack_from("<BI", data)
        frames.append((kind, data[5 : 5 + size]))
        data = data[5 + size :]
    return frames


def joined(frames: list[tuple[int, bytes]], kind: int) -> bytes:
    return b"".join(body for k, body in frames if k == kind)


def test_raw_with_protocol(peer: Peer, shell_here: None) -> None:
    peer.connect()
    stream = peer.open("shell,v2,raw:cat; echo oops >&2; exit 4")
    stream.write(frame(ID_STDIN, b"in") + frame(ID_STDIN, b"put\n")[:7])
    stream.write(frame(ID_STDIN, b"put\n")[7:] + frame(ID_CLOSE_STDIN, b""))
    frames = parse_frames(stream.read_to_end())
    assert joined(frames, ID_STDOUT) == b"input\n"
    assert joined(frames, ID_STDERR) == b"oops\n"
    assert frames[-1] == (ID_EXIT, b"\x04")


def test_signals_are_128_and_the_number(peer: Peer, shell_here: None) -> None:
    peer.connect()
    frames = parse_frames(peer.open("shell,v2,raw:kill -TERM $$").read_to_end())
    assert frames == [(ID_EXIT, bytes([128 + 15]))]


def test_terminal_with_protocol_and_a_window(peer: Peer, shell_here: None) -> None:
    peer.connect()
    stream = peer.open("shell,v2,TERM=vt100,pty:read x; stty size; echo $TERM; exit 3")
    stream.write(frame(ID_WINDOW_SIZE, b"33x99,0x0\0") + frame(ID_STDIN, b"go\n"))
    frames = parse_frames(stream.read_to_end())
    assert joined(frames, ID_STDOUT) == b"go\r\n33 99\r\nvt100\r\n"
    assert frames[-1] == (ID_EXIT, b"\x03")


def test_without_protocol_a_raw_terminal_changes_no_byte(peer: Peer, shell_here: None) -> None:
    peer.connect()
    output = peer.open("exec:printf 'a\\nb\\tc\\003d'; tty >/dev/null && printf terminal").read_to_end()
    assert output == b"a\nb\tc\x03dterminal"


def test_a_shell_that_cannot_start_says_so(peer: Peer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("devkit.sim.adbd.shell.SHELL", "/no/such/shell")
    peer.connect()
    frames = parse_frames(peer.open("shell,v2,raw:id").read_to_end())
    assert joined(frames, ID_STDERR).startswith(b"error: ")
    assert frames[-1] == (ID_EXIT, bytes([126]))
    assert peer.open("shell:id").read_to_end().startswith(b"error: ")


def test_stdin_that_nobody_reads_is_not_acknowledged(peer: Peer, shell_here: None) -> None:
    peer.connect()
    stream = peer.open("shell,v2,raw:sleep 0.5")
    started = time.monotonic()
    big = bytes(1 << 20)
    stream.write((frame(ID_STDIN, big))[: 1 << 20])
    stream.write(b"\0" * 5 + frame(ID_STDIN, b"more"))
    assert time.monotonic() - started > 0.3
    stream.read_to_end()


def test_closing_the_stream_ends_the_program(peer: Peer, shell_here: None, log: list[str]) -> None:
    peer.connect()
    stream = peer.open("shell,v2,raw:sleep 300")
    peer.send(CLSE, stream.local_id, stream.remote_id)
    peer.expect(CLSE)
    pid = int(next(line for line in log if line.startswith("started pid")).split()[2].rstrip(":"))
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            open(f"/proc/{pid}/stat").close()
        except FileNotFoundError:
            return
        time.sleep(0.01)
    raise AssertionError("the program is still there")
