"""logd without a phone: its sockets in a folder, its buffers, folding, readers and commands."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.sim.logs import wire
from devkit.sim.logs.buffers import MIN_BYTES, Buffers
from devkit.sim.logs.chatty import Folder, Message
from devkit.sim.logs.entry import parse_packet
from devkit.sim.logs.logd import LogDaemon
from devkit.sim.logs.loggable import Loggable
from devkit.sim.logs.readers import JOINED, ReadRequest, parse_request


class Harness:
    """A daemon, and the three sides of its sockets."""

    def __init__(self, folder: Path, api_level: int = 34) -> None:
        self.folder = folder
        self.properties = folder / "properties"
        self.properties.mkdir(exist_ok=True)
        kinds = {"logdw": socket.SOCK_DGRAM, "logdr": socket.SOCK_SEQPACKET, "logd": socket.SOCK_STREAM}
        self.sockets = {name: socket.socket(socket.AF_UNIX, kind) for name, kind in kinds.items()}
        for name, sock in self.sockets.items():
            sock.bind(str(folder / name))
            if name != "logdw":
                sock.listen()
        self.daemon = LogDaemon(self.sockets, api_level=api_level, properties=self.properties)

    def client(self, name: str, kind: socket.SocketKind) -> socket.socket:
        sock = socket.socket(socket.AF_UNIX, kind)
        sock.settimeout(5)
        sock.connect(str(self.folder / name))
        return sock

    def turn(self, times: int = 6) -> None:
        for _ in range(times):
            self.daemon.serve_once(5)

    def write(self, text: str, *, tag: str = "tag", priority: int = wire.INFO, log_id: int = 0) -> None:
        now = time.time_ns()
        head = wire.DATAGRAM.pack(log_id, os.getpid() & 0xFFFF, now // 10**9, now % 10**9)
        with self.client("logdw", socket.SOCK_DGRAM) as sock:
            sock.send(head + wire.encode_text(priority, tag.encode(), text.encode()))
        self.turn(1)

    def read(self, request: str) -> list[str]:
        with self.client("logdr", socket.SOCK_SEQPACKET) as sock:
            sock.send(request.encode())
            self.turn()
            found = []
            while packet := sock.recv(wire.MAX_ENTRY_BYTES):
                entry = parse_packet(packet)
                assert entry is not None
                found.append(entry.message.decode())
            return found

    def command(self, text: str) -> str:
        with self.client("logd", socket.SOCK_STREAM) as sock:
            sock.send(text.encode() + b"\0")
            self.turn()
            return sock.recv(100).rstrip(b"\0").decode()


@pytest.fixture
def logd(tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(tmp_path)
    yield harness
    for sock in harness.sockets.values():
        sock.close()


def test_a_message_keeps_its_author_and_its_time(logd: Harness) -> None:
    before = time.time()
    logd.write("hello", tag="MNNJNI", priority=wire.ERROR)
    with logd.client("logdr", socket.SOCK_SEQPACKET) as sock:
        sock.send(b"dumpAndClose lids=0")
        logd.turn()
        entry = parse_packet(sock.recv(wire.MAX_ENTRY_BYTES))
        assert sock.recv(10) == b""
    assert entry is not None
    assert (entry.priority, entry.tag, entry.message) == (wire.ERROR, b"MNNJNI", b"hello")
    assert entry.pid == os.getpid() and before <= entry.sec + entry.nsec / 1e9 <= time.time()


def test_buffers_are_interleaved_in_the_order_of_arrival(logd: Harness) -> None:
    for number, log_id in enumerate([0, 3, 0, 4, 3]):
        logd.write(str(number), log_id=log_id)
    assert logd.read("dumpAndClose lids=0,3,4") == ["0", "1", "2", "3", "4"]
    assert logd.read("dumpAndClose lids=3") == ["1", "4"]
    assert logd.read("dumpAndClose lids=0,3,4 tail=2") == ["3", "4"]
    assert logd.read(f"dumpAndClose lids=0 pid={os.getpid() + 1}") == []
    assert logd.read("dumpAndClose lids=0 start=9999999999.0") == []


def test_a_start_time_is_exact(logd: Harness) -> None:
    logd.write("old")
    time.sleep(0.01)
    moment = time.time_ns()
    logd.write("new")
    assert logd.read(f"dumpAndClose lids=0 start={moment // 10**9}.{moment % 10**9:09}") == ["new"]


def test_a_stream_goes_on(logd: Harness) -> None:
    logd.write("first")
    with logd.client("logdr", socket.SOCK_SEQPACKET) as sock:
        sock.send(b"stream lids=0 tail=1")
        logd.turn()
        logd.write("second")
        logd.turn()
        texts = [parse_packet(sock.recv(5000)) for _ in range(2)]
    assert [entry.message for entry in texts if entry] == [b"first", b"second"]
    logd.turn()
    logd.write("nobody reads this")


def test_the_phones_own_reader_gets_several_entries_at_once(logd: Harness) -> None:
    for number in range(20):
        logd.write(str(number))
    with logd.client("logdr", socket.SOCK_SEQPACKET) as sock:
        sock.send(b"dumpAndClose lids=0" + JOINED.encode())
        logd.turn()
        packet = sock.recv(100_000)
    assert packet.count(b"tag\0") == 20


def test_datagrams_that_no_liblog_sends(logd: Harness) -> None:
    with logd.client("logdw", socket.SOCK_DGRAM) as sock:
        for data in (b"", b"x", bytes(11), b"\xff" * 11 + b"\x04t\0m\0", os.urandom(300)):
            sock.send(data)
        # The kernel's buffer is not for programs, nor the owner's.
        for log_id in (wire.KERNEL, wire.SECURITY):
            sock.send(wire.DATAGRAM.pack(log_id, 1, 1, 1) + b"\x04t\0secret\0")
    logd.turn()
    logd.write("still here")
    assert logd.read("dumpAndClose lids=0,6") == ["still here"]


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("getLogSize 0", "1048576"),
        ("getLogSizeUsed 0", "0"),
        ("setLogSize 0 131072", "success"),
        ("setLogSize 0 1", "Range Error"),
        ("setLogSize 0 999999999999", "Range Error"),
        ("clear 0", "success"),
        ("clear 99", "Range Error"),
        ("clear x", "Invalid Argument"),
        ("getStatistics 99", "Range Error"),
        ("getStatistics x", "Range Error"),
        ("getStatistics pid=0 0", "PID Error"),
        ("getPruneList", "15\n~! ~1000/!\n\f"),
        ("setPruneList ~1000/! 2000/7", "success"),
        ("setPruneList seven", "Invalid Argument"),
        ("devkitReboot", "Invalid Argument"),
        ("devkitHasLast", "No such file or directory"),
        ("devkitClearLast", "No such file or directory"),
        ("nonsense", "Invalid Argument"),
        ("", "Invalid Argument"),
    ],
)
def test_commands(logd: Harness, command: str, answer: str) -> None:
    assert logd.daemon.answer(command) == answer


def test_commands_over_the_socket(logd: Harness) -> None:
    logd.write("x")
    assert int(logd.command("getLogSizeUsed 0")) > 0
    assert logd.command("clear 0") == "success"
    assert logd.read("dumpAndClose lids=0") == []


def test_log_properties_hide_messages(logd: Harness) -> None:
    (logd.properties / "log.tag.loud").write_text("W\n")
    (logd.properties / "persist.log.tag").write_text("I")
    time.sleep(0.11)
    for tag, priority in (("loud", wire.INFO), ("loud", wire.WARN), ("x", wire.DEBUG), ("x", wire.INFO)):
        logd.write(f"{tag} {priority}", tag=tag, priority=priority)
    assert logd.read("dumpAndClose lids=0") == ["loud 5", "x 4"]


def test_a_property_of_this_boot_counts_more(tmp_path: Path) -> None:
    (tmp_path / "persist.log.tag.a").write_text("S")
    (tmp_path / "log.tag.a").write_text("D")
    loggable = Loggable(tmp_path)
    loggable.refresh()
    assert loggable.allows(wire.DEBUG, b"a") and not loggable.allows(wire.VERBOSE, b"a")
    assert Loggable(tmp_path / "none").everything


def test_repeats_are_folded_on_older_phones(tmp_path: Path) -> None:
    folding = Harness(tmp_path, api_level=30)
    for text in ["token"] * 29 + ["end"]:
        folding.write(text)
    found = folding.read("dumpAndClose lids=0")
    assert found[0] == "token" and found[2:] == ["token", "end"]
    assert found[1].endswith(" identical 27 lines") and found[1].startswith("uid=")
    for sock in folding.sockets.values():
        sock.close()


# ---- parts


def test_the_oldest_goes_first() -> None:
    buffers = Buffers()
    assert buffers.set_limit(0, MIN_BYTES)
    for number in range(1000):
        buffers.append(0, 1, number, struct.pack("<I", number) + bytes(996))
    kept = buffers.select(1, 0, 0, 0)
    assert len(kept) == MIN_BYTES // 1000 and struct.unpack_from("<I", kept[-1])[0] == 999
    assert buffers.used(0) <= MIN_BYTES


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a", "b"], ["a", "a", "b"]),
        (["a", "a", "a", "b"], ["a", "identical 1 line", "a", "b"]),
        (["a"] * 5, ["a"]),
        (["a"] * 4 + ["b"] * 4 + ["c"], ["a", "identical 2 lines", "a", "b", "identical 2 lines", "b", "c"]),
    ],
)
def test_folding(texts: list[str], expected: list[str]) -> None:
    stored: list[str] = []

    def store(message: Message) -> None:
        text = message.payload.split(b"\0")[1].decode()
        stored.append(" ".join(text.split()[-3:]) if "identical" in text else text)

    folder = Folder(store, lambda pid, tid: "llm_demo")
    for number, text in enumerate(texts):
        folder.add(Message(0, 2000, 5, 5, number, 0, b"\x04t\0" + text.encode() + b"\0"))
    assert stored == expected


def test_only_what_one_thread_says_in_a_minute_is_folded() -> None:
    stored: list[Message] = []
    folder = Folder(stored.append, lambda pid, tid: "x")
    base = Message(0, 2000, 5, 5, 0, 0, b"\x04t\0a\0")
    for message in (base, base._replace(tid=6), base._replace(tid=6, sec=100), base._replace(tid=6, pid=6)):
        folder.add(message)
    assert len(stored) == 4


def test_read_requests() -> None:
    assert parse_request("stream lids=0,3 tail=5 start=12.5 pid=7") == ReadRequest(
        ends=False, mask=0b1001, tail=5, start=12_500_000_000, pid=7, joined=False
    )
    assert parse_request("dumpAndClose") == ReadRequest(True, 255, 0, 0, 0, False)
    assert parse_request("dumpAndClose lids=99" + JOINED).mask == 0
