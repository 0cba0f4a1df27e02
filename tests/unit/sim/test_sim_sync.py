from __future__ import annotations

import errno
import os
import stat
import struct
from pathlib import Path

import pytest
from sim_peer import Conversation, Peer, request

from devkit.sim.adbd import sync
from devkit.sim.adbd.compression import available_codecs
from devkit.sim.adbd.sync import SyncFailure, parse_send_v1, pushed_mode


@pytest.fixture
def session(peer: Peer) -> Conversation:
    peer.connect()
    return peer.open("sync:")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ein ordner 文件夹"
    made.mkdir()
    return made


def data(content: bytes) -> bytes:
    return struct.pack("<4sI", b"DATA", len(content)) + content


def done(mtime: int = 1_500_000_000) -> bytes:
    return struct.pack("<4sI", b"DONE", mtime)


def read_answer(session: Conversation) -> tuple[bytes, bytes]:
    kind, length = struct.unpack("<4sI", session.read(8))
    return kind, session.read(length)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (b"/a,33206", (b"/a", 33206)),
        (b"/a,b,0644", (b"/a,b", 0o644)),
        (b"/a,0x1ff", (b"/a", 0x1FF)),
        (b"/a,0", (b"/a", 0)),
    ],
)
def test_parse_send_v1(spec: bytes, expected: tuple[bytes, int]) -> None:
    assert parse_send_v1(spec) == expected


def test_parse_send_v1_refuses() -> None:
    with pytest.raises(SyncFailure, match="missing ,"):
        parse_send_v1(b"/a")
    with pytest.raises(SyncFailure, match="bad mode"):
        parse_send_v1(b"/a,rwx")


@pytest.mark.parametrize(
    ("mode", "pushed"), [(0o100644, 0o666), (0o755, 0o777), (0o600, 0o666), (0o4500, 0o555)]
)
def test_pushed_mode_copies_the_users_bits(mode: int, pushed: int) -> None:
    assert pushed_mode(mode) == pushed


def test_sizes_of_the_structures() -> None:
    facts = os.stat("/")
    assert len(sync.pack_stat_v1(facts)) == 16
    assert len(sync.pack_stat_v2(b"STA2", facts)) == 72
    assert len(sync.pack_stat_v2(b"STA2", errno.ENOENT)) == 72


def test_stat(session: Conversation, folder: Path) -> None:
    file = folder / "f"
    file.write_bytes(b"12345")
    os.utime(file, (7, 1_600_000_000))
    (folder / "link").symlink_to("f")
    session.write(request(b"STAT", file))
    assert struct.unpack("<4sIII", session.read(16)) == (b"STAT", file.stat().st_mode, 5, 1_600_000_000)
    session.write(request(b"STAT", folder / "none"))
    assert session.read(16) == b"STAT" + bytes(12)
    session.write(request(b"STA2", folder / "link"))
    fields = struct.unpack("<4sIQQIIIIQqqq", session.read(72))
    assert fields[:2] == (b"STA2", 0)
    assert fields[4] == file.stat().st_mode and fields[8:11] == (5, 7, 1_600_000_000)
    session.write(request(b"LST2", folder / "link"))
    assert stat.S_ISLNK(struct.unpack("<4sIQQIIIIQqqq", session.read(72))[4])
    session.write(request(b"STA2", folder / "none"))
    assert struct.unpack("<4sI", session.read(72)[:8]) == (b"STA2", errno.ENOENT)


def test_list(session: Conversation, folder: Path) -> None:
    (folder / "datei 文件").write_text("abc")
    (folder / "sub").mkdir()
    session.write(request(b"LIST", folder))
    names = {}
    while (head := struct.unpack("<4sIIII", session.read(20)))[0] == b"DENT":
        names[session.read(head[4]).decode()] = head[1:4]
    assert head == (b"DONE", 0, 0, 0, 0)
    assert set(names) == {".", "..", "datei 文件", "sub"}
    assert names["datei 文件"][1] == 3
    session.write(request(b"LIS2", folder))
    names2 = {}
    while (head2 := struct.unpack("<4sIQQIIIIQqqqI", session.read(76)))[0] == b"DNT2":
        names2[session.read(head2[12]).decode()] = head2
    assert head2 == (b"DONE", *[0] * 12)
    assert set(names2) == set(names)
    session.write(request(b"LIS2", folder / "none"))
    assert session.read(76) == b"DONE" + bytes(72)


@pytest.mark.parametrize("version", [1, 2])
def test_send_makes_folders_and_sets_mode_and_time(session: Conversation, folder: Path, version: int) -> None:
    target = folder / "neu 新" / "sub" / "file"
    if version == 1:
        session.write(request(b"SEND", os.fsencode(target) + b",33261"))
    else:
        session.write(request(b"SND2", target) + struct.pack("<4sII", b"SND2", 0o100755, 0))
    # Messages may be cut anywhere.
    content = data(b"hello ") + data(b"") + data(b"world") + done()
    for start in range(0, len(content), 7):
        session.write(content[start : start + 7])
    assert read_answer(session) == (b"OKAY", b"")
    assert target.read_bytes() == b"hello world"
    assert stat.S_IMODE(target.stat().st_mode) == 0o777
    assert int(target.stat().st_mtime) == 1_500_000_000


def test_send_replaces_links_and_files_but_not_folders(session: Conversation, folder: Path) -> None:
    (folder / "target").write_text("keep")
    (folder / "link").symlink_to("target")
    session.write(request(b"SEND", os.fsencode(folder / "link") + b",420") + data(b"new") + done())
    assert read_answer(session)[0] == b"OKAY"
    assert (folder / "target").read_text() == "keep"
    assert not (folder / "link").is_symlink()
    (folder / "sub").mkdir()
    session.write(request(b"SEND", os.fsencode(folder / "sub") + b",420"))
    assert read_answer(session) == (b"FAIL", b"couldn't create file: Is a directory")
    session.write(data(b"rest") + done())
    assert session.read_to_end() == b""


def test_send_links(session: Conversation, folder: Path) -> None:
    target = folder / "new" / "link"
    session.write(request(b"SEND", os.fsencode(target) + b",41471") + data(b"somewhere\0") + done())
    assert read_answer(session)[0] == b"OKAY"
    assert os.readlink(target) == "somewhere"
    assert int(target.lstat().st_mtime) == 1_500_000_000


def test_dry_run_writes_nothing(session: Conversation, folder: Path) -> None:
    session.write(request(b"SND2", folder / "f") + struct.pack("<4sII", b"SND2", 0o644, 0x80000000))
    session.write(data(b"content") + done())
    assert read_answer(session)[0] == b"OKAY"
    assert list(folder.iterdir()) == []


def test_a_failed_write_says_why_and_leaves_no_part(session: Conversation, folder: Path) -> None:
    full = folder / "full"
    full.symlink_to("/dev/full")
    # The link gives way to a file, so write to the device itself.
    session.write(request(b"SEND", b"/dev/full,420") + data(b"x" * 1000))
    assert read_answer(session) == (b"FAIL", b"write failed: No space left on device")
    session.write(data(b"y" * 1000) + done())
    assert session.read_to_end() == b""


def test_wrong_messages_end_the_session(peer: Peer, folder: Path) -> None:
    peer.connect()
    for content, words in (
        (struct.pack("<4sI", b"STAT", 1025), b"path too long"),
        (request(b"WHAT", b"x"), b"unknown command 54414857"),
        (request(b"SEND", b"/x"), b"missing , in ID_SEND_V1"),
        (
            request(b"SEND", os.fsencode(folder / "f") + b",420") + request(b"JUNK", b""),
            b"invalid data message",
        ),
        (request(b"SND2", b"/x") + struct.pack("<4sII", b"SND2", 0, 0x100), b"unknown flags: 256"),
        (request(b"RCV2", b"/x") + struct.pack("<4sI", b"RCV2", 0x40), b"unknown flags: 64"),
        (request(b"RECV", folder / "none"), b"open failed: No such file or directory"),
        (request(b"RECV", folder), b"read failed: Is a directory"),
    ):
        session = peer.open("sync:")
        session.write(content)
        assert read_answer(session) == (b"FAIL", words)
        if b"JUNK" in content:
            session.write(done())
        session.read_to_end()
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("size", [0, 1, 65535, 65536, 65537, 3_000_000])
def test_recv(session: Conversation, folder: Path, size: int) -> None:
    content = os.urandom(size)
    (folder / "f").write_bytes(content)
    session.write(request(b"RCV2", folder / "f") + struct.pack("<4sI", b"RCV2", 0))
    received = b""
    while True:
        kind, length = struct.unpack("<4sI", session.read(8))
        if kind == b"DONE":
            break
        assert kind == b"DATA" and 0 < length <= 65536
        received += session.read(length)
    assert received == content
    session.write(struct.pack("<4sI", b"QUIT", 0))
    assert session.read_to_end() == b""


def test_codecs_give_back_what_they_took() -> None:
    content = b"hello" * 50_000
    for codec in available_codecs().values():
        compress, finish = codec.encoder()
        packed = b"".join(
            [*(compress(content[i : i + 65536]) for i in range(0, len(content), 65536)), finish()]
        )
        assert len(packed) < len(content) / 4
        decode = codec.decoder()
        assert b"".join(decode(packed[i : i + 1000]) for i in range(0, len(packed), 1000)) == content
