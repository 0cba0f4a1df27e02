"""Files appear whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devkit import paths
from devkit.errors import FileError


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


def test_no_home_is_an_error_that_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", nowhere)
    for variable in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(FileError) as caught:
        paths.cache_dir()
    assert "HOME" in caught.value.hints[0]
    monkeypatch.setenv("XDG_STATE_HOME", "/somewhere")
    assert paths.state_dir() == Path("/somewhere/devkit")


def test_names_that_are_not_utf8_are_written_as_they_are(tmp_path: Path) -> None:
    paths.write_atomically(tmp_path / "a", "caf\udce9")
    assert (tmp_path / "a").read_bytes() == b"caf\xe9"
