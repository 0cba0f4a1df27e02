"""Why a file is not compiled: CMake's text, judged with the cache."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.engine.cmake_text import Condition, read_commands
from devkit.engine.editor_view import pick_builds
from devkit.engine.why import Why, explain_file
from tests.unit.engine.test_editor_view import make_build

ROOT = """\
# if(COMMENT) add_library(no a.cpp)
#[[ if(ALSO_COMMENT) ]]
option(MNN_OPENCL "text with (brackets) and if(x)" OFF)
set(SOURCES source/core/a.cpp
    "${CMAKE_CURRENT_LIST_DIR}/source/quoted.cpp")
if(MNN_OPENCL AND NOT MNN_SEP_BUILD)
  file(GLOB CL source/cl/*.cpp)
elseif(MNN_VULKAN)
  include(${CMAKE_CURRENT_LIST_DIR}/vulkan/CMakeLists.txt)
else()
  file(GLOB_RECURSE REST ${PROJECT_SOURCE_DIR}/rest/*.cc)
endif()
if(MNN_BUILD_LLM)
  add_subdirectory(llm)
endif()
"""
LLM = """\
if(ANDROID)
  add_executable(tool tool.cpp)
endif()
add_library(llm STATIC ${SOMEWHERE}/src/llm.cpp)
"""
CACHE = "MNN_OPENCL:BOOL=OFF\nMNN_SEP_BUILD:BOOL=ON\nMNN_BUILD_LLM:BOOL=OFF\nMNN_VULKAN:BOOL=OFF\n"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "引擎 engine"
    for name, text in {
        "CMakeLists.txt": ROOT,
        "llm/CMakeLists.txt": LLM,
        "vulkan/CMakeLists.txt": "add_library(v v.cpp)",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (folder / "src").mkdir()
    build = make_build(folder, "host-x86_64-debug", "g++", "a.cpp")
    (build / "CMakeCache.txt").write_text(CACHE)
    return folder


def why(source: Path, name: str) -> Why:
    return explain_file(source / name, source, pick_builds(source, "host")[0])


def test_a_compiled_file(source: Path) -> None:
    answer = why(source, "src/a.cpp")
    assert answer.compiled and answer.entry is not None and answer.entry.compiler == "g++"
    assert "src/a.cpp is compiled in host-x86_64-debug" in answer.lines()[0]


@pytest.mark.parametrize(
    ("name", "options", "says"),
    [
        ("source/cl/x.cpp", {"MNN_OPENCL": "ON", "MNN_SEP_BUILD": "OFF"}, "MNN_OPENCL is OFF"),
        ("vulkan/v.cpp", {"MNN_VULKAN": "ON"}, "MNN_VULKAN is OFF"),
        ("llm/src/llm.cpp", {"MNN_BUILD_LLM": "ON"}, "CMakeLists.txt:13: if(MNN_BUILD_LLM) does not hold"),
        # No list names a header: the folder it is in decides.
        ("llm/include/llm/llm.hpp", {"MNN_BUILD_LLM": "ON"}, "MNN_BUILD_LLM is OFF"),
        ("llm/tool.cpp", {"MNN_BUILD_LLM": "ON"}, "if(ANDROID) does not hold"),
    ],
)
def test_the_option_that_keeps_a_file_out_is_named(
    source: Path, name: str, options: dict[str, str], says: str
) -> None:
    answer = why(source, name)
    assert not answer.compiled
    assert says in "\n".join(answer.lines())
    assert dict(answer.options) == options


@pytest.mark.parametrize("name", ["source/core/a.cpp", "source/quoted.cpp", "rest/deep/er/x.cc"])
def test_a_file_that_nothing_keeps_out(source: Path, name: str) -> None:
    answer = why(source, name)
    assert not answer.compiled and answer.mentions and not answer.mentions[0].closed
    assert "nothing keeps it out" in answer.lines()[-1]


def test_a_file_that_nobody_names(source: Path) -> None:
    answer = why(source, "src/unknown.cpp")
    assert answer.mentions == () and "no CMakeLists.txt names it" in answer.lines()[-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("A", True), ("NOT A", False), ("B", False), ("A AND B", False), ("A OR B", True),
        ("NOT ( A AND B ) AND ON", True), ("UNKNOWN", None), ("UNKNOWN AND B", False), ("UNKNOWN OR A", True),
        ("UNKNOWN OR B", None), ("X MATCHES ^a$ AND A", None), ("X MATCHES ^a$ AND B", False),
        ("DEFINED A", True), ("DEFINED UNKNOWN", None), ("EMPTY", False), ("LIB", False), ("0", False),
        ("A VERSION_LESS 3 OR A", True), ("TARGET x", None), ("( A", True), ("A A", None), ("", None),
    ],
)  # fmt: skip
def test_conditions_in_three_values(text: str, expected: bool | None) -> None:
    values = {"A": "ON", "B": "OFF", "EMPTY": "", "LIB": "LIB-NOTFOUND"}
    condition = Condition(tuple(text.split()), False, Path("x"), 1)
    assert condition.holds(values) is expected
    opposite = Condition(tuple(text.split()), True, Path("x"), 1).holds(values)
    assert opposite is (None if expected is None else not expected)


def test_else_and_elseif_turn_what_came_before(tmp_path: Path) -> None:
    file = tmp_path / "CMakeLists.txt"
    file.write_text("if(A)\none()\nelseif(B)\ntwo()\nelse()\nthree()\nendif()\nfour([=[ ) ]=])\n")
    commands = {c.name: [x.text for x in c.conditions] for c in read_commands(file)}
    assert commands == {"one": ["A"], "two": ["NOT (A)", "B"], "three": ["NOT (A)", "NOT (B)"], "four": []}
    assert [c.line for c in read_commands(file)] == [2, 4, 6, 8]
