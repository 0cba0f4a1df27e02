"""Stripped copies: what they keep, what is left alone, and that each is made once."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import time
from pathlib import Path

import pytest

from devkit import paths
from devkit.symbols import Stripper, read_elf


def digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache 缓存"))
    return build(tmp_path, "program 程序")


def build(folder: Path, name: str, *flags: str) -> Path:
    source = folder / "main.c"
    source.write_text("static int secret(int x) { return x + 1; }\nint main(void) { return secret(6); }\n")
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler
    file = folder / name
    subprocess.run([compiler, "-g", "-O0", "-Wl,--build-id", *flags, source, "-o", file], check=True)
    return file


def test_the_copy_runs_and_has_its_build_id_and_names_when_wanted(program: Path) -> None:
    copy = Stripper().stripped(read_elf(program), digest)
    assert copy is not None and copy.stat().st_size < program.stat().st_size
    was, now = read_elf(program), read_elf(copy)
    assert now.build_id == was.build_id and was.has_debug_info and not now.has_debug_info
    assert subprocess.run([copy], check=False).returncode == 7
    assert b"secret" not in copy.read_bytes()
    # What the phone's own crash reports name functions by stays when that is wanted: the symbol table.
    named = Stripper(keep_symbols=True).stripped(was, digest)
    assert named is not None and b"secret" in named.read_bytes()
    assert copy.stat().st_size < named.stat().st_size < program.stat().st_size


def test_a_copy_is_made_once_and_follows_the_content(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = Stripper().stripped(read_elf(program), digest)
    assert first is not None
    made = first.stat().st_ino
    again = Stripper(Path("/no/such/strip")).stripped(read_elf(program), digest)
    assert again == first and again.stat().st_ino == made
    # The same build-id with other bytes (a tool changed the file): not the old copy.
    with program.open("r+b") as file:
        file.seek(0, os.SEEK_END)
        file.write(b"\0")
    other = Stripper().stripped(read_elf(program), digest)
    assert other is not None and other != first


def test_what_is_left_alone(program: Path, tmp_path: Path) -> None:
    stripper = Stripper()
    assert stripper.stripped(read_elf(build(tmp_path, "no-id", "-Wl,--build-id=none")), digest) is None
    assert stripper.stripped(read_elf(build(tmp_path, "plain", "-g0")), digest) is None
    # A tool that fails, or makes something else of the file, changes nothing.
    assert Stripper(Path("/bin/false")).stripped(read_elf(program), digest) is None
    liar = tmp_path / "liar"
    liar.write_text('#!/bin/sh\ncp /bin/true "$3"\n')
    liar.chmod(0o755)
    assert Stripper(liar).stripped(read_elf(program), digest) is None
    assert not list((paths.cache_dir() / "stripped").iterdir())


def test_copies_that_nobody_uses_go(program: Path, tmp_path: Path) -> None:
    copy = Stripper().stripped(read_elf(program), digest)
    assert copy is not None
    old = time.time() - 40 * 86400
    os.utime(copy, (old, old))
    other = build(tmp_path, "other", "-O1")
    assert Stripper().stripped(read_elf(other), digest) is not None
    assert not copy.exists()
