"""The sync protocol against a phone that refuses early, answers late, hangs up, or is old."""

from __future__ import annotations

import os
import random
import socket
import struct
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from devkit.device import sync
from devkit.device.failures import PhoneLost
from devkit.device.sync import FileStat, PushItem, total_bytes
from devkit.errors import DeviceError, FileError, OperationTimeout

if TYPE_CHECKING:
    from conftest import FakeAdbServer

FIELDS_V2 = "<4sIQQIIIIQqqq"


class SyncService:
    """The phone's side, with files in a dict: path -> (mode, mtime, content).

    Attributes:
        room_bytes: writing more fails as a full disk does; like adbd, the rest of the file is
            read and thrown away, then the session ends.
        chunks: sizes of the DATA packets that came.
    """

    def __init__(self) -> None:
        self.files: dict[str, tuple[int, int, bytes]] = {}
        self.room_bytes: int | None = None
        self.requests: list[bytes] = []
        self.chunks: list[int] = []

    def __call__(self, sock: socket.socket) -> None:
        stream = sock.makefile("rwb", buffering=1 << 16)
        while header := stream.read(8):
            kind, count = struct.unpack("<4sI", header)
            self.requests.append(kind)
            argument = stream.read(count).decode()
            if not getattr(self, kind.decode().lower())(stream, argument):
                return
            stream.flush()

    def send(self, stream: object, spec: str) -> bool:
        path, _, mode = spec.rpartition(",")
        content, refused = b"", False
        while True:
            header = stream.read(8)  # type: ignore[attr-defined]
            if len(header) < 8:
                raise EOFError
            kind, count = struct.unpack("<4sI", header)
            if kind == b"DONE":
                break
            assert kind == b"DATA"
            data = stream.read(count)  # type: ignore[attr-defined]
            self.chunks.append(len(data))
            content += data
            if not refused and self.room_bytes is not None and len(content) > self.room_bytes:
                refused = True
                text = b"write failed: No space left on device"
                stream.write(struct.pack("<4sI", b"FAIL", len(text)) + text)  # type: ignore[attr-defined]
                stream.flush()  # type: ignore[attr-defined]
        if refused:
            return False
        self.files[path] = (int(mode), count, content)
        stream.write(b"OKAY\0\0\0\0")  # type: ignore[attr-defined]
        return True

    def recv(self, stream: object, path: str) -> bool:
        if path not in self.files:
            text = b"open failed: No such file or directory"
            stream.write(struct.pack("<4sI", b"FAIL", len(text)) + text)  # type: ignore[attr-defined]
            return True
        content = self.files[path][2]
        for start in range(0, len(content), 65536):
            part = content[start : start + 65536]
            stream.write(struct.pack("<4sI", b"DATA", len(part)) + part)  # type: ignore[attr-defined]
        stream.write(b"DONE\0\0\0\0")  # type: ignore[attr-defined]
        return True

    def stat(self, stream: object, path: str) -> bool:
        mode, mtime, content = self.files.get(path, (0, 0, b""))
        stream.write(struct.pack("<4sIII", b"STAT", mode, len(content), mtime))  # type: ignore[attr-defined]
        return True

    def sta2(self, stream: object, path: str, kind: bytes = b"STA2") -> bool:
        error = {"/forbidden": 13, "/file/x": 20}.get(path, 0 if path in self.files else 2)
        mode, mtime, content = self.files.get(path, (0, 0, b""))
        size = 5 << 32 if path == "/huge" else len(content)
        stream.write(  # type: ignore[attr-defined]
            struct.pack(FIELDS_V2, kind, error, 1, 2, mode, 1, 0, 0, size, 7, mtime, 9)
        )
        return True

    def lst2(self, stream: object, path: str) -> bool:
        return self.sta2(stream, path, b"LST2")

    def lis2(self, stream: object, path: str) -> bool:
        for name in (".", "..", "a b", "字"):
            data = name.encode()
            stream.write(  # type: ignore[attr-defined]
                struct.pack(FIELDS_V2, b"DNT2", 0, 1, 2, 0o100644, 1, 0, 0, 3, 7, 8, 9)
                + struct.pack("<I", len(data))
                + data
            )
        stream.write(b"DONE" + b"\0" * 72)  # type: ignore[attr-defined]
        return True

    def list(self, stream: object, path: str) -> bool:
        stream.write(struct.pack("<4sIIII", b"DENT", 0o40755, 4, 5, 1) + b"d")  # type: ignore[attr-defined]
        stream.write(b"DONE" + b"\0" * 16)  # type: ignore[attr-defined]
        return True


@pytest.fixture
def phone(fake: FakeAdbServer) -> SyncService:
    service = SyncService()
    fake.services["sync:"] = service
    return service


def test_push_many_over_one_connection(fake: FakeAdbServer, phone: SyncService, tmp_path: Path) -> None:
    big = random.Random(1).randbytes(3_000_001)
    file = tmp_path / "b i,g 字.so"
    file.write_bytes(big)
    items = [
        PushItem(file, "/d/b i,g 字.so", 0o755, 1_700_000_000),
        PushItem(b"", "/d/empty", 0o644, 0),
        PushItem(b"x" * 65536, "/d/exact", 0o600, 5),
        *(PushItem(b"%d" % i, f"/d/{i}", 0o644, i) for i in range(500)),
    ]
    counted: list[int] = []
    device = fake.device()
    device.push(items, counted.append)
    assert phone.files["/d/b i,g 字.so"] == (0o100755, 1_700_000_000, big)
    assert phone.files["/d/empty"] == (0o100644, 0, b"")
    assert phone.files["/d/exact"] == (0o100600, 5, b"x" * 65536)
    assert all(phone.files[f"/d/{i}"] == (0o100644, i, b"%d" % i) for i in range(500))
    assert sum(counted) == total_bytes(items) == sum(len(f[2]) for f in phone.files.values())
    assert max(phone.chunks) == 65536
    assert fake.requests.count("sync:") == 1
    assert device.round_trips == 1


def test_times_outside_32_bits_are_clamped(fake: FakeAdbServer, phone: SyncService) -> None:
    fake.device().push([PushItem(b"", "/old", 0o644, -5), PushItem(b"", "/far", 0o644, 1 << 40)])
    assert phone.files["/old"][1] == 0
    assert phone.files["/far"][1] == 0xFFFFFFFF


def test_nothing_to_push_asks_nobody(fake: FakeAdbServer) -> None:
    fake.device().push([])
    assert fake.device().stat([]) == {}
    assert fake.requests == []


def test_a_full_disk_is_told_in_the_phones_words(fake: FakeAdbServer, phone: SyncService) -> None:
    phone.room_bytes = 1_000_000
    items = [
        PushItem(b"fits", "/d/small", 0o644, 1),
        PushItem(bytes(6_000_000), "/d/big", 0o644, 1),
        PushItem(b"never", "/d/after", 0o644, 1),
    ]
    device = fake.device()
    with pytest.raises(DeviceError, match="pushing /d/big failed") as caught:
        device.push(items)
    assert caught.value.evidence == "write failed: No space left on device"
    assert caught.value.where == "phone"
    assert any("df -h /d" in hint for hint in caught.value.hints)
    assert set(phone.files) == {"/d/small"}
    phone.room_bytes = None
    device.push(items)
    assert set(phone.files) == {"/d/small", "/d/big", "/d/after"}


def test_a_phone_that_stops_reading_after_it_refused(
    fake: FakeAdbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal must be read although our own bytes are stuck."""

    def serve(sock: socket.socket) -> None:
        sock.recv(8)
        text = b"couldn't create file: Read-only file system"
        sock.sendall(struct.pack("<4sI", b"FAIL", len(text)) + text)
        hold.wait(20)

    monkeypatch.setattr(sync, "IDLE_TIMEOUT_S", 10)
    hold = threading.Event()
    fake.services["sync:"] = serve
    with pytest.raises(DeviceError, match="/system/x failed") as caught:
        fake.device().push([PushItem(bytes(50_000_000), "/system/x", 0o644, 1)])
    hold.set()
    assert "Read-only" in (caught.value.evidence or "")


def test_answers_are_taken_in_while_sending(fake: FakeAdbServer, phone: SyncService) -> None:
    """20,000 answers of 72 bytes do not fit into socket buffers: waiting in turn would lock up."""
    paths = [f"/none/{i}" for i in range(20_000)]
    device = fake.device()
    answers = device.stat(paths)
    assert len(answers) == 20_000
    assert set(answers.values()) == {None}
    assert device.round_trips == 1


def test_hang_up_and_standstill(fake: FakeAdbServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def hang_up(sock: socket.socket) -> None:
        sock.recv(100)

    fake.services["sync:"] = hang_up
    device = fake.device()
    with pytest.raises(PhoneLost, match="pushing /d/x"):
        device.push([PushItem(bytes(5_000_000), "/d/x", 0o644, 1)])
    with pytest.raises(PhoneLost, match="pulling /d/x"):
        device.pull("/d/x", tmp_path / "x")

    def stand_still(sock: socket.socket) -> None:
        hold.wait(20)

    hold = threading.Event()
    monkeypatch.setattr(sync, "IDLE_TIMEOUT_S", 0.2)
    fake.services["sync:"] = stand_still
    with pytest.raises(OperationTimeout, match="pushing /d/x"):
        device.push([PushItem(bytes(50_000_000), "/d/x", 0o644, 1)])
    with pytest.raises(OperationTimeout, match="looking at"):
        device.stat(["/d/x"])
    hold.set()
    assert list(tmp_path.iterdir()) == []


def test_nonsense_is_not_believed(fake: FakeAdbServer) -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(100)
        sock.sendall(b"WHAT\0\0\0\0" * 20)
        sock.recv(100)

    fake.services["sync:"] = serve
    for action in (
        lambda: fake.device().read_bytes("/x"),
        lambda: fake.device().stat(["/x"]),
        lambda: fake.device().push_bytes(b"x", "/x"),
    ):
        with pytest.raises(DeviceError) as caught:
            action()
        assert "WHAT" in (caught.value.evidence or "")


def test_pull_appears_when_complete(fake: FakeAdbServer, phone: SyncService, tmp_path: Path) -> None:
    content = random.Random(2).randbytes(1_000_003)
    phone.files["/d/f"] = (0o100644, 1, content)
    target = tmp_path / "ü b"
    counted: list[int] = []
    assert fake.device().pull("/d/f", target, counted.append) == len(content)
    assert target.read_bytes() == content
    assert sum(counted) == len(content)
    assert fake.device().read_bytes("/d/f") == content
    target.write_text("old")
    with pytest.raises(DeviceError, match="pulling /none failed") as caught:
        fake.device().pull("/none", target)
    assert "No such file" in (caught.value.evidence or "")
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_pull_that_breaks_off_leaves_nothing(fake: FakeAdbServer, tmp_path: Path) -> None:
    def serve(sock: socket.socket) -> None:
        sock.recv(100)
        sock.sendall(struct.pack("<4sI", b"DATA", 100) + b"x" * 100 + struct.pack("<4sI", b"DATA", 100))

    fake.services["sync:"] = serve
    with pytest.raises(PhoneLost):
        fake.device().pull("/d/f", tmp_path / "f")
    assert list(tmp_path.iterdir()) == []


def test_local_troubles_are_this_machines(fake: FakeAdbServer, phone: SyncService, tmp_path: Path) -> None:
    device = fake.device()
    with pytest.raises(FileError, match="none") as caught:
        device.push([PushItem(tmp_path / "none", "/d/x", 0o644, 1)])
    assert caught.value.where == "this machine"
    with pytest.raises(FileError):
        device.push([PushItem(tmp_path, "/d/x", 0o644, 1)])
    # Nothing was announced to the phone: an empty file there would be worse than none.
    assert phone.requests == []
    with pytest.raises(FileError):
        device.pull("/d/x", tmp_path / "no folder" / "x")
    with pytest.raises(FileError):
        total_bytes([PushItem(tmp_path / "none", "/d/x", 0o644, 1)])


def test_stat(fake: FakeAdbServer, phone: SyncService) -> None:
    phone.files["/file"] = (0o100755, 11, b"abc")
    phone.files["/huge"] = (0o100644, 12, b"")
    phone.files["/link"] = (0o120777, 13, b"")
    phone.files["/dir"] = (0o40755, 14, b"")
    device = fake.device()
    answers = device.stat(["/file", "/huge", "/none", "/file/x", "/dir"])
    assert answers == {
        "/file": FileStat(0o100755, 3, 11),
        "/huge": FileStat(0o100644, 5 << 32, 12),
        "/none": None,
        "/file/x": None,
        "/dir": FileStat(0o40755, 0, 14),
    }
    file, folder = answers["/file"], answers["/dir"]
    assert file and file.is_file and not file.is_dir
    assert folder and folder.is_dir and not folder.is_link
    link = device.stat(["/link"], follow=False)["/link"]
    assert link and link.is_link
    assert phone.requests[-1] == b"LST2"
    with pytest.raises(DeviceError, match="/forbidden") as caught:
        device.stat(["/file", "/forbidden"])
    assert caught.value.evidence == "Permission denied"


def test_an_old_phone(fake: FakeAdbServer, phone: SyncService) -> None:
    phone.files["/f"] = (0o100644, 3, b"abc")
    phone.files["/d/"] = (0o40755, 3, b"")
    device = fake.device("cmd")
    assert device.stat(["/f", "/none"]) == {"/f": FileStat(0o100644, 3, 3), "/none": None}
    assert device.list_dir("/d") == {"d": FileStat(0o40755, 4, 5)}
    assert phone.requests == [b"STAT", b"STAT", b"STAT", b"LIST"]


def test_list_dir(fake: FakeAdbServer, phone: SyncService) -> None:
    phone.files["/d/"] = (0o40755, 3, b"")
    phone.files["/f/"] = (0o100644, 3, b"")
    device = fake.device()
    assert device.list_dir("/d") == {"a b": FileStat(0o100644, 3, 8), "字": FileStat(0o100644, 3, 8)}
    for path in ("/none", "/f"):
        with pytest.raises(DeviceError, match=f"no folder {path}"):
            device.list_dir(path)


@pytest.mark.parametrize("path", ["/" + "x" * 1024, "/" + "字" * 400, "/a\0b"])
def test_impossible_paths_are_not_sent(fake: FakeAdbServer, phone: SyncService, path: str) -> None:
    device = fake.device()
    with pytest.raises(DeviceError, match="cannot exist"):
        device.push_bytes(b"x", path)
    with pytest.raises(DeviceError, match="cannot exist"):
        device.stat([path])
    assert phone.requests == []


def test_descriptors_are_given_back(fake: FakeAdbServer, phone: SyncService) -> None:
    device = fake.device()
    device.push_bytes(b"x", "/x")
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        device.read_bytes("/x")
        with pytest.raises(DeviceError):
            device.read_bytes("/none")
        with pytest.raises(DeviceError):
            device.dial("tcp:1")
    # The fake server's own ends are closed by its threads a moment later.
    assert len(os.listdir("/proc/self/fd")) < before + 15
