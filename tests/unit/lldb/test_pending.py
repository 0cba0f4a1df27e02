"""Why a breakpoint has no code."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.lldb.pending import explain_pending


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("b 中")
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler
    (folder / "matmul.cpp").write_text("namespace MNN { int multiply_all(int n) { return n + 1; } }\n")
    (folder / "plain.cpp").write_text("int plain_one(int n) { return n + 2; }\n")
    for name, option in (("matmul", "-g"), ("plain", "-g0")):
        subprocess.run([compiler, option, "-fPIC", "-c", f"{name}.cpp"], cwd=folder, check=True)
    link = [compiler, "-shared", "-nostdlib", "-o", "libk.so", "matmul.o", "plain.o"]
    subprocess.run(link, cwd=folder, check=True)
    return folder / "libk.so"


@pytest.mark.parametrize(
    ("point", "why"),
    [
        ("MNN::multiply_al", "no function MNN::multiply_al in libk.so; the nearest is MNN::multiply_all"),
        ("nothing_like_it", "no function nothing_like_it in libk.so"),
        (
            "matmull.cpp:3",
            "no source matmull.cpp among the 1 with debug information in libk.so; the nearest is",
        ),
        ("src/matmul.cpp:999", "matmul.cpp is compiled into libk.so, but has no code at line 999 or below"),
        ("plain.cpp:1", "plain.cpp is compiled by this build, but without debug information (-g)"),
        ("matmul.hpp:7", "matmul.hpp is a header"),
    ],
)
def test_reasons(library: Path, point: str, why: str) -> None:
    [found] = explain_pending([point], [library], {"/src/plain.cpp", "/src/matmul.cpp"})
    assert found.startswith(why), found


def test_files_without_symbols(library: Path, tmp_path: Path) -> None:
    stripped = tmp_path / "libs.so"
    shutil.copy(library, stripped)
    subprocess.run(["strip", "--strip-all", stripped], check=True)
    by_line, by_name = explain_pending(["matmul.cpp:1", "hidden"], [stripped])
    assert by_line.startswith("no debug information in libs.so: build with --type debug")
    assert "libs.so: no symbol table" in by_name
