"""Changing one value of the user's config file; every other byte stays."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from devkit.errors import ConfigError
from devkit.ndk import user_config
from devkit.ndk.user_config import get_user_value, set_user_value, user_file


def write(text: str) -> Path:
    file = user_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(text.encode())
    return file


def test_no_file_yet() -> None:
    assert get_user_value("ndk.path") is None
    assert set_user_value("ndk.path", "/opt/ndk").read_text() == "ndk:\n  path: /opt/ndk\n"
    assert get_user_value("ndk.path") == "/opt/ndk"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("build: {type: debug}\n", "build: {type: debug}\nndk:\n  path: /n\n"),
        ("# mine\nadb:\n  path: /a", "# mine\nadb:\n  path: /a\nndk:\n  path: /n\n"),
        ("ndk:\n  path: /old  # why\n  version: r27d\n", "ndk:\n  path: /n  # why\n  version: r27d\n"),
        ("ndk:\n    version: r27d # x\nadb: {}\n", "ndk:\n    path: /n\n    version: r27d # x\nadb: {}\n"),
        ("ndk:   # nothing yet\nadb: {}\n", "ndk:   # nothing yet\n  path: /n\nadb: {}\n"),
        ("ndk:", "ndk:\n  path: /n"),
        ("\ufeffndk:\n  path: 'a b'\n", "\ufeffndk:\n  path: /n\n"),
        ("ndk:\r\n  path: /o\r\nadb: {}\r\n", "ndk:\r\n  path: /n\r\nadb: {}\r\n"),
        ("adb: {}\r\n", "adb: {}\r\nndk:\r\n  path: /n\r\n"),
        ("ndk:\n  # where\n  path: /o\n\n\n# end\n", "ndk:\n  # where\n  path: /n\n\n\n# end\n"),
    ],
)
def test_set(before: str, after: str) -> None:
    file = write(before)
    set_user_value("ndk.path", "/n")
    assert file.read_bytes().decode() == after
    set_user_value("ndk.path", "/n")
    assert file.read_bytes().decode() == after


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a: 1\nndk:\n  path: /o # gone\n  version: r27d\n", "a: 1\nndk:\n  version: r27d\n"),
        ("ndk:\n  path: /o\n# comment\nadb: {}\n", "ndk:\n# comment\nadb: {}\n"),
        ("ndk:\n  path: /o", "ndk:\n"),
        ("adb: {}\n", "adb: {}\n"),
        ("ndk:\nadb: {}\n", "ndk:\nadb: {}\n"),
    ],
)
def test_remove(before: str, after: str) -> None:
    file = write(before)
    set_user_value("ndk.path", None)
    assert file.read_bytes().decode() == after


@pytest.mark.parametrize(
    "text",
    ["ndk: {path: /o}\n", "{ndk: {path: /o}}\n", "ndk: [\n", "- a\n", "ndk: /o\n",
     "ndk:\n  path: |\n    /o\n", "ndk: &x\n  path: /o\nadb:\n  <<: *x\n", "\x00\n"],
)  # fmt: skip
def test_what_cannot_be_edited_safely_is_left_alone(text: str) -> None:
    file = write(text)
    with pytest.raises(ConfigError, match="was not changed") as caught:
        set_user_value("ndk.path", "/n")
    assert file.read_bytes().decode() == text
    assert "ndk: {path: /n}" in caught.value.hints[0]


def test_links_and_modes_stay(tmp_path: Path) -> None:
    real = tmp_path / "dot files" / "devkit.yaml"
    real.parent.mkdir()
    real.write_text("adb: {}\n")
    real.chmod(0o600)
    user_file().parent.mkdir(parents=True)
    user_file().symlink_to(real)
    set_user_value("ndk.path", "/n")
    assert user_file().is_symlink() and real.stat().st_mode & 0o777 == 0o600
    assert "path: /n" in real.read_text()


@given(st.text(st.characters(exclude_categories=("Cs",)), min_size=1))
def test_any_path_is_read_back_as_it_is(path: str) -> None:
    text = user_config._edited("a: 1\nndk:\n  path: x # y\n", "ndk", "path", path)
    assert yaml.safe_load(text) == {"a": 1, "ndk": {"path": path}}
