"""`devkit build` with nothing to do, and `devkit vscode`, on a project of MNN's size (900 sources).

The peer of the first is the command behind it, `cmake --build`; of the second `python -c pass`.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Measure

ROUNDS, QUICK_ROUNDS = 15, 5
SOURCES = 900  # MNN's LLM build on this day: 851 entries, 1.55 MB
DEFINITIONS, INCLUDES = 20, 15
BUILD_GOAL_S, VSCODE_GOAL_S = 0.6, 1.0

# The sources are in compile_commands.json and in ninja's graph, and are never compiled.
_PROJECT = """cmake_minimum_required(VERSION 3.21)
project(large CXX)
file(GLOB sources CONFIGURE_DEPENDS src/*.cpp)
add_library(objects OBJECT EXCLUDE_FROM_ALL ${{sources}})
target_compile_definitions(objects PRIVATE {definitions})
target_include_directories(objects PRIVATE {includes})
add_executable(tool main.cpp)
"""


def run(*, quick: bool) -> list[Measure]:
    """Build once, then time whole processes in turn."""
    rounds = QUICK_ROUNDS if quick else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "large 大"
        _write_project(source)
        devkit = [sys.executable, "-m", "devkit"]
        subprocess.run(
            [*devkit, "build", "host"], cwd=source, env=_env(name), check=True, capture_output=True
        )
        [build_dir] = (source / "build/devkit").glob("host-*-debug")
        commands: dict[str, Sequence[str]] = {
            "build": [*devkit, "build", "host"],
            "cmake": ["cmake", "--build", str(build_dir)],
            "vscode": [*devkit, "vscode", "--force"],
            "python": [sys.executable, "-c", "pass"],
        }
        times = {
            key: [_time(command, source, name) for _ in range(rounds)] for key, command in commands.items()
        }
    return [
        _measure("devkit build, nothing to do", times["build"], times["cmake"], BUILD_GOAL_S),
        _measure(f"devkit vscode, {SOURCES} entries", times["vscode"], times["python"], VSCODE_GOAL_S),
    ]


def _measure(name: str, ours: list[float], peer: list[float], goal_s: float) -> Measure:
    middle, other = statistics.median(ours), statistics.median(peer)
    spread = statistics.pstdev(ours)
    return Measure(name, "s", middle, other, spread, middle - other, "s", f"< {goal_s:g} s", middle < goal_s)


def _time(command: Sequence[str], source: Path, home: str) -> float:
    started = time.perf_counter()
    subprocess.run(command, cwd=source, env=_env(home), check=True, capture_output=True)
    return time.perf_counter() - started


def _env(home: str) -> dict[str, str]:
    root = str(Path(__file__).parents[1])
    folders = {f"XDG_{kind}_HOME": f"{home}/{kind.lower()}" for kind in ("CACHE", "DATA", "STATE", "CONFIG")}
    return {**os.environ, **folders, "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])}


def _write_project(source: Path) -> None:
    (source / "src").mkdir(parents=True)
    for number in range(SOURCES):
        (source / "src" / f"file{number}.cpp").write_text(f"int f{number}() {{ return {number}; }}\n")
    (source / "main.cpp").write_text("int main() { return 0; }\n")
    (source / "devkit.yaml").write_text("engine: cmake\napps: {tool: {profile: host}}\n")
    definitions = " ".join(f"DEFINITION_NUMBER_{n}={n}" for n in range(DEFINITIONS))
    includes = " ".join(f"include/of/folder{n}" for n in range(INCLUDES))
    (source / "CMakeLists.txt").write_text(_PROJECT.format(definitions=definitions, includes=includes))
