"""`devkit debug --preset`: the program stops at the set's breakpoints."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.e2e.support import REPO, Cli, Sim, TinyApp

OWN = """
presets:
  rounds:
    about: each round of the program
    breakpoints:
      - inner: one round
      - inner.cpp:5: after the doubling
      - innner
"""


def test_a_set_of_the_user(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    (workdir / "devkit.yaml").write_text(OWN)
    (workdir / "go.lldb").write_text("process continue\nbreakpoint delete --force\nprocess continue\n")
    ran = devkit("debug", tiny.program, "-b", "main", "--preset", "rounds", "--batch", "go.lldb", "--json")
    assert ran.code == 7, ran.err
    assert "2  inner" in ran.err and "after the doubling" in ran.err
    assert "innner is not there; nearest: inner" in ran.err
    assert [stop["frames"][0]["function"] for stop in ran.data["stops"]] == ["main", "inner(int)"]
    assert [stop["note"] for stop in ran.data["stops"]] == [None, "one round"]
    assert "this stop: one round" in ran.data["transcript"]
    assert [point["locations"] for point in ran.data["breakpoints"]] == [1, 1, 1]


def test_the_engines_load(sim: Sim, devkit: Cli, tmp_path: Path) -> None:
    """devkit's own names against a library with MNN's namespaces, built and stopped in for real."""
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler
    for name in ("engine.cpp", "main.cpp"):
        shutil.copy(REPO / "tests/data/presets" / name, tmp_path)
    flags = [compiler, "-g", "-O0"]
    subprocess.run(
        [*flags, "-fPIC", "-shared", "engine.cpp", "-o", "libllm.so", "-Wl,-soname,libllm.so"],
        cwd=tmp_path, check=True,
    )  # fmt: skip
    subprocess.run([*flags, "main.cpp", "-o", "loader", "-L.", "-lllm"], cwd=tmp_path, check=True)
    batch = tmp_path / "go.lldb"
    batch.write_text("process continue\n" * 4)
    program = tmp_path / "loader"
    ran = devkit("debug", program, "--preset", "llm-load", "--batch", batch, "--json")
    assert ran.code == 0, ran.err
    assert [stop["frames"][0]["function"].partition("(")[0] for stop in ran.data["stops"]] == [
        "MNN::Transformer::Llm::createLLM",
        "MNN::Transformer::Llm::load",
        "MNN::Transformer::Llm::initRuntime",
        "MNN::Express::Module::load",
    ]
    assert "Sampler::createSampler is not there" in ran.err
    refused = devkit("debug", program, "--preset", "qnn-plugin", "--batch", batch)
    assert refused.code == 125 and "devkit build qnn" in refused.err and "loader, libllm.so" in refused.err


def test_sets_are_listed_and_mistakes_told(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    (workdir / "devkit.yaml").write_text(OWN)
    for command in (["--list-presets"], [tiny.program, "--preset", "list"]):
        ran = devkit("debug", *command)
        assert (
            ran.code == 0 and "rounds  each round of the program" in ran.out and "Llm::forwardRaw" in ran.out
        )
    names = [preset["name"] for preset in devkit("debug", "--list-presets", "--json").data["presets"]]
    assert names[0] == "rounds" and "qnn-plugin" in names
    ran = devkit("debug", tiny.program, "--preset", "round", "--batch", "-")
    assert ran.code == 2 and "--preset rounds" in ran.err
    assert devkit("debug").code == 2
