"""What an unchanged `devkit run` costs before the program starts, counted in round trips of 20 ms."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.sim import slow_phone
from tests.e2e.support import Cli, Sim, TinyApp, start_sim

MOST_ROUND_TRIPS = 4
ROUNDS, MOST_ROUNDS = 6, 20


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("far", tmp_path_factory.mktemp("far"), adb)
    with sim.phone:
        yield sim


def first_word_s(program: Path) -> float:
    """Seconds from the start of devkit to the program's first output."""
    started = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "run", str(program), "-s", "sim:far", "--", "args", "x"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == b"[x]\n"
    took = time.perf_counter() - started
    process.stdout.close()
    process.wait(30)
    return took


@pytest.mark.parametrize("round_trip_ms", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_an_unchanged_run_starts_after_few_round_trips(
    far: Sim, tiny: TinyApp, devkit: Cli, monkeypatch: pytest.MonkeyPatch, round_trip_ms: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(far.state_home))
    assert devkit("run", tiny.program, "-s", "sim:far", "--", "exit", "0").code == 0
    near: list[float] = []
    distant: list[float] = []
    trips = 0.0
    while len(near) < ROUNDS or (trips > MOST_ROUND_TRIPS and len(near) < MOST_ROUNDS):
        slow_phone("far", delay="0")
        near.append(first_word_s(tiny.program))
        slow_phone("far", delay=f"{round_trip_ms / 2:g}ms")
        distant.append(first_word_s(tiny.program))
        # The least of each: a busy machine only adds. The last half round trip is the output's own.
        trips = (min(distant) - min(near)) * 1000 / round_trip_ms - 0.5
    slow_phone("far", delay="0")
    assert trips <= MOST_ROUND_TRIPS, (near, distant)
    # There and back the command and its output travel in any case, or the link was not slow at all.
    assert trips >= 0.3 or round_trip_ms < 100, (near, distant)
    print(f"{trips:.2f} round trips of {round_trip_ms} ms")
