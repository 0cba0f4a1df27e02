"""The sources that debug information names, as compilers write it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.symbols.compile_units import CompileUnit, read_units

CASES = Path(__file__).parents[2] / "data/cases/F5"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "quellen 源"
    place.mkdir()
    for name in ("one", "two"):
        (place / f"{name}.c").write_text(f"int {name}(int n) {{ return n + 1; }}\n")
    return place


@pytest.mark.parametrize(
    "options",
    [["-gdwarf-2"], ["-gdwarf-3"], ["-gdwarf-4"], ["-gdwarf-5"], ["-g", "-gz=zlib"]],
    ids=" ".join,
)
def test_each_version(folder: Path, options: list[str]) -> None:
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler
    command = [
        compiler,
        *options,
        "-fPIC",
        "-shared",
        "-nostdlib",
        "-o",
        "lib.so",
        "one.c",
        "../x/../q/two.c",
    ]
    (folder.parent / "x").mkdir()
    (folder.parent / "q").symlink_to(folder)
    subprocess.run(command, cwd=folder, check=True)
    one, two = read_units(folder / "lib.so")
    assert one == CompileUnit("one.c", str(folder)) and one.path == str(folder / "one.c")
    assert two.path == str(folder.parent / "q/two.c")
    subprocess.run(["strip", "--strip-debug", "lib.so"], cwd=folder, check=True)
    assert read_units(folder / "lib.so") == ()


@pytest.mark.parametrize(
    ("name", "comp_dir", "path"),
    [
        ("abs_other_host.so", "/home/build/MNN/transformers", "/home/build/MNN/transformers/fixture.cpp"),
        ("dot.so", ".", "fixture.cpp"),
        ("proc_self_cwd.so", "/proc/self/cwd", "/proc/self/cwd/fixture.cpp"),
        ("relative_name.so", "/home/build/MNN/build", "/home/build/MNN/transformers/fixture.cpp"),
    ],
)
def test_reported_files_of_arm64(name: str, comp_dir: str, path: str) -> None:
    [unit] = read_units(CASES / name)
    assert (unit.folder, unit.path) == (comp_dir, path)


def test_strings_by_index_as_clang_writes_them() -> None:
    assert [unit.path for unit in read_units(CASES.parents[1] / "symbols/clang-dwarf5.so")] == ["/src/a.c"]


def test_what_is_cut_off_ends_the_reading(tmp_path: Path) -> None:
    whole = (CASES / "dot.so").read_bytes()
    for size in range(0, len(whole), 97):
        cut = tmp_path / f"cut{size}.so"
        cut.write_bytes(whole[:size])
        assert read_units(cut) in ((), read_units(CASES / "dot.so"))
    assert read_units(tmp_path / "none.so") == ()
