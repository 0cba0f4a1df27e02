"""The NEEDED closure on real arm64 files (cases C1 and C3)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devkit.errors import DeployError, FileError
from devkit.runtime.closure import SearchDir, needed_closure, system_libraries
from devkit.symbols import read_elf

CASES = Path(__file__).parents[2] / "data" / "cases"
C1 = CASES / "C1"
C3 = CASES / "C3" / "push"
EXPECTED = json.loads((C1 / "expected.json").read_text())


def closure_of(program: Path, search: list[SearchDir], artifacts: list[Path] | None = None):  # type: ignore[no-untyped-def]
    return needed_closure(program, abi="arm64-v8a", api_level=34, artifacts=artifacts or [], search=search)


def test_c1_what_travels_and_what_the_phone_has() -> None:
    found = closure_of(
        C1 / "build" / "llm_demo",
        [SearchDir(C1 / "build", "build"), SearchDir(C1 / "ndk-stl", "toolchain")],
    )
    names = [file.name for file in found.files]
    assert sorted(names) == sorted(EXPECTED["push"])
    assert names[0] == "llm_demo"
    assert [f.name for f in found.files if f.origin == "toolchain"] == EXPECTED["from_ndk"]
    assert sorted(found.system) == sorted(EXPECTED["system_not_pushed"])
    assert not set(names) & set(EXPECTED["not_pushed"])


def test_c1_a_missing_library_names_who_needs_it() -> None:
    with pytest.raises(DeployError) as caught:
        closure_of(C1 / "build" / "llm_demo", [SearchDir(C1 / "build", "build")])
    # Two levels down: the program does not name it itself.
    assert "with ndk-stl removed: error 'libc++_shared.so, needed by libMNN.so'" in EXPECTED["missing_case"]
    assert caught.value.what.startswith("libc++_shared.so, needed by libMNN.so")
    assert str(C1 / "build") in (caught.value.evidence or "")


def test_artifacts_of_the_build_win_over_folders(tmp_path: Path) -> None:
    stale = tmp_path / "libllm.so"
    stale.write_bytes((C1 / "build" / "libMNN.so").read_bytes())
    built = [C1 / "build" / name for name in ("libllm.so", "libMNN.so", "libMNN_Express.so")]
    found = closure_of(
        C1 / "build" / "llm_demo",
        [SearchDir(tmp_path, "elsewhere"), SearchDir(C1 / "ndk-stl", "toolchain")],
        built,
    )
    assert next(f for f in found.files if f.name == "libllm.so").elf.path == C1 / "build" / "libllm.so"


@pytest.mark.parametrize(
    ("name", "expected"),
    [("libMNN.so", "armeabi-v7a (32-bit arm)"), ("libllm.so", "x86_64 (64-bit x86_64)")],
)
def test_c3_a_wrong_abi_is_named(name: str, expected: str) -> None:
    with pytest.raises(DeployError) as caught:
        closure_of(C3 / name, [])
    assert f"{name} is for {expected}, the phone wants arm64-v8a" in caught.value.what


def test_c3_a_needed_library_of_another_abi_is_no_match(tmp_path: Path) -> None:
    # llm_demo needs libllm.so; the folder holds the host's.
    (tmp_path / "libllm.so").write_bytes((C3 / "libllm.so").read_bytes())
    with pytest.raises(DeployError, match=r"libllm\.so, needed by llm_demo, is for x86_64"):
        closure_of(C1 / "build" / "llm_demo", [SearchDir(tmp_path, "build")])


def test_c3_a_hexagon_skel_is_hexagon() -> None:
    skel = read_elf(C3 / "libQnnHtpV75Skel.so")
    assert (skel.machine, skel.bits, skel.abi) == ("hexagon", 32, None)


def test_a_library_newer_than_the_phone_is_explained() -> None:
    assert "libaaudio.so" not in system_libraries("bionic", 24)
    assert "libaaudio.so" in system_libraries("bionic", 26)
    assert "libstdc++.so.6" not in system_libraries("glibc", 34)


def test_a_text_file_is_no_program(tmp_path: Path) -> None:
    script = tmp_path / "run me.sh"
    script.write_text("#!/bin/sh\n")
    with pytest.raises(FileError, match="not a usable ELF file"):
        closure_of(script, [])


def test_a_cut_elf_file_is_a_clear_error(tmp_path: Path) -> None:
    whole = (C1 / "build" / "libMNN.so").read_bytes()
    for size in (5, 20, 63, 64, 200, len(whole) // 2):
        cut = tmp_path / f"cut{size}.so"
        cut.write_bytes(whole[:size])
        try:
            read_elf(cut)
        except FileError:
            pass
