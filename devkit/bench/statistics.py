"""Spread and comparison of small samples, in plain Python.

Times of programs are skewed and have outliers: medians, ranks and resampling, no bell curves.
"""

from __future__ import annotations

import math
import random
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

ALPHA = 0.05
_RESAMPLES = 2000
_EXACT_BELOW = 20
# Fixed, so that the same numbers give the same interval.
_SEED = 20261130


@dataclass(frozen=True)
class Summary:
    """The spread of one metric in one cell. `low` to `high` holds the median with 95 % (bootstrap)."""

    count: int
    median: float
    least: float
    most: float
    mean: float
    deviation: float
    low: float
    high: float

    def as_dict(self) -> dict[str, float]:
        """The summary as JSON."""
        return {
            "n": self.count,
            "median": self.median,
            "min": self.least,
            "max": self.most,
            "mean": self.mean,
            "stdev": self.deviation,
            "ci_low": self.low,
            "ci_high": self.high,
        }


def summarize(values: Sequence[float]) -> Summary:
    """The spread of at least one value."""
    low, high = median_interval(values)
    return Summary(
        len(values),
        statistics.median(values),
        min(values),
        max(values),
        statistics.fmean(values),
        statistics.stdev(values) if len(values) > 1 else 0.0,
        low,
        high,
    )


def median_interval(values: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of the median by bootstrap percentiles. Of few values it is the whole range."""
    if len(values) < 6:
        # Below six values no interval between two of them reaches 95 %: 1 - 2 * 0.5 ** 5 = 0.94.
        return min(values), max(values)
    chance = random.Random(_SEED)
    medians = sorted(statistics.median(chance.choices(values, k=len(values))) for _ in range(_RESAMPLES))
    return _percentile(medians, ALPHA / 2), _percentile(medians, 1 - ALPHA / 2)


def ratio_interval(before: Sequence[float], after: Sequence[float]) -> tuple[float, float]:
    """A 95 % interval of median(after) / median(before) by bootstrap; (nan, nan) where before may be 0."""
    if min(before) <= 0:
        return math.nan, math.nan
    chance = random.Random(_SEED)
    ratios = sorted(
        statistics.median(chance.choices(after, k=len(after)))
        / statistics.median(chance.choices(before, k=len(before)))
        for _ in range(_RESAMPLES)
    )
    return _percentile(ratios, ALPHA / 2), _percentile(ratios, 1 - ALPHA / 2)


def mann_whitney(first: Sequence[float], second: Sequence[float]) -> float:
    """The two-sided p value that both samples are of one distribution (Mann-Whitney U).

    Exact for small samples without ties, else the normal approximation with correction for ties and
    continuity.
    """
    n, m = len(first), len(second)
    if not n or not m:
        return 1.0
    ranks = _ranks([*first, *second])
    u = sum(ranks[:n]) - n * (n + 1) / 2
    ties = [count for count in Counter([*first, *second]).values() if count > 1]
    if not ties and n <= _EXACT_BELOW and m <= _EXACT_BELOW:
        counts = _u_counts(n, m)
        small = min(u, n * m - u)
        return min(1.0, 2 * sum(counts[: int(small) + 1]) / math.comb(n + m, n))
    total = n + m
    variance = n * m / 12 * (total + 1 - sum(t**3 - t for t in ties) / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    z = max(0.0, abs(u - n * m / 2) - 0.5) / math.sqrt(variance)
    return math.erfc(z / math.sqrt(2))


def least_p(n: int, m: int) -> float:
    """The smallest p that samples of these sizes can give: below it nothing can ever be significant."""
    return min(1.0, 2 / math.comb(n + m, n)) if n and m else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """The p values adjusted for their number (Holm): of 20 comparisons one would be below 0.05 by chance."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted = [1.0] * len(p_values)
    highest = 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, p_values[index] * (len(p_values) - rank)))
        adjusted[index] = highest
    return adjusted


def _u_counts(n: int, m: int) -> list[int]:
    """How many orders of n and m values have each U: the coefficients of the Gaussian binomial."""
    counts = [1] + [0] * (n * m)
    for i in range(1, n + 1):
        # Times (1 - x^(m+i)), divided by (1 - x^i).
        for u in range(n * m, m + i - 1, -1):
            counts[u] -= counts[u - m - i]
        for u in range(i, n * m + 1):
            counts[u] += counts[u - i]
    return counts


def _ranks(values: Sequence[float]) -> list[float]:
    order = sorted(range(len(values)), key=lambda index: values[index])
    ranks = [0.0] * len(values)
    at = 0
    while at < len(order):
        end = at
        while end + 1 < len(order) and values[order[end + 1]] == values[order[at]]:
            end += 1
        for index in order[at : end + 1]:
            ranks[index] = (at + end) / 2 + 1
        at = end + 1
    return ranks


def _percentile(ordered: Sequence[float], share: float) -> float:
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (place - below)
