"""The built-in parsers of programs' outputs (devkit.results) as a benchmark's reader."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from devkit.bench.metrics import Metric, Reader, Reading, regex_reader
from devkit.results import FAILED, Measurement, parse

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devkit.config import Config


def program_reader(config: Config, app: str, program: str, patterns: Sequence[str]) -> Reader:
    """The user's patterns when there are any, else the app's parser, else the one that knows the program.

    A number that comes several times (one for each model or test) is named after what tells it apart.
    """
    if patterns:
        return regex_reader(patterns)
    known = config.apps.get(app)
    wanted = known.results if known else None

    def read(text: str, exit_code: int) -> Reading:
        report = parse(
            text,
            wanted,
            program=program,
            exit_code=exit_code,
            custom=config.parsers,
            findings=config.findings,
        )
        # Not all that is measured is worth a comparison: each one more makes the others harder to prove.
        headline = [m for m in report.measurements if m.name in report.headline]
        metrics = tuple(
            Metric(name, measured.value, measured.unit)
            for name, measured in _named(headline or report.measurements)
            if measured.value is not None
        )
        cause = report.first_cause
        problem = (
            (cause.meaning if cause else "its output says that it failed")
            if report.status == FAILED
            else None
        )
        return Reading(metrics, problem)

    return read


def _named(measured: Sequence[Measurement]) -> list[tuple[str, Measurement]]:
    names = Counter(m.name for m in measured)
    varying = {key for m in measured for key in m.labels if len({o.labels.get(key) for o in measured}) > 1}
    return [
        (
            " ".join([m.name, *(v for k, v in m.labels.items() if k in varying)])
            if names[m.name] > 1
            else m.name,
            m,
        )
        for m in measured
    ]
