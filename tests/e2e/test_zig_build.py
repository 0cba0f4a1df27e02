"""A machine without a compiler: zig from PyPI builds the example engine, and the phone runs it."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.support import REPO, Cli, Sim

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

COMPILER = re.compile(
    r"(.*-)?(cc|c\+\+|c89|c99|gcc|g\+\+|cpp|clang|clang\+\+|clang-cpp|tcc|icx|icpx)(-[\d.]+)?"
)
EXAMPLE = REPO / "examples/mini-engine"


@pytest.fixture
def no_compiler(tmp_path: Path) -> dict[str, str]:
    """The variables of a machine that has everything but a compiler."""
    programs = tmp_path / "programs"
    programs.mkdir()
    for folder in ("/usr/local/bin", "/usr/bin", "/bin"):
        for entry in Path(folder).iterdir() if Path(folder).is_dir() else ():
            link = programs / entry.name
            if not COMPILER.fullmatch(entry.name) and not link.is_symlink():
                link.symlink_to(entry)
    for name in ("cc", "gcc", "g++", "c++", "clang", "clang++"):
        assert shutil.which(name, path=str(programs)) is None
    environment = {"PATH": str(programs), "CC": "", "CXX": ""}
    if importlib.util.find_spec("ziglang") is None:
        target = tmp_path / "ziglang"
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(target), "ziglang"]
        subprocess.run(command, check=True)
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(target), os.environ.get("PYTHONPATH")]))
    return environment


def test_zig_builds_the_example_and_the_phone_runs_it(
    sim: Sim, devkit: Cli, workdir: Path, no_compiler: dict[str, str]
) -> None:
    engine = workdir / "engine 引擎"
    shutil.copytree(EXAMPLE, engine, ignore=shutil.ignore_patterns("build"))
    ran = devkit("run", "llm_demo", cwd=engine, timeout=800, **no_compiler)
    assert ran.code == 0, ran.out + ran.err
    assert "decode speed" in ran.out
    [commands] = engine.glob("build/devkit/*/compile_commands.json")
    compilers = {entry["command"].split()[0] for entry in json.loads(commands.read_text())}
    assert compilers and all("zig-c" in compiler for compiler in compilers), compilers

    batch = workdir / "look.lldb"
    batch.write_text("frame variable\nbreakpoint delete --force\nprocess continue\n")
    ran = devkit(
        "debug", "llm_demo", "-b", "CPUMatMul.cpp:20", "-b", "MNN::Transformer::Llm::response",
        "--batch", batch, "--json", cwd=engine, timeout=300, **no_compiler,
    )  # fmt: skip
    assert ran.code == 0, ran.out + ran.err
    stop = ran.data["stops"][0]
    assert stop["is_breakpoint"] and stop["frames"][0]["line"]
    assert any(value["value"] for value in stop["locals"])
