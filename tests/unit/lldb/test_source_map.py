"""Sources that are elsewhere than where they were compiled."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devkit.lldb.source_map import derive_source_map, source_map_of
from devkit.symbols.compile_units import CompileUnit

CASES = Path(__file__).parents[2] / "data/cases/F5"
EXPECTED = json.loads((CASES / "expected.json").read_text("utf-8"))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "mein MNN"
    (root / "transformers").mkdir(parents=True)
    for folder in (root, root / "transformers"):
        (folder / "fixture.cpp").write_text("int main() {}\n")
    return root


@pytest.mark.parametrize("name", ["abs_other_host.so", "proc_self_cwd.so"])
def test_the_maps_of_reported_files(tree: Path, name: str) -> None:
    wanted = {key: str(tree) for key in EXPECTED[name]["sourceMap"]}
    assert dict(source_map_of([CASES / name], [tree]).pairs) == wanted


def test_a_folder_that_is_called_dot_is_mapped_with_a_warning(tree: Path) -> None:
    found = source_map_of([CASES / "dot.so"], [tree])
    assert found.pairs == ((".", str(tree)),)
    [warning] = found.warnings
    assert "'.'" in warning and "/src" in warning


def test_a_relative_name_is_resolved_first(tree: Path) -> None:
    assert source_map_of([CASES / "relative_name.so"], [tree]).pairs == (("/home/build/MNN", str(tree)),)


def test_sources_that_are_nowhere_are_said(tmp_path: Path) -> None:
    found = source_map_of([CASES / "abs_other_host.so"], [tmp_path])
    assert found.pairs == ()
    [warning] = found.warnings
    assert "1 of 1 sources are not on this machine" in warning and str(tmp_path) in warning


def test_what_is_where_it_was_needs_no_map(tree: Path) -> None:
    unit = CompileUnit("fixture.cpp", str(tree / "transformers"))
    assert derive_source_map([unit], [tree]) == derive_source_map([], [tree])


def test_a_linked_tree_is_mapped_by_the_name_in_the_debug_information(tree: Path, tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to(tree)
    unit = CompileUnit("fixture.cpp", str(tree / "transformers"))
    assert derive_source_map([unit], [link]).pairs == ((str(tree), str(link)),)


def test_other_peoples_sources_change_nothing(tree: Path) -> None:
    units = [
        CompileUnit("fixture.cpp", "/old/MNN/transformers"),
        CompileUnit("fixture.cpp", "/old/MNN"),
        CompileUnit("crtbegin.c", "/buildbot/src/android/ndk"),
    ]
    found = derive_source_map(units, [tree])
    assert found.pairs == (("/old/MNN", str(tree)),) and found.warnings == ()


def test_sources_of_runtime_libraries_are_not_missed(tree: Path) -> None:
    """A copy of libasan beside the program has as many as a small engine."""
    gcc, llvm = (
        "/build/gcc-12/build/x86_64/libsanitizer/asan",
        "/buildbot/toolchain/llvm-project/compiler-rt/lib/asan",
    )
    runtime = [CompileUnit(f"../../../src/libsanitizer/asan/asan_{n}.cpp", gcc) for n in range(40)]
    runtime += [CompileUnit(f"asan_{n}.cpp", llvm) for n in range(40)]
    # Hidden folders: gcc of a distribution that builds with -ffile-prefix-map=…=.
    runtime += [CompileUnit("../src/libsanitizer/lsan/lsan.cpp", "./build")]
    own = CompileUnit("fixture.cpp", str(tree / "transformers"))
    assert derive_source_map([*runtime, own], [tree]) == derive_source_map([], [tree])
    lost = CompileUnit("lost.cpp", "/elsewhere")
    [warning] = derive_source_map([*runtime, lost], [tree]).warnings
    assert "1 of 1 sources are not on this machine, as /elsewhere/lost.cpp" in warning
    # Who works on a runtime has its sources.
    here = tree / "compiler-rt/lib"
    here.mkdir(parents=True)
    (here / "own.cpp").touch()
    link = tree.parent / "link"
    link.symlink_to(tree)
    assert derive_source_map([CompileUnit("own.cpp", str(here))], [link]).pairs == ((str(tree), str(link)),)
