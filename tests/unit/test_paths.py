"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devkit import paths


def test_a_failed_write_leaves_the_old_file_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "文件 a"
    file.write_text("old")

    def broken(_source: object, _target: object) -> None:
        raise OSError("disk")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="disk"):
        paths.write_atomically(file, "new")
    assert file.read_text() == "old"
    assert list(tmp_path.iterdir()) == [file]


def test_write_makes_the_folder_and_sets_the_mode(tmp_path: Path) -> None:
    file = tmp_path / "a" / "b"
    paths.write_atomically(file, b"\0x", mode=0o600)
    assert file.read_bytes() == b"\0x"
    assert file.stat().st_mode & 0o777 == 0o600


def test_relative_xdg_values_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert paths.cache_dir() == Path.home() / ".cache" / "devkit"
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert paths.cache_dir() == Path("/somewhere/devkit")
