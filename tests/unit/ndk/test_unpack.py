"""Unpacking: modes and symlinks come back, nothing leaves the folder, and it is all or nothing."""

from __future__ import annotations

import os
import stat
import zipfile
from pathlib import Path

import pytest

from devkit.errors import FileError
from devkit.ndk import unpack
from devkit.ndk.unpack import install_zip, remove_tree, unpack_zip


def archive_of(folder: Path, *entries: tuple[str, bytes, int]) -> Path:
    """A zip with (name, content, st_mode) entries as they are given."""
    file = folder / "a b.zip"
    with zipfile.ZipFile(file, "w") as packed:
        for name, content, mode in entries:
            info = zipfile.ZipInfo(name)
            info.create_system = 3
            info.external_attr = mode << 16
            packed.writestr(info, content)
    return file


FILE, LINK, FOLDER = stat.S_IFREG | 0o644, stat.S_IFLNK | 0o777, stat.S_IFDIR | 0o755


def test_modes_and_symlinks_come_back(tmp_path: Path) -> None:
    archive = archive_of(
        tmp_path,
        ("ndk/", b"", FOLDER),
        ("ndk/bin/clang-18", b"#!/bin/sh\n", stat.S_IFREG | 0o755),
        ("ndk/bin/clang", b"clang-18", LINK),
        ("ndk/bin/up", b"../lib", LINK),
        ("ndk/lib/plain", b"x", FILE),
        ("ndk/lib/secret", b"x", stat.S_IFREG | 0o400),
        ("ndk/lib/setuid", b"x", stat.S_IFREG | 0o4755),
        ("ndk/lib/from windows", b"x", stat.S_IFREG),
        ("ndk/locked/", b"", stat.S_IFDIR | 0o500),
        ("ndk/locked/file", b"x", FILE),
        ("ndk/空/空", b"x", FILE),
    )
    target = tmp_path / "out 空"
    unpack_zip(archive, target, label="x")
    modes = {p.name: stat.S_IMODE(p.lstat().st_mode) for p in target.rglob("*") if not p.is_symlink()}
    assert modes["clang-18"] == 0o755 and modes["plain"] == 0o644 and modes["from windows"] == 0o644
    assert modes["secret"] == 0o600, "the owner can write, so that it can be removed"
    assert modes["setuid"] == 0o755 and modes["locked"] == 0o700
    assert (target / "ndk/bin/clang").readlink() == Path("clang-18")
    assert (target / "ndk/bin/up/plain").read_bytes() == b"x"
    assert (target / "ndk/空/空").exists()
    remove_tree(target)
    assert not target.exists()


EVIL = [
    ("absolute", [("/etc/devkit-evil", b"x", FILE)], "an absolute name"),
    ("parent", [("../evil", b"x", FILE)], "leaves the folder"),
    ("parent inside", [("ndk/../../evil", b"x", FILE)], "leaves the folder"),
    ("dot", [("./x", b"x", FILE)], "leaves the folder"),
    ("windows", [("ndk\\..\\..\\evil", b"x", FILE)], "an absolute name or one of Windows"),
    ("drive", [("C:/evil", b"x", FILE)], "an absolute name or one of Windows"),
    ("newline", [("a\nb", b"x", FILE)], "control characters"),
    ("device", [("null", b"", stat.S_IFCHR | 0o666)], "no file, folder or symlink"),
    ("fifo", [("pipe", b"", stat.S_IFIFO | 0o666)], "no file, folder or symlink"),
    ("link outside", [("ndk/l", b"../../evil", LINK)], "a symlink that points outside"),
    ("absolute link", [("ndk/l", b"/etc", LINK)], "a symlink that points outside"),
    ("empty link", [("ndk/l", b"", LINK)], "a symlink that points outside"),
    ("through a link", [("l", b".", LINK), ("l/evil", b"x", FILE)], "inside something that is no folder"),
    ("through a file", [("f", b".", FILE), ("f/evil", b"x", FILE)], "inside something that is no folder"),
    ("chain of links", [("a/b/l", b"../..", LINK), ("m", b"a/b/l/..", LINK)], "a symlink that leads outside"),
]  # fmt: skip


@pytest.mark.parametrize(("entries", "said"), [row[1:] for row in EVIL], ids=[row[0] for row in EVIL])
def test_zip_slip_is_refused(tmp_path: Path, entries: list[tuple[str, bytes, int]], said: str) -> None:
    archive = archive_of(tmp_path, ("ndk/good", b"x", FILE), *entries)
    inside = tmp_path / "inside" / "deep"
    inside.mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(FileError) as caught:
        install_zip(archive, inside / "r27d", find_root=lambda folder: folder, what="NDK")
    assert said in caught.value.what
    assert sorted(tmp_path.rglob("*")) == before
    assert not Path("/etc/devkit-evil").exists()


def test_the_same_name_twice_is_refused(tmp_path: Path) -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        archive = archive_of(tmp_path, ("x", b"1", FILE), ("x", b"2", FILE))
    with pytest.raises(FileError, match="the same name twice"):
        unpack_zip(archive, tmp_path / "out", label="x")


def test_a_damaged_archive(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ("ndk/file", b"content " * 1000, FILE))
    whole = archive.read_bytes()
    damaged = bytearray(whole)
    damaged[200] ^= 0xFF
    for content in (whole[:100], whole[: len(whole) // 2], b"", b"<html>", bytes(damaged)):
        archive.write_bytes(content)
        with pytest.raises(FileError, match="is damaged"):
            install_zip(archive, tmp_path / "r27d", find_root=lambda folder: folder, what="NDK")
        assert os.listdir(tmp_path) == [archive.name]


def test_an_encrypted_archive_is_an_error_of_devkits(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ("x", b"1", FILE))
    content = bytearray(archive.read_bytes())
    for magic, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + offset] |= 1
    archive.write_bytes(bytes(content))
    with pytest.raises(FileError, match="is damaged") as caught:
        unpack_zip(archive, tmp_path / "out", label="x")
    assert "encrypted" in (caught.value.evidence or "")


def test_space_is_checked_before_anything_is_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    archive = archive_of(tmp_path, ("big", b"x" * 1000, FILE))
    usage = unpack.shutil.disk_usage(tmp_path)
    free = unpack.SPARE_BYTES + 999
    monkeypatch.setattr(unpack.shutil, "disk_usage", lambda path: usage._replace(free=free))
    with pytest.raises(FileError, match="not enough disk space") as caught:
        install_zip(archive, tmp_path / "r27d", find_root=lambda folder: folder, what="NDK")
    assert "are needed" in (caught.value.evidence or "")
    assert os.listdir(tmp_path) == [archive.name]


def test_it_appears_at_once_and_replaces_a_broken_one(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ("ndk/new", b"x", FILE))
    target = tmp_path / "r27d [x]"
    target.mkdir()
    (target / "old").touch()
    abandoned = tmp_path / f".{target.name}.unpack-4711"
    (abandoned / "deep").mkdir(parents=True)

    def find_root(folder: Path) -> Path:
        assert (target / "old").exists() and not (target / "new").exists()
        assert not abandoned.exists()
        return folder / "ndk"

    assert install_zip(archive, target, find_root=find_root, what="NDK") == target
    assert os.listdir(target) == ["new"]
    assert sorted(os.listdir(tmp_path)) == sorted([archive.name, target.name])


def test_not_what_it_should_be(tmp_path: Path) -> None:
    archive = archive_of(tmp_path, ("holiday/beach.jpg", b"x", FILE))
    with pytest.raises(FileError, match="does not hold NDK r27d") as caught:
        install_zip(archive, tmp_path / "r27d", find_root=lambda folder: None, what="NDK r27d")
    assert "holiday" in (caught.value.evidence or "")
    assert os.listdir(tmp_path) == [archive.name]
