"""Runs a benchmark: every cell, in rounds, with the phone looked at before and after each run."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from devkit import output
from devkit.bench.measure import Outcome, run_once
from devkit.bench.metrics import WALL, Metric, Reader
from devkit.bench.phone_state import PhoneState, cool_down, read_state
from devkit.bench.record import Run, Sample
from devkit.bench.spec import Cell, Spec
from devkit.runtime import signal_name
from devkit.runtime.request import mask_for

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.runtime import PreparedApp

_TAIL_LINES = 5


@dataclass(frozen=True)
class Estimate:
    """How long a benchmark will take, from the last run of the same cells.

    Attributes:
        seconds: runs and pauses; of cells that never ran only the pauses.
        unknown: cells that never ran.
    """

    seconds: float
    unknown: int


def estimate(spec: Spec, last: Run | None) -> Estimate:
    """The time that the matrix will take."""
    seconds, unknown = 0.0, 0
    runs = spec.repeat + spec.warmup
    for cell in spec.cells():
        walls = last.values(cell, WALL) if last is not None else []
        unknown += not walls
        seconds += runs * (spec.cooldown_s + (sum(walls) / len(walls) if walls else 0.0))
    return Estimate(seconds, unknown)


def run_cells(
    device: Device,
    prepared: PreparedApp,
    spec: Spec,
    cells: Sequence[Cell],
    reader: Reader,
    *,
    samples: list[Sample],
    advance: Callable[[float], None] = lambda count: None,
) -> None:
    """Run the cells of one profile, which is deployed.

    In rounds (each cell once, then each again): what drifts meanwhile, like heat, meets all cells alike.
    A cell that fails twice in a row is not tried again.

    Args:
        samples: gets each run as soon as it is done, so that those before a broken link are not lost.

    Raises:
        UsageError: `taskset` names no processors of this phone.
        DeviceError: the phone went away.
    """
    cpu_mask = mask_for(device, spec.taskset) if spec.taskset is not None else ""
    failed_in_a_row = dict.fromkeys(cells, 0)
    for round_number in range(spec.warmup + spec.repeat):
        warm = round_number < spec.warmup
        for cell in cells:
            if failed_in_a_row[cell] >= 2:
                continue
            before = cool_down(
                device, pause_s=spec.cooldown_s, max_c=spec.max_c, limit_s=spec.cooldown_limit_s
            )
            launch = replace(prepared.launch(spec.arguments(cell, prepared.plan.program)), cpu_mask=cpu_mask)
            outcome = run_once(device, launch, timeout_s=spec.timeout_s)
            sample = _sample(cell, len(samples) + 1, outcome, reader, before, read_state(device))
            failed_in_a_row[cell] = failed_in_a_row[cell] + 1 if sample.failure else 0
            if sample.failure:
                output.current().warn(f"{cell.label}: {sample.failure}")
            if not warm or sample.failure:
                samples.append(sample)
            advance(1)


def started_now() -> tuple[str, str]:
    """The time for a run's record, and the stamp for its id."""
    now = time.localtime()
    return time.strftime("%Y-%m-%dT%H:%M:%S%z", now), time.strftime("%Y%m%d-%H%M%S", now)


def _sample(
    cell: Cell, number: int, outcome: Outcome, reader: Reader, before: PhoneState, after: PhoneState
) -> Sample:
    metrics: tuple[Metric, ...] = ()
    if outcome.wall_s is not None:
        metrics = (Metric(WALL, outcome.wall_s, "s"),)
    failure = _failure(outcome)
    if failure is None:
        reading = reader(outcome.text, outcome.exit_code)
        metrics += reading.metrics
        failure = reading.problem
        if outcome.wall_s is None and not reading.metrics:
            failure = failure or "the phone did not tell how long it took"
    return Sample(cell, number, metrics, outcome.exit_code, failure, before.as_dict(), after.as_dict())


def _failure(outcome: Outcome) -> str | None:
    if outcome.timed_out:
        return "it was still running after the time it had (--timeout); a chat that waits for input?"
    if outcome.exit_code == 0:
        return None
    signal = signal_name(outcome.exit_code)
    how = f"{signal} ended it" if signal else f"exit code {outcome.exit_code}"
    tail = " / ".join(line.strip() for line in outcome.text.strip().splitlines()[-_TAIL_LINES:])
    return f"{how}: {tail}" if tail else how
