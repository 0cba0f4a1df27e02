"""The library that makes a program wait: it is what its source makes, and needs nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from devkit.lldb.native.build import PREBUILT, PROCESSORS, ZIG_VERSION, build_all, prebuilt
from devkit.symbols import read_elf


@pytest.mark.parametrize("processor", PROCESSORS)
def test_it_needs_nothing(processor: str) -> None:
    elf = read_elf(prebuilt(processor))
    assert (elf.machine, elf.needed, elf.soname) == (processor, (), "devkit_wait.so")
    assert elf.load_align == 16384 and elf.path.stat().st_size < 4096


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_prebuilt_files_are_what_the_source_makes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Exactly this zig: another one makes other bytes.
    packages = tmp_path / "packages"
    wanted = f"ziglang=={ZIG_VERSION}"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(packages), wanted]
    subprocess.run(command, check=True)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")]))
    made = build_all(tmp_path / "mit blank 构建")
    assert {path.name for path in made} == {path.name for path in PREBUILT.iterdir()}
    for path in made:
        assert path.read_bytes() == (PREBUILT / path.name).read_bytes(), path.name
