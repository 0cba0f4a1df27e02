"""Programs of another processor: what is needed, and what is said when it is missing."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from devkit.errors import SimError
from devkit.sim import foreign


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """An x86_64 machine with a new kernel, without qemu and libraries."""
    facts = SimpleNamespace(machine="x86_64", release="6.18.1-generic")
    monkeypatch.setattr(os, "uname", lambda: facts)
    monkeypatch.setattr(foreign, "_CROSS_DIRS", ())
    monkeypatch.setattr(foreign.shutil, "which", lambda name: None)
    return facts


def test_programs_of_this_machine_need_nothing(machine: SimpleNamespace) -> None:
    assert foreign.plan_foreign("x86_64") is None
    machine.machine = "aarch64"
    assert foreign.plan_foreign("arm64-v8a") is None


def test_only_arm64_can_be_added(machine: SimpleNamespace) -> None:
    with pytest.raises(SimError, match="armeabi-v7a") as caught:
        foreign.plan_foreign("armeabi-v7a")
    assert "arm64-v8a through qemu" in caught.value.hints[0]
    machine.machine = "aarch64"
    with pytest.raises(SimError):
        foreign.plan_foreign("x86_64")


def test_what_is_missing_is_named(machine: SimpleNamespace) -> None:
    with pytest.raises(SimError) as caught:
        foreign.plan_foreign("arm64-v8a")
    assert caught.value.hints == ("sudo apt install qemu-user-static libc6-arm64-cross",)


@pytest.mark.parametrize("release", ["6.6.99", "5.15.0-91-generic", "weird"])
def test_older_kernels_are_refused_before_anything_is_tried(machine: SimpleNamespace, release: str) -> None:
    machine.release = release
    with pytest.raises(SimError) as caught:
        foreign.plan_foreign("arm64-v8a")
    assert release in (caught.value.evidence or "")


def test_a_qemu_that_needs_libraries_does_not_do(
    machine: SimpleNamespace, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # /bin/sh stands for any program with a dynamic loader.
    monkeypatch.setattr(foreign.shutil, "which", lambda name: "/bin/sh")
    with pytest.raises(SimError) as caught:
        foreign.plan_foreign("arm64-v8a")
    assert "qemu-user-static" in caught.value.hints[0]


def test_magic_and_mask_are_those_of_arm64_programs() -> None:
    def accepts(header: bytes) -> bool:
        masked = bytes(a & b for a, b in zip(header, foreign._MASK, strict=True))
        return masked == bytes(a & b for a, b in zip(foreign._MAGIC, foreign._MASK, strict=True))

    start = b"\x7fELF\2\1\1" + bytes(9)
    assert accepts(start + b"\2\0\xb7\0")  # ET_EXEC
    assert accepts(start + b"\3\0\xb7\0")  # ET_DYN
    assert not accepts(start + b"\2\0\x3e\0")  # x86_64
    assert not accepts(start + b"\1\0\xb7\0")  # an object file
    assert not accepts(b"\x7fELF\1\1\1" + bytes(9) + b"\2\0\xb7\0")  # 32 bits
