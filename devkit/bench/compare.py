"""Two benchmarks side by side: a real difference, or noise?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from devkit.bench.metrics import more_is_better
from devkit.bench.record import Run
from devkit.bench.spec import Cell
from devkit.bench.statistics import ALPHA, holm, least_p, mann_whitney, ratio_interval, summarize

BETTER, WORSE, NOISE, TOO_FEW = "better", "worse", "noise", "too few runs"


@dataclass(frozen=True)
class Comparison:
    """One metric of one cell, before and after.

    Attributes:
        ratio: median after / median before; `low` to `high` holds it with 95 % (NaN: no ratio).
        p: of Mann-Whitney, adjusted for the number of comparisons (Holm).
        verdict: BETTER or WORSE when p < 0.05; NOISE; TOO_FEW when so few runs cannot show anything.
    """

    cell: Cell
    name: str
    unit: str
    before: float
    after: float
    ratio: float
    low: float
    high: float
    p: float
    verdict: str

    def as_dict(self) -> dict[str, object]:
        """The comparison as JSON; numbers that are none are null."""

        def finite(value: float) -> float | None:
            return value if math.isfinite(value) else None

        return {
            "cell": self.cell.as_dict(),
            "metric": self.name,
            "unit": self.unit,
            "before": self.before,
            "after": self.after,
            "ratio": finite(self.ratio),
            "ratio_low": finite(self.low),
            "ratio_high": finite(self.high),
            "p": self.p,
            "verdict": self.verdict,
        }

    @property
    def text(self) -> str:
        """'+3.1 % (-0.2 … +6.0)', for tables."""
        if not math.isfinite(self.ratio):
            return "?"
        change, low, high = ((value - 1) * 100 for value in (self.ratio, self.low, self.high))
        return f"{change:+.1f} % ({low:+.1f} … {high:+.1f})"


def compare_runs(before: Run, after: Run) -> tuple[Comparison, ...]:
    """Compare what both runs measured: the same metric of the same cell."""
    found: list[Comparison] = []
    possible: list[bool] = []
    for cell in after.cells:
        for name, unit in after.names():
            old, new = before.values(cell, name), after.values(cell, name)
            if not old or not new or (name, unit) not in before.names():
                continue
            found.append(_compare(cell, name, unit, old, new))
            possible.append(least_p(len(old), len(new)) < ALPHA)
    # Comparisons that cannot become significant do not make the others harder to prove.
    judged = [comparison for comparison, fit in zip(found, possible, strict=True) if fit]
    adjusted = iter(holm([comparison.p for comparison in judged]))
    return tuple(
        _judge(comparison, next(adjusted)) if fit else replace(comparison, verdict=TOO_FEW)
        for comparison, fit in zip(found, possible, strict=True)
    )


def _compare(cell: Cell, name: str, unit: str, old: Sequence[float], new: Sequence[float]) -> Comparison:
    before, after = summarize(old).median, summarize(new).median
    ratio = after / before if before > 0 else math.nan
    low, high = ratio_interval(old, new)
    return Comparison(cell, name, unit, before, after, ratio, low, high, mann_whitney(old, new), NOISE)


def _judge(comparison: Comparison, p: float) -> Comparison:
    if p >= ALPHA or comparison.after == comparison.before:
        return replace(comparison, p=p)
    grew = comparison.after > comparison.before
    return replace(comparison, p=p, verdict=BETTER if grew == more_is_better(comparison.unit) else WORSE)
