"""What build output means. The logs are excerpts of real ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.engine import buildlog

LOGS = Path(__file__).parents[2] / "data" / "engine" / "logs"
B1 = Path(__file__).parents[2] / "data" / "cases" / "B1"
B3 = B1.parent / "B3"


@pytest.mark.parametrize(
    ("line", "step"),
    [
        ("[12/640] Building CXX object MNN.dir/a.o", (12, 640, "Building CXX object MNN.dir/a.o")),
        ("[0/1] Re-running CMake...", (0, 1, "Re-running CMake...")),
        ("[ 45%] Building CXX object MNN.dir/a.o", (45, 100, "Building CXX object MNN.dir/a.o")),
        ("[100%] Linking CXX shared library libMNN.so", (100, 100, "Linking CXX shared library libMNN.so")),
        ("[100%] Built target MNN", None),
        ("ninja: no work to do.", None),
        ("a.cpp:[1/2] x", None),
    ],
)  # fmt: skip
def test_progress(line: str, step: tuple[float, float, str] | None) -> None:
    assert buildlog.parse_step(line) == step


def test_running_cmake_again_is_no_step() -> None:
    assert not buildlog.is_build_step("Re-running CMake...")
    assert buildlog.is_build_step("Linking CXX executable llm_demo")


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda p: p.stem)
def test_the_first_errors_are_the_evidence(log: Path) -> None:
    expected = log.with_suffix(".expected").read_text("utf-8")
    assert buildlog.first_errors(log.read_text("utf-8")) == expected.rstrip("\n")


def test_at_most_so_many_errors() -> None:
    text = "\n".join(f"a.cpp:{n}:1: error: no {n}" for n in range(50))
    assert buildlog.first_errors(text).splitlines() == [f"a.cpp:{n}:1: error: no {n}" for n in range(5)]


def test_warnings_and_words_are_no_errors() -> None:
    text = (
        "a.cpp:1:2: warning: error: handling\n-- Looking for error: no\n[3/4] Building error.cpp\nnote: fine"
    )
    assert buildlog.first_errors(text) == ""


def test_unused_variables() -> None:
    assert buildlog.unused_variables((LOGS / "unused.log").read_text()) == ("MNN_KLEIDIAI", "MNN_OPNCL")
    assert buildlog.unused_variables("-- Configuring done\n") == ()


def test_b1_a_cache_that_cmake_throws_away_is_noticed() -> None:
    """It says so in passing and ends with exit code 0."""
    text = (B1 / "second_configure.log").read_text()
    changed = buildlog.dropped_cache(text)
    assert changed == (
        "CMAKE_C_COMPILER= /opt/sdk/ndk/27.1.12297006/toolchains/llvm/prebuilt/linux-x86_64/bin/clang"
    )
    assert buildlog.dropped_cache(text.replace("changed variables", "new variables")) is None


def test_b3_an_empty_root_is_seen_when_it_is_configured() -> None:
    text = (B3 / "configure.log").read_text()
    assert buildlog.has_empty_qnn_root(text)
    assert not buildlog.has_empty_qnn_root(text.replace("QNN Root: ", "QNN Root: /opt/qairt/2.42"))
