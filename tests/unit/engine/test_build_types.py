"""Build types: the table, and what CMake gets."""

from __future__ import annotations

import pytest

from devkit.config import BUILD_TYPES
from devkit.engine import build_types
from devkit.engine.build_types import all_build_types, get_build_type
from devkit.errors import UsageError


def test_the_table_and_the_configuration_know_the_same_types() -> None:
    assert tuple(build_types._rows()) == BUILD_TYPES
    assert [kind.name for kind in all_build_types()] == list(BUILD_TYPES)
    assert all(kind.about and kind.memory_mb > 0 for kind in all_build_types())


def test_what_cmake_gets() -> None:
    assert {n: v for n, (v, _) in get_build_type("debug").entries().items()} == {"CMAKE_BUILD_TYPE": "Debug"}
    assert set(get_build_type("relwithdebinfo").entries()) == {"CMAKE_BUILD_TYPE", "CMAKE_PROJECT_INCLUDE"}
    profile = get_build_type("profile").entries()
    assert profile["CMAKE_BUILD_TYPE"][0] == "Release"
    assert profile["CMAKE_CXX_FLAGS_RELEASE"] == profile["CMAKE_C_FLAGS_RELEASE"]
    assert {"-O3", "-g", "-DNDEBUG"} <= set(profile["CMAKE_CXX_FLAGS_RELEASE"][0].split())
    assert all(why for kind in all_build_types() for _, why in kind.entries().values())


def test_only_types_that_promise_symbols_keep_them() -> None:
    for kind in all_build_types():
        assert kind.symbols or not kind.keep_symbols
    assert build_types._KEEP_SYMBOLS.is_file()


def test_a_wrong_name_suggests_the_nearest() -> None:
    with pytest.raises(UsageError) as caught:
        get_build_type("relase")
    assert caught.value.hints[0] == "did you mean release?"
