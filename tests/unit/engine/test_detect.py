"""Telling MNN from other CMake projects."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.engine import detect_engine

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize(
    ("text", "engine"),
    [
        ('project(MNN VERSION 3.6 LANGUAGES C CXX ASM)\noption(MNN_OPENCL "" OFF)', "mnn"),
        ('PROJECT( "MNN" )\n  OPTION( MNN_VULKAN "" OFF)', "mnn"),
        ("project(MNN)\n", "cmake"),
        ('project(MNNConvert)\noption(MNN_OPENCL "" OFF)', "cmake"),
        ('# project(MNN)\nproject(ncnn)\noption(NCNN_VULKAN "" OFF)', "cmake"),
        ("", "cmake"),
    ],
)  # fmt: skip
def test_by_the_top_cmake_file(tmp_path: Path, text: str, engine: str) -> None:
    (tmp_path / "CMakeLists.txt").write_text(text)
    assert detect_engine(tmp_path) == engine


def test_no_cmake_project(tmp_path: Path) -> None:
    assert detect_engine(tmp_path) is None
    assert detect_engine(tmp_path / "nowhere") is None


def test_the_example_engine_has_the_shape_of_mnn() -> None:
    assert detect_engine(ROOT / "examples" / "mini-engine") == "mnn"
