"""`devkit profile --host`: programs of this machine under real Linux perf, and what keeps it from that."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from devkit.errors import DevkitError
from devkit.profiling.host import check_perf, find_perf

from .support import REPO, Cli

SOURCE = REPO / "tests/data/profile/hot.c"
SHARES = {"sixty": 0.6, "thirty": 0.3, "ten": 0.1}


@pytest.fixture(scope="module")
def perf() -> Path:
    try:
        found = find_perf()
    except DevkitError:
        pytest.skip("Linux perf is not here")
    try:
        check_perf(found)
    except DevkitError as error:
        pytest.skip(f"Linux perf is not here for this kernel: {error.what}")
    return found


def line_of(words: str) -> int:
    return next(n for n, line in enumerate(SOURCE.read_text().splitlines(), 1) if words in line)


def build(folder: Path) -> Path:
    program = folder / ("hot" if str(folder).isascii() else "hot 程序")
    flags = ["-O2", "-g", "-Wl,--build-id", "-D_GNU_SOURCE", "-pthread"]
    subprocess.run(["cc", *flags, SOURCE, "-o", program], check=True)
    return program


def test_shares_lines_and_callers_are_true(perf: Path, devkit: Cli, workdir: Path) -> None:
    program = build(workdir)
    ran = devkit("profile", "--host", program, "--json", "--annotate", "work", "--", "1.5", "thread")
    assert ran.code == 7, ran
    data = ran.data
    functions = {row["function"]: row for row in data["functions"]}
    for name, share in SHARES.items():
        assert functions[name]["self_share"] == pytest.approx(share, abs=0.05)
        assert functions[name]["line"] == line_of(f"line of {name}")
        assert functions[name]["library"] == str(program)
    # Callers of leaf functions are there, too: DWARF.
    assert functions["work"]["total_share"] > 0.95
    lines = {row["line"]: row["total"] for row in data["annotated"]["files"][str(SOURCE)]}
    assert max(lines, key=lines.__getitem__) == line_of("sixty(rounds);")
    # What it printed is not in the document; its exit code is said.
    assert "state 1" in ran.err
    page = Path(data["files"]["flame graph"])
    assert page.is_file() and data["run"] in page.name
    again = devkit("profile", "--show", "last", "--thread", "worker", "--tree")
    assert "    work  hot 程序" in again.out


@pytest.mark.slow
def test_a_running_process_by_its_frame_pointers(
    perf: Path, devkit: Cli, workdir: Path, tmp_path: Path
) -> None:
    def watched(program: Path) -> dict[str, Any]:
        with subprocess.Popen([program, "100"], stdout=subprocess.DEVNULL) as busy:
            try:
                options = ("--attach", str(busy.pid), "--seconds", "1", "--call-graph", "fp")
                ran = devkit("profile", "--host", *options, "--json")
                assert busy.poll() is None and ran.code == 0, ran
            finally:
                busy.kill()
        data: dict[str, Any] = ran.data
        return data

    functions = {row["function"]: row["self_share"] for row in watched(build(tmp_path))["functions"]}
    assert functions["sixty"] > functions["thirty"] > functions["ten"] > 0
    # perf itself (6.1) passes over files whose paths are not ASCII when it attaches.
    found = watched(build(workdir))
    names = {row["function"] for row in found["functions"]}
    assert "sixty" in names or any("not all ASCII" in note for note in found["notes"])
    ran = devkit("profile", "--host", "--attach", "999999999")
    assert ran.code == 2 and "no process 999999999" in ran.err


REFUSALS = {
    "paranoid": (
        "Error:\nAccess to performance monitoring and observability operations is limited.\n"
        "Consider adjusting /proc/sys/kernel/perf_event_paranoid setting",
        "does not let perf record",
    ),
    "container": ("perf_event_open(...) failed: Operation not permitted", "does not let perf record"),
    "ubuntu": (
        "WARNING: perf not found for kernel 6.8.0-31\n  linux-tools-6.8.0-31-generic",
        "running kernel",
    ),
    "frequency": ("error: Maximum frequency rate (250 Hz) exceeded.", "fewer samples a second"),
    "other": ("something else", "perf failed (exit code 255)"),
}


@pytest.mark.parametrize("kind", list(REFUSALS))
def test_refusals_are_explained(devkit: Cli, workdir: Path, kind: str) -> None:
    said, words = REFUSALS[kind]
    folder = workdir / "bin"
    folder.mkdir()
    (folder / "perf").write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{said}\nEND\nexit 255\n")
    (folder / "perf").chmod(0o755)
    path = f"{folder}{os.pathsep}{os.environ['PATH']}"
    ran = devkit("profile", "--host", "/bin/true", PATH=path)
    assert ran.code == 125 and words in ran.err
    assert said.splitlines()[-1].strip() in ran.err
    if kind in ("paranoid", "container"):
        assert "kernel.perf_event_paranoid = " in ran.err and "--cap-add PERFMON" in ran.err


def test_without_perf_it_is_said_how_to_get_it(devkit: Cli, workdir: Path) -> None:
    ran = devkit("profile", "--host", "/bin/true", PATH=str(workdir))
    assert ran.code == 125 and "apt install linux-perf" in ran.err
    ran = devkit("profile", "--host", "--off-cpu", "/bin/true")
    assert ran.code == 2 and "--off-cpu is for recordings on a phone" in ran.err


@pytest.mark.slow
def test_a_program_is_ended_after_its_time(perf: Path, devkit: Cli, workdir: Path) -> None:
    ran = devkit("profile", "--host", build(workdir), "--seconds", "1", "--json", "--", "60")
    assert ran.code == 0 and "exit code" not in ran.err
    assert 0 < ran.data["event"]["total"] < 30e9


@pytest.mark.slow
def test_an_engines_program_is_built_for_this_machine(perf: Path, devkit: Cli, workdir: Path) -> None:
    source = workdir / "engine 引擎"
    source.mkdir()
    (source / "hot.c").write_text(SOURCE.read_text())
    (source / "call.c").write_text(
        "int go(int, char **);\nint main(int n, char **v) { return go(n, v) + 0; }\n"
    )
    (source / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(hot C)\n"
        "add_link_options(-Wl,--build-id)\nadd_compile_options(-fno-optimize-sibling-calls)\n"
        "add_library(work SHARED hot.c)\nadd_executable(hot call.c)\n"
        "target_compile_definitions(work PRIVATE _GNU_SOURCE main=go)\n"
        "find_package(Threads REQUIRED)\ntarget_link_libraries(work Threads::Threads)\n"
        "target_link_libraries(hot work)\n"
    )
    (source / "devkit.yaml").write_text("engine: cmake\napps:\n  hot: {args: ['1', here]}\n")
    ran = devkit("profile", "--host", "hot", "--json", cwd=source)
    data = ran.data
    functions = {row["function"]: row["self_share"] for row in data["functions"]}
    assert functions["sixty"] == pytest.approx(0.6, abs=0.07)
    # No sample lies in the program itself, which only calls the library: its lines are proved all the same.
    assert next(row["line"] for row in data["functions"] if row["function"] == "main") == 2
    assert not [note for note in data["notes"] if "build-id" in note]
    assert "profile" in data["command"][0] and data["command"][1:] == ["1", "here"]
    ran = devkit("profile", "--host", "cold", cwd=source)
    assert ran.code == 2 and "no program cold" in ran.err and "hot" in ran.err
