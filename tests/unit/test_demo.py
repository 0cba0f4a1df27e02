"""The pure parts of the demo."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit import demo
from devkit.errors import DevkitError


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("main", "main"),
        ("MNN::CPUMatMul::onExecute(std::vector<A, B> const&, int)", "MNN::CPUMatMul::onExecute"),
        ("(anonymous namespace)::answerFile(Llm *, std::string const&)", "(anonymous namespace)::answerFile"),
        ("f(void (*)(int)) const", "f"),
        (None, "?"),
    ],
)
def test_short_names(function: str | None, expected: str) -> None:
    assert demo.short_name(function) == expected


def test_the_breakpoint_is_where_the_marker_is(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    (tmp_path / "a b" / "x.cpp").write_text(f"int x;\nint y = 1;  // {demo.MARKER}\n", "utf-8")
    assert demo.breakpoint_place(tmp_path) == ("x.cpp", 2)
    with pytest.raises(DevkitError, match="no line of"):
        demo.breakpoint_place(tmp_path / "none")


def test_the_example_has_exactly_one_marked_line() -> None:
    source = demo.example_engine()
    marked = [
        line
        for file in source.rglob("*.cpp")
        if "build" not in file.relative_to(source).parts
        for line in file.read_text("utf-8").splitlines()
        if demo.MARKER in line
    ]
    assert len(marked) == 1


def test_the_shell_is_told_where_this_devkit_is(tmp_path: Path) -> None:
    own = tmp_path / "环境 env"
    own.mkdir()
    assert demo.path_lines(own, None) == []  # run from a checkout: no program of that name
    (own / "devkit").write_text("")
    assert demo.path_lines(own, None) == [f"export PATH='{own}':\"$PATH\""]
    assert demo.path_lines(own, str(own / "devkit")) == []
    other = tmp_path / "devkit"
    other.write_text("")
    assert len(demo.path_lines(own, str(other))) == 1
