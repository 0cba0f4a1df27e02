"""`devkit bench` on the virtual phone: real programs, real runs, a slower program that must be found out."""

from __future__ import annotations

import csv
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Cli, Sim, eventually, left_on_phone, start_sim

SOURCE = r"""
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv) {
  int ms = argc > 1 ? atoi(argv[1]) : 0;
  const char *mode = argc > 2 ? argv[2] : "";
  if (!strcmp(mode, "crash")) abort();
  if (!strcmp(mode, "hang")) { for (;;) pause(); }
  if (!strcmp(mode, "stdin")) { int c = getchar(); printf("read %d\n", c); return c == EOF ? 0 : 3; }
  if (!strcmp(mode, "where")) {
    char here[4096];
    cpu_set_t cpus;
    sched_getaffinity(0, sizeof cpus, &cpus);
    if (getcwd(here, sizeof here)) printf("%zu letters: %s\n", strlen(here), here);
    printf("on %d\n", CPU_COUNT(&cpus));
  }
  usleep(ms * 1000);
  printf(" decode speed = %.2f tok/s\n", 1000.0 / (ms + 1));
  fprintf(stderr, "took %d ms\n", ms);
  return 0;
}
"""
QUICK = ("--warmup", "0", "--cooldown", "0")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("工作 work")
    (folder / "work.c").write_text(SOURCE)
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler, "script/test installs a compiler"
    subprocess.run([compiler, str(folder / "work.c"), "-o", str(folder / "work")], check=True)
    return folder / "work"


def test_a_matrix_with_numbers_of_the_output(
    sim: Sim, device: Device, work: Path, workdir: Path, devkit: Cli
) -> None:
    ran = devkit(
        "bench", work, *QUICK, "--threads", "10,60", "--repeat", "3", "--json",
        "--metric", r"decode speed = (?P<decode>[\d.]+)", "--metric", r"took (?P<took>\d+)",
        "--csv", "numbers.csv", "--html", "图 chart.html", "--", "{threads}",
    )  # fmt: skip
    assert ran.code == 0, ran.err
    rows = {(row["cell"]["threads"], row["metric"]): row for row in ran.data["summary"]}
    assert {metric for _, metric in rows} == {"wall time", "decode", "took"}
    assert (rows["60", "took"]["median"], rows["60", "took"]["unit"]) == (60, "ms")
    assert rows["10", "decode"]["unit"] == "tok/s" and rows["10", "decode"]["n"] == 3
    # Measured on the phone: a little more than the program sleeps, and far less than a second's link.
    assert 0.06 <= rows["60", "wall time"]["min"] < 0.06 + 2.0
    assert rows["10", "wall time"]["min"] < rows["60", "wall time"]["min"]
    # In rounds: no cell has all its runs in a row.
    order = [sample["cell"]["threads"] for sample in ran.data["samples"]]
    assert order == ["10", "60"] * 3
    assert ran.data["phone"]["model"] == device.model
    with (workdir / "numbers.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == 2 * 3 * 3
    assert "<svg" in (workdir / "图 chart.html").read_text(encoding="utf-8")
    assert Path(ran.data["file"]).is_file()


def test_history_and_comparison(sim: Sim, work: Path, devkit: Cli) -> None:
    base = ("bench", work, *QUICK, "--repeat", "5", "--prompt", "x")
    first = devkit(*base, "--json", "--", "20", "{prompt}").data
    slower = devkit(*base, "--compare", "last", "--", "90", "{prompt}")
    assert slower.code == 1, slower.out
    assert f"compared with {first['id']}:" in slower.out
    [line] = [row for row in slower.out.splitlines() if "worse" in row]
    assert "wall time" in line and "+" in line

    listed = devkit("bench", "--list", "--json").data
    assert [row["app"] for row in listed] == [str(work)] * 2 and listed[0]["id"] == first["id"]
    shown = devkit("bench", "--show", "last", "--compare", first["id"], "--json")
    assert shown.code == 1
    [compared] = shown.data["comparisons"]
    assert compared["verdict"] == "worse" and compared["p"] < 0.05 and compared["ratio_low"] > 1
    back = devkit("bench", "--show", first["id"], "--compare", listed[1]["id"], "--json")
    assert (back.code, back.data["comparisons"][0]["verdict"]) == (0, "better")


def test_a_dry_run_needs_no_phone_and_changes_nothing(work: Path, devkit: Cli) -> None:
    ran = devkit("bench", work, "--threads", "1,4", "--cooldown", "3", "--dry-run", "--", "-t", "{threads}")
    assert ran.code == 0
    assert ran.out.splitlines()[:3] == [
        "as is, 1 thread: work -t 1",
        "as is, 4 threads: work -t 4",
        "2 combinations × (1 + 5) runs",
    ]
    assert "about 36 s with pauses, plus 2 combinations that never ran" in ran.out
    assert devkit("bench", "--list", "--json").data == []
    ran = devkit("bench", work, "--taskset", "bog", "--dry-run")
    assert ran.code == 2 and "'bog' names no processors" in ran.err
    ran = devkit("bench", "wrok", "--dry-run")
    assert ran.code == 2 and "there is no app or program named wrok" in ran.err


def test_an_app_that_an_engine_does_not_make(devkit: Cli, workdir: Path) -> None:
    (workdir / "CMakeLists.txt").write_text("project(x)\nadd_executable(measure.out measure.cpp)\n")
    assert devkit("bench", "measure.out", "--dry-run").code == 0
    ran = devkit("bench", "measured", "--dry-run")
    assert ran.code == 2 and "there is no app or program named measured" in ran.err


def test_files_that_cannot_be_written_are_refused_before_measuring(
    work: Path, devkit: Cli, workdir: Path
) -> None:
    for flag, place, why in (
        ("--html", workdir / "no/chart.html", "there is no folder"),
        ("--csv", workdir, "is a folder"),
    ):
        ran = devkit("bench", work, *QUICK, flag, place)
        assert ran.code == 2 and f"{flag} {place}" in ran.err and why in ran.err
    assert not (workdir / "no").exists() and devkit("bench", "--list", "--json").data == []


def test_runs_that_fail_do_not_count(sim: Sim, work: Path, devkit: Cli) -> None:
    ran = devkit(
        "bench", work, *QUICK, "--repeat", "3", "--prompt", "ok,crash", "--json", "--", "1", "{prompt}"
    )
    assert ran.code == 1
    counted = {row["cell"]["prompt"]: row["n"] for row in ran.data["summary"]}
    assert counted == {"ok": 3}
    failed = [sample for sample in ran.data["samples"] if sample["failure"]]
    # Not tried a third time.
    assert [sample["exit_code"] for sample in failed] == [134, 134]
    assert "SIGABRT" in failed[0]["failure"]


def test_a_metric_that_is_not_there_is_a_failure(sim: Sim, work: Path, devkit: Cli) -> None:
    ran = devkit("bench", work, *QUICK, "--repeat", "1", "--metric", r"absent (\d+)", "--", "1")
    assert ran.code == 1 and "nothing in the output matches absent" in ran.err


def test_a_program_that_never_ends(sim: Sim, device: Device, work: Path, devkit: Cli) -> None:
    ran = devkit("bench", work, *QUICK, "--repeat", "1", "--timeout", "1", "--json", "--", "1", "hang")
    assert ran.code == 1 and "--timeout" in ran.data["samples"][0]["failure"]
    assert eventually(lambda: left_on_phone(device, "work") == [])


def test_programs_see_the_end_of_their_input(sim: Sim, work: Path, devkit: Cli) -> None:
    ran = devkit(
        "bench", work, *QUICK, "--repeat", "1", "--metric", "read (?P<eof>-1)", "--json", "--", "1", "stdin"
    )
    assert (ran.code, ran.data["samples"][0]["exit_code"]) == (0, 0)


def test_ctrl_c_leaves_nothing_running(sim: Sim, device: Device, work: Path, workdir: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "bench", str(work), *QUICK, "--", "1", "hang"],
        cwd=workdir, env=os.environ.copy(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    assert eventually(lambda: left_on_phone(device, "/work ") != [])
    time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    assert eventually(lambda: left_on_phone(device, "/work ") == [])
    for pipe in (process.stdout, process.stderr):
        assert pipe is not None
        pipe.close()


def test_what_was_measured_before_the_phone_went_away_is_kept(
    tmp_path: Path, adb: Path, work: Path, workdir: Path, devkit: Cli
) -> None:
    sim = start_sim("leaving", tmp_path / "state", adb)
    environment = {**os.environ, "XDG_STATE_HOME": str(sim.state_home)}
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "bench", str(work), "-s", "sim:leaving", *QUICK,
         "--prompt", "ok,hang", "--", "1", "{prompt}"],
        cwd=workdir, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        # The first run is done when the second one hangs.
        assert eventually(lambda: left_on_phone(sim.device(), "hang") != [])
    finally:
        sim.phone.stop()
    _, said = process.communicate(timeout=60)
    assert process.returncode == 125 and "1 runs until then are kept" in said
    [row] = devkit("bench", "--list", "--json", XDG_STATE_HOME=str(sim.state_home)).data
    assert row["runs"] == 1


def test_profiles_of_a_finished_program(work: Path, devkit: Cli) -> None:
    ran = devkit("bench", work, "--profile", "cpu,opencl")
    assert ran.code == 2 and "profiles make no difference" in ran.err


def test_a_matrix_that_the_program_is_not_told(work: Path, devkit: Cli) -> None:
    ran = devkit("bench", work, "--threads", "1,4")
    assert ran.code == 2 and "{threads}" in ran.err


@pytest.mark.slow
def test_one_program_has_one_history_from_wherever_it_is_started(sim: Sim, work: Path, devkit: Cli) -> None:
    assert devkit("bench", work, *QUICK, "--repeat", "1", "--", "1").code == 0
    assert devkit("bench", "./work", *QUICK, "--repeat", "1", "--", "1", cwd=work.parent).code == 0
    [elsewhere] = devkit("bench", "--list", "--json", cwd=work.parent).data
    [here] = devkit("bench", "--list", "--json").data
    assert here["app"] == elsewhere["app"] == str(work) and here["id"].endswith("-work")


def test_a_phones_heat_and_clocks_are_kept(tmp_path: Path, adb: Path, work: Path, devkit: Cli) -> None:
    sim = start_sim("warm", tmp_path / "state", adb, model="sm8550")
    try:
        ran = devkit(
            "bench", work, *QUICK, "--repeat", "2", "-s", "sim:warm", "--max-c", "90", "--json", "--", "1",
            XDG_STATE_HOME=str(sim.state_home),
        )  # fmt: skip
        assert ran.code == 0, ran.err
        for sample in ran.data["samples"]:
            for state in (sample["before"], sample["after"]):
                assert 20 < state["hottest_c"] < 90 and state["zones_c"]
                assert all(100_000 < clock < 4_000_000 for clock in state["clocks_khz"].values())
                assert state["clocks_khz"]
        assert ran.data["phone"]["chip"] == "SM8550"
    finally:
        sim.phone.stop()


def test_the_phone_is_looked_at_in_one_round_trip(device: Device) -> None:
    from devkit.bench.phone_state import read_state

    assert device.model
    before = device.round_trips
    read_state(device)
    assert device.round_trips - before == 1


@pytest.mark.slow
def test_folder_and_processors_are_those_of_a_run(
    tmp_path: Path, adb: Path, work: Path, workdir: Path, devkit: Cli
) -> None:
    chip = start_sim("chip", tmp_path, adb, model="sm8750")
    (workdir / "devkit.yaml").write_text(
        f"apps:\n  work:\n    target: '{work}'\n    cwd: /data/local/tmp\n    args: ['0', where]\n"
        "bench: {work: {taskset: prime}}\n"
    )
    place = ("--metric", r"(?P<length>\d+) letters: /data/local/tmp\n", "--metric", r"on (?P<cpus>\d+)")
    try:
        base = ("bench", "work", "-s", "sim:chip", *QUICK, "--repeat", "1", "--json", *place)
        where = {"XDG_STATE_HOME": str(chip.state_home)}
        few, every = devkit(*base, **where), devkit(*base, "--taskset", "all", "--compare", "last", **where)
    finally:
        chip.phone.stop()
    assert (few.code, every.code) == (0, 0), few.err + every.err
    counts = [{row["metric"]: row["median"] for row in ran.data["summary"]}["cpus"] for ran in (few, every)]
    assert few.data["settings"]["taskset"] == "prime" and "--taskset differs: prime before" in every.err
    assert counts[0] < counts[1] or len(os.sched_getaffinity(0)) == 1
