"""What is hashed and stripped while the phone is awaited: all that is likely, and nothing rests on it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.runtime.hashes import HashCache
from devkit.runtime.warmup import WarmUp
from devkit.symbols import Stripper, read_elf


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    link(tmp_path, "libinner.so", "int inner(int x) { return x; }", "-shared", "-fPIC")
    outer = "int inner(int); int outer(int x) { return inner(x); }"
    link(tmp_path, "libouter.so", outer, "-shared", "-fPIC", "-L.", "-linner")
    main = "int outer(int); int main(void) { return outer(7); }"
    return link(tmp_path, "program", main, "-L.", "-louter", "-Wl,--allow-shlib-undefined")


def link(folder: Path, name: str, source: str, *flags: str) -> Path:
    compiler = shutil.which("gcc")
    assert compiler
    (folder / "source.c").write_text(source)
    command = [compiler, "-g", "-Wl,--build-id", "source.c", "-o", name, *flags]
    subprocess.run(command, check=True, cwd=folder)
    return folder / name


def warm(program: Path) -> None:
    WarmUp(program, (), (), lambda _: Stripper()).wait()


def known_copy(file: Path) -> Path | None:
    """The stripped copy that is there already: a tool that is missing makes none."""
    with HashCache() as hashes:
        return Stripper(Path("/no/such/strip")).stripped(read_elf(file), hashes.sha256)


def test_the_program_and_its_libraries_all_levels_down_are_ready(program: Path) -> None:
    assert known_copy(program) is None
    warm(program)
    for name in ("program", "libouter.so", "libinner.so"):
        copy = known_copy(program.with_name(name))
        assert copy is not None and copy.stat().st_size < program.with_name(name).stat().st_size


def test_a_file_that_changes_afterwards_is_not_missed(program: Path) -> None:
    inner = program.with_name("libinner.so")
    warm(program)
    with HashCache() as hashes:
        before = hashes.sha256(inner)
    link(program.parent, "libinner.so", "int inner(int x) { return x + 1; }", "-shared", "-fPIC")
    with HashCache() as hashes:
        assert hashes.sha256(inner) != before
    assert known_copy(inner) is None


def test_what_cannot_be_read_is_left_to_the_plan(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "broken").write_bytes(b"\x7fELF broken")
    warm(tmp_path / "broken")
    warm(tmp_path / "missing")
    assert capfd.readouterr() == ("", "")
