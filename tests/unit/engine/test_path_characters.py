"""Folders that CMake, ninja or make cannot build in: refused, each with its cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.engine.path_characters import check_folders, suspects
from devkit.errors import BuildError

ALWAYS = ['a"b', "a;b", "a|b", "a\\b", "a\nb", "a$(x)b"]


def check(name: str, generator: str = "Ninja", *, has_runpath: bool = True) -> None:
    check_folders(
        generator, {"the engine's source folder": Path("/w/x") / name / "MNN"}, has_runpath=has_runpath
    )


@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
@pytest.mark.parametrize("name", ALWAYS)
def test_never(name: str, generator: str) -> None:
    with pytest.raises(BuildError, match="the engine's source folder has a") as caught:
        check(name, generator, has_runpath=False)
    assert repr(f"/w/x/{name}") in caught.value.hints[0], "the folder to rename, not the whole path"


@pytest.mark.parametrize("name", ["a:b", "a?b", "a[b", "a]b", "a\tb"])
def test_only_make_cannot(name: str) -> None:
    check(name, has_runpath=False)
    with pytest.raises(BuildError, match="with which Unix Makefiles cannot build"):
        check(name, "Unix Makefiles", has_runpath=False)


@pytest.mark.parametrize("name", ["a:b", "a,b"])
def test_programs_of_this_machine_would_not_find_their_libraries(name: str) -> None:
    check(name, has_runpath=False)
    with pytest.raises(BuildError):
        check(name)


@pytest.mark.parametrize(
    "name", ["MNN (copy) 二", "it's", "a+b=c", "100%", "a&b", "a#b", "~a@{b}!", "a$b", "é^`"]
)
@pytest.mark.parametrize("generator", ["Ninja", "Unix Makefiles"])
def test_everything_else_is_tried(name: str, generator: str) -> None:
    check(name, generator)


def test_what_a_failed_build_is_told() -> None:
    assert suspects(Path("/home/me/MNN 二")) == ()
    assert suspects(Path("/home/me/MNN (copy)")) == ("a (", "a )")
