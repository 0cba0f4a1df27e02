"""Build-ids read from the beginning of a file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.lldb.same_build import build_id_of_head
from devkit.symbols import read_elf


@pytest.mark.parametrize("options", [[], ["-fPIC", "-shared"], ["-static"]])
def test_the_head_of_a_file_tells_its_build_id(tmp_path: Path, options: list[str]) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler
    (tmp_path / "a.c").write_text("int main(void) { return 0; }\n")
    file = tmp_path / "a.out"
    subprocess.run([compiler, "-g", *options, "-Wl,--build-id", "-o", file, tmp_path / "a.c"], check=True)
    head = file.read_bytes()[:16384]
    assert build_id_of_head(head) == read_elf(file).build_id is not None
    assert build_id_of_head(head[:100]) is None


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"#!/bin/sh\n" * 20, b"\x7fELF\x02\x01" + b"\xff" * 200])
def test_anything_else_has_none(data: bytes) -> None:
    assert build_id_of_head(data) is None
