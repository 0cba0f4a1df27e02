from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from devkit import paths
from devkit.errors import SimError
from devkit.sim import state
from devkit.sim.links import link_from
from devkit.sim.request import PhoneRequest
from devkit.sim.state import PhoneRecord


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "zustand 状态"))
    return tmp_path / "zustand 状态"


def record(name: str = "p") -> PhoneRecord:
    return PhoneRecord(
        name, "127.0.0.1:40000", 40000, os.getpid(), "127.0.0.1", 40001, "generic", 1.5, state.phone_dir(name)
    )


def test_records_survive_the_disk() -> None:
    state.write_record(record())
    assert state.read_record("p") == record()
    assert state.read_record("other") is None
    (state.phone_dir("p") / "phone.json").write_text('{"name": "p"}')
    assert state.read_record("p") is None


def test_the_lock_is_exclusive_and_ends_with_its_descriptor() -> None:
    assert not state.is_locked("p")
    fd = state.lock_phone("p")
    assert fd is not None
    assert state.is_locked("p")
    assert state.lock_phone("p") is None
    os.close(fd)
    assert not state.is_locked("p")
    again = state.lock_phone("p")
    assert again is not None
    os.close(again)


def test_a_lock_whose_file_was_removed_is_no_lock() -> None:
    first = state.lock_phone("p")
    assert first is not None
    state.remove_phone("p")
    second = state.lock_phone("p")
    assert second is not None
    os.close(first)
    os.close(second)


def test_sweep_removes_the_dead_and_keeps_the_living() -> None:
    for name in ("dead", "alive"):
        state.write_record(record(name))
        (state.phone_dir(name) / "data").mkdir()
        paths.write_atomically(state.registry_file(name), "{}")
    fd = state.lock_phone("alive")
    assert fd is not None
    state.sweep()
    assert state.known_names() == ["alive"]
    assert not state.registry_file("dead").exists()
    assert state.registry_file("alive").exists()
    os.close(fd)


def test_remove_tree_opens_closed_folders(tmp_path: Path) -> None:
    target = tmp_path / "tree"
    (target / "a" / "b").mkdir(parents=True)
    (target / "a" / "b" / "c").write_text("x")
    (target / "link").symlink_to(tmp_path)
    (target / "a" / "b").chmod(0)
    (target / "a").chmod(0)
    state.remove_tree(target)
    assert not target.exists()
    assert tmp_path.exists()
    state.remove_tree(target)


@pytest.mark.parametrize("name", ["phone", "a.b-c_D9", "x" * 64])
def test_good_names(name: str) -> None:
    state.check_name(name)


@pytest.mark.parametrize("name", ["", ".", "..", ".x", "-x", "a/b", "a b", "手", "a\n", "x" * 65])
def test_bad_names(name: str) -> None:
    with pytest.raises(SimError):
        state.check_name(name)


def test_requests_survive_the_command_line() -> None:
    request = PhoneRequest("p", "generic", 0, "/a b/adb 手", ("127.0.0.1", 5037), 1 << 20, 3, 4, None)
    assert PhoneRequest.from_json(request.to_json()) == request
    request = replace(request, link=link_from(rate="20mbit").as_dict(), connect_to=None)
    assert PhoneRequest.from_json(request.to_json()) == request
