"""Hashes are remembered by size, mtime and inode, and a damaged cache costs only time."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from devkit.errors import FileError
from devkit.runtime.hashes import HashCache, regular_files


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_a_known_file_is_not_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, cache = tmp_path / "大 a", tmp_path / "cache.json"
    file.write_bytes(b"one")
    with HashCache(cache) as hashes:
        assert hashes.sha256(file) == sha(b"one")

    def refuse(*_args: object) -> None:
        raise AssertionError("read again")

    with HashCache(cache) as hashes:
        monkeypatch.setattr(Path, "open", refuse)
        seen: list[int] = []
        assert hashes.sha256(file, seen.append) == sha(b"one")
        assert seen == [3]


def test_a_changed_file_is_read_again(tmp_path: Path) -> None:
    file, cache = tmp_path / "a", tmp_path / "cache.json"
    file.write_bytes(b"one")
    with HashCache(cache) as hashes:
        hashes.sha256(file)
    status = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    with HashCache(cache) as hashes:
        assert hashes.sha256(file) == sha(b"two")


def test_a_copy_with_the_old_time_is_read_again(tmp_path: Path) -> None:
    """cp -p and rsync -t onto a file: the same inode, size and time of modification."""
    file, cache = tmp_path / "a", tmp_path / "cache.json"
    file.write_bytes(b"one")
    with HashCache(cache) as hashes:
        hashes.sha256(file)
    status = file.stat()
    time.sleep(0.02)  # A tick of the clock that stamps files.
    file.write_bytes(b"two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    with HashCache(cache) as hashes:
        assert hashes.sha256(file) == sha(b"two")


@pytest.mark.parametrize("content", ["", "{", "[]", '{"x": 1}'])
def test_a_damaged_cache_is_ignored(tmp_path: Path, content: str) -> None:
    file, cache = tmp_path / "a", tmp_path / "cache.json"
    file.write_bytes(b"one")
    cache.write_text(content)
    with HashCache(cache) as hashes:
        assert hashes.sha256(file) == sha(b"one")


def test_a_missing_file_is_a_clear_error(tmp_path: Path) -> None:
    with HashCache(tmp_path / "c") as hashes, pytest.raises(FileError, match="cannot be read"):
        hashes.sha256(tmp_path / "none")


def test_links_are_followed_and_what_cannot_travel_is_told(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside 外", tmp_path / "model"
    (outside / "deep").mkdir(parents=True)
    (outside / "deep" / "w.bin").write_text("w")
    (folder / "sub").mkdir(parents=True)
    (folder / "a.txt").write_text("a")
    (folder / os.fsdecode(b"caf\xe9")).write_text("not UTF-8")
    (folder / "blobs").symlink_to(outside)
    (folder / "again").symlink_to(outside)
    (folder / "link.txt").symlink_to("a.txt")
    (folder / "dead").symlink_to("nowhere")
    (folder / "self").symlink_to("self")
    (folder / "sub" / "up").symlink_to(folder)
    os.mkfifo(folder / "pipe")
    skipped: dict[str, str] = {}
    found = regular_files(folder, lambda path, why: skipped.setdefault(path.name, why))
    assert {os.fspath(path.relative_to(folder)) for path in found} == {
        "a.txt", os.fsdecode(b"caf\xe9"), "link.txt", "blobs/deep/w.bin", "again/deep/w.bin",
    }  # fmt: skip
    assert found == sorted(found)
    assert skipped == {
        "dead": "a link to nothing",
        "self": "Too many levels of symbolic links",
        "up": "a link that leads in a circle",
        "pipe": "neither a file nor a folder",
    }


def test_a_folder_that_is_away(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="cannot be read"):
        regular_files(tmp_path / "none", lambda *_: None)
