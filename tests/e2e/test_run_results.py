"""`devkit run` judges what programs on the virtual phone print; `devkit results` the same from a file."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import REPO, Cli, Sim, TinyApp
from tests.e2e.terminal import Terminal

CAPTURES = REPO / "tests/data/results"
CASES = REPO / "tests/data/cases"
Speaker = Callable[..., Path]


@pytest.fixture(scope="session")
def speak(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("speak") / "speak"
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    subprocess.run([compiler, "-O0", REPO / "tests/data/tiny/speak.cpp", "-o", program], check=True)
    return program


@pytest.fixture
def says(speak: Path, workdir: Path) -> Callable[[str, Path], None]:
    """Writes a devkit.yaml whose app `app` is a program of this name that prints this file."""

    def write(
        program: str, output: Path, code: int = 0, mode: str = "", more: str = "", top: str = ""
    ) -> None:
        folder = workdir / "bin"
        folder.mkdir(exist_ok=True)
        shutil.copy(speak, folder / program)
        (workdir / "devkit.yaml").write_text(
            f"apps:\n  app:\n    target: ./bin/{program}\n"
            f"    files: [{{local: '{output}', remote: out.txt}}]\n"
            f"    args: [out.txt, '{code}', '{mode}']\n{more}{top}",
            "utf-8",
        )

    return write


def named(data: Any) -> dict[str, Any]:
    return {result["name"]: result["value"] for result in data["results"]}


def test_missing_weights_fail_although_the_program_exits_with_0(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("llm_demo", CAPTURES / "llm_demo_missing_weight_rc0.txt")
    ran = devkit("run", "app", "--json")
    data = ran.data
    assert ran.code == 1
    assert (data["program_exit"], data["signal"], data["status"]) == (0, None, "failed")
    assert data["pushed_bytes"] > 0 and data["parser"] == "llm_demo" and data["results"] == []
    assert data["findings"][0]["values"]["file"] == "short2/llm.mnn.weight"
    assert data["findings"][0]["next"][0].startswith("devkit deploy app --dry-run")
    ran = devkit("run", "app")
    assert ran.code == 1
    assert ran.out == (CAPTURES / "llm_demo_missing_weight_rc0.txt").read_text()
    assert "error (phone): llm_demo exited with 0, but it failed: short2/llm.mnn.weight" in ran.err
    assert "| [Error]: LLM weight file not found: short2/llm.mnn.weight" in ran.err and "try: " in ran.err
    assert "init error" not in ran.err  # what it caused


def test_numbers_of_llm_demo(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("llm_demo", CAPTURES / "llm_demo_ok.txt")
    ran = devkit("run", "app", "--json")
    assert ran.code == 0 and ran.data["status"] == "ok" and ran.data["findings"] == []
    assert named(ran.data)["decode_speed"] == 2891.74 and named(ran.data)["audio_rtf"] is None
    assert "decode speed = 2891.74 tok/s" in ran.err  # the program's own output is not lost
    human = devkit("run", "app")
    assert human.out == (CAPTURES / "llm_demo_ok.txt").read_text(errors="replace")
    assert [line.split() for line in human.err.splitlines() if line.startswith("decode_speed")] == [
        ["decode_speed", "2891.74", "tok/s"]
    ]
    assert "audio_rtf" not in human.err  # the summary is short
    assert devkit("run", "app", "-q").err == ""


@pytest.mark.parametrize(
    ("program", "file", "name", "value"),
    [
        ("llm_bench", "llm_bench.txt", "pp32", 16268.54),
        ("benchmark.out", "benchmark_out.txt", "time_avg", 422.776),
        ("MNNV2Basic.out", "MNNV2Basic.txt", "time_avg", 0.0652),
        ("some_tool", "qnn_precision.txt", "exec", 0.65),  # by its output alone
    ],
)
def test_programs_are_recognised(
    sim: Sim, devkit: Cli, says: Speaker, program: str, file: str, name: str, value: float
) -> None:
    says(program, CAPTURES / file)
    ran = devkit("run", "app", "--json")
    assert (ran.code, ran.data["status"]) == (0, "ok") and named(ran.data)[name] == value


def test_silent_fall_back_to_the_cpu_fails_also_from_stderr(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("llm_demo", CASES / "K7/silent_cpu.txt")
    ran = devkit("run", "app")
    assert ran.code == 1 and "it ran on CPU although NN (QNN, NNAPI, CoreML) was asked for" in ran.err
    says("llm_demo", CAPTURES / "llm_demo_ok.txt", mode="stderr")
    ran = devkit("run", "app", "--json")
    assert ran.code == 1 and named(ran.data)["decode_speed"] == 2891.74
    assert ran.data["findings"][0]["values"] == {"asked": "OPENCL", "used": "CPU"}


def test_the_programs_own_exit_code_stays(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("qnn_tool", CASES / "K1/run.log", code=7)
    ran = devkit("run", "app")
    assert ran.code == 7 and "warning: QNN libraries of two SDKs are mixed" in ran.err
    assert "14001" not in ran.err  # a consequence
    ran = devkit("run", "app", "--json")
    assert ran.code == 7 and (ran.data["program_exit"], ran.data["status"]) == (7, "failed")
    says("llm_demo", CAPTURES / "llm_demo_ok.txt", mode="abort")
    ran = devkit("run", "app", "--json")
    assert (ran.code, ran.data["signal"], ran.data["status"]) == (134, "SIGABRT", "failed")
    assert named(ran.data)["decode_speed"] == 2891.74


def test_an_app_names_its_parser_or_none(sim: Sim, devkit: Cli, says: Speaker, workdir: Path) -> None:
    text = workdir / "own.txt"
    text.write_text("case 8x8: 12.5 ms\nMISMATCH at 3\n")
    own = r"""results:
  my_bench:
    lines:
      - {pattern: 'case (?P<case>\S+): (?P<time>\S+) ms', units: {time: ms}}
    failed: ['^MISMATCH']
"""
    says("tool", text, more="    results: my_bench\n", top=own)
    ran = devkit("run", "app", "--json")
    assert ran.code == 1 and ran.data["status"] == "failed"
    assert ran.data["results"] == [
        {"name": "time", "value": 12.5, "unit": "ms", "spread": None, "labels": {"case": "8x8"}}
    ]
    says("tool", text, more="    results: llm_bench\n")
    ran = devkit("run", "app")
    assert ran.code == 1 and "holds no results of llm_bench" in ran.err
    says("llm_demo", CAPTURES / "llm_demo_missing_weight_rc0.txt", more="    results: none\n")
    assert devkit("run", "app").code == 0
    says("tool", text, more="    results: nonesuch\n")
    ran = devkit("run", "app")
    assert ran.code == 2 and "devkit.yaml:6: apps.app.results: there is no parser named 'nonesuch'" in ran.err


def test_what_was_said_before_a_timeout(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("benchmark.out", CAPTURES / "benchmark_out.txt", mode="wait")
    ran = devkit("run", "app", "--timeout", "2")
    assert ran.code == 124 and "MobileNetV2_224.mnn" in ran.err and "17.601" in ran.err
    assert "still running after 2 s" in ran.err
    ran = devkit("run", "app", "--timeout", "2", "--json")
    assert ran.code == ran.data["exit_code"] == 124 and "still running after 2 s" in ran.data["error"]
    assert {"MobileNetV2_224.mnn"} <= {m["labels"].get("model") for m in ran.data["results"]}


def test_a_usage_text_fails_unless_it_was_asked_for(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("llm_demo", CAPTURES / "llm_demo_usage_rc0.txt")
    ran = devkit("run", "app")
    assert ran.code == 1 and "llm_demo printed its usage and did nothing" in ran.err
    assert devkit("run", "app", "--", "out.txt", "0", "--help").code == 0


def test_a_library_the_linker_does_not_find(sim: Sim, devkit: Cli, tiny: TinyApp, workdir: Path) -> None:
    (workdir / "devkit.yaml").write_text(
        f"apps:\n  app: {{target: '{tiny.program}', env: {{LD_LIBRARY_PATH: /data/nowhere}}}}\n", "utf-8"
    )
    ran = devkit("run", "app", "--json")
    assert ran.code not in (0, 125) and ran.data["status"] == "failed"
    first = ran.data["findings"][0]
    assert (first["kind"], first["values"]["library"]) == ("missing-library", "libinner.so")
    human = devkit("run", "app")
    assert human.code == ran.code and "warning: libinner.so" in human.err and "LD_LIBRARY_PATH" in human.err


def test_on_a_terminal_with_its_carriage_returns(sim: Sim, devkit: Cli, says: Speaker, workdir: Path) -> None:
    says("llm_demo", CAPTURES / "llm_demo_missing_weight_rc0.txt")
    here = Path.cwd()
    os.chdir(workdir)
    try:
        terminal = Terminal("run", "app")
        terminal.wait_for(b"but it failed: short2/llm.mnn.weight")
        assert terminal.end() == 1
    finally:
        os.chdir(here)


def test_results_of_a_saved_log(devkit: Cli, workdir: Path) -> None:
    ran = devkit("results", CAPTURES / "llm_bench.json", "--json")
    assert ran.code == 0 and [r["name"] for r in ran.data["results"]] == ["pp32", "tg8"]
    ran = devkit("results", "-", stdin=(CASES / "K7/ok.txt").read_text())
    assert ran.code == 0 and "decode_speed        31.84" in ran.out and ran.err == ""
    ran = devkit("results", CAPTURES / "llm_demo_missing_weight_rc0.txt")
    assert (
        ran.code == 1 and "short2/llm.mnn.weight" in ran.err and ran.out == "no results that a parser knows\n"
    )
    ran = devkit("results", CAPTURES / "llm_demo_missing_weight_rc0.txt", "--json")
    assert ran.code == 1 and ran.data["status"] == "failed"
    saved = workdir / "powershell.txt"
    saved.write_bytes((CASES / "K7/bench.txt").read_text().replace("\n", "\r\n").encode("utf-16"))
    assert [r["spread"] for r in devkit("results", saved, "--json").data["results"]] == [0.47, 0.03]
    assert "llm_bench" in devkit("results", "--list").out.splitlines()


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ((), 2, "no output to read"),
        (("nowhere.txt",), 125, "nowhere.txt cannot be read"),
        (("-", "--parser", "llm_bnch"), 2, "there is no parser named 'llm_bnch'"),
    ],
)
def test_results_of_nothing(devkit: Cli, args: tuple[str, ...], code: int, message: str) -> None:
    ran = devkit("results", *args)
    assert ran.code == code and message in ran.err and "Traceback" not in ran.err


def test_live_output_is_read_too(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("llm_demo", CAPTURES / "llm_demo_ok.txt")
    ran = devkit("run", "app", "--live", "--json")
    assert ran.code == 0 and named(ran.data)["decode_speed"] == 2891.74


def test_a_detached_run_is_judged_like_any_other(sim: Sim, devkit: Cli, says: Speaker) -> None:
    says("llm_demo", CAPTURES / "llm_demo_missing_weight_rc0.txt")
    ran = devkit("run", "app", "--detach", "--follow")
    assert ran.code == 1
    assert ran.out == (CAPTURES / "llm_demo_missing_weight_rc0.txt").read_text()
    assert "error (phone): llm_demo exited with 0, but it failed: short2/llm.mnn.weight" in ran.err
    shown = devkit("run", "app", "--logs")  # shows; only --follow judges
    assert shown.code == 0 and "warning: short2/llm.mnn.weight" in shown.err
    says("llm_demo", CAPTURES / "llm_demo_ok.txt")
    assert devkit("run", "app", "--detach", "--follow").code == 0
    ran = devkit("run", "app", "--logs", "--follow", "--json")
    assert ran.code == 0 and (ran.data["state"], ran.data["status"]) == ("ended", "ok")
    assert named(ran.data)["decode_speed"] == 2891.74
