"""Errors and warnings in what real compilers, linkers and CMake print."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.engine.diagnostics import Diagnostic, find_diagnostics, summarize

LOGS = Path(__file__).parents[2] / "data/engine/logs"
BUILD = Path("/src dir/build")


def found(name: str) -> list[tuple[str, str, int, str]]:
    text = (LOGS / f"{name}.log").read_text("utf-8")
    return [(d.severity, d.file, d.line, d.message) for d in find_diagnostics(text, BUILD)]


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        (
            "gcc",
            [
                ("warning", "/src dir/ops/common.h", 9, "unused variable 'x'"),
                ("error", "/src dir/ops/a.cpp", 3, "'foo' was not declared in this scope"),
                ("error", "/src dir/ops/b.cpp", 1, "nowhere.h: No such file or directory"),
            ],
        ),
        ("clang", [("error", "/src dir/a.cpp", 7, "use of undeclared identifier 'foo'")]),
        (
            "ld",
            [
                (
                    "error",
                    "/src dir/build/express/libMNN_Express.so",
                    0,
                    "undefined reference to `MNN::Pipeline::resize()'",
                )
            ],
        ),
        (
            "lld",
            [("error", "/src dir/build/source/core/Session.hpp", 28,
              "undefined symbol: MNN::Pipeline::resize()")],
        ),
        ("cmake", [("error", "CMakeLists.txt", 12, "QNN_SDK_ROOT is empty: set it")]),
        ("unused", []),
    ],
)  # fmt: skip
def test_logs_of_real_tools(log: str, expected: list[tuple[str, str, int, str]]) -> None:
    assert found(log) == expected


def test_a_header_that_warns_in_every_file_counts_once() -> None:
    line = "/src/common.h:9:5: warning: unused variable 'x' [-Wunused-variable]\n"
    [one] = find_diagnostics(line * 3, BUILD)
    assert (one.flag, one.column) == ("-Wunused-variable", 5)


def test_lines_that_only_look_like_it() -> None:
    text = (
        "-- Looking for foo: warning: not found\n"
        "[3/9] Building CXX object a.cpp:3: warning: no\n"
        "ninja: error: loading 'build.ninja'\n"
        "12:30:01: error: a log of something else\n"
    )
    assert find_diagnostics(text, BUILD) == ()


def test_the_summary() -> None:
    source = Path("/src dir")
    many = [Diagnostic("warning", f"/src dir/ops/{n % 2}.cpp", n + 1, "unused", "-Wunused") for n in range(4)]
    assert summarize(many, source, "warning", shown=2) == [
        "4 warnings in 2 files",
        "  ops/0.cpp:1: unused [-Wunused]",
        "  ops/1.cpp:2: unused [-Wunused]",
        "  … and 2 more",
    ]
    assert summarize(many, source, "warning", shown=0, more=True) == ["4 more warnings in 2 files"]
    assert summarize(many, source, "error") == []
    outside = Diagnostic("error", "/usr/include/x.h", 0, "gone")
    assert summarize([outside], source, "error") == ["1 error in 1 file", "  /usr/include/x.h: gone"]
