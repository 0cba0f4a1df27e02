"""Spread and comparison: against scipy's numbers, and against what chance does."""

from __future__ import annotations

import itertools
import math
import random
import statistics

import pytest

from devkit.bench.statistics import holm, least_p, mann_whitney, median_interval, ratio_interval, summarize


# The last column is scipy.stats.mannwhitneyu of scipy 1.16 (exact, or asymptotic with ties).
@pytest.mark.parametrize(
    ("first", "second", "p"),
    [
        ([1, 2, 3, 4, 5], [6, 7, 8, 9, 10], 0.007936507936507936),
        ([1.1, 2.5, 3.7, 9.2], [2.2, 4.4, 5.5, 6.6, 8.8, 7.7], 0.47619047619047616),
        ([1, 2, 2, 3, 4, 4], [2, 4, 5, 5, 6, 6, 7], 0.02474611313548187),
        ([12.1, 11.9, 12.4, 12.0, 12.2], [12.3, 12.6, 12.5, 12.8, 12.35], 0.031746031746031744),
        ([5, 5, 5], [5, 5, 5], 1.0),
    ],
)
def test_mann_whitney_agrees_with_scipy(first: list[float], second: list[float], p: float) -> None:
    assert mann_whitney(first, second) == pytest.approx(p, rel=1e-9)
    assert mann_whitney(second, first) == pytest.approx(p, rel=1e-9)


def test_mann_whitney_of_larger_samples() -> None:
    chance = random.Random(1)
    first = [chance.gauss(0, 1) for _ in range(30)]
    second = [chance.gauss(0.6, 1) for _ in range(25)]
    assert mann_whitney(first, second) == pytest.approx(0.026232278429547208, rel=1e-9)


def test_the_exact_p_is_the_share_of_all_orders() -> None:
    # Counted out: of all ways to split seven ranks into 3 and 4, those at least as extreme.
    ranks = range(7)
    first = (0, 1, 4)
    u = {
        split: sum(1 for a in split for b in set(ranks) - set(split) if a > b)
        for split in itertools.combinations(ranks, 3)
    }
    far = min(u[first], 12 - u[first])
    share = sum(1 for value in u.values() if min(value, 12 - value) <= far) / len(u)
    assert mann_whitney(first, sorted(set(ranks) - set(first))) == pytest.approx(share)


def test_equal_programs_are_called_different_rarely() -> None:
    chance = random.Random(7)

    def sample() -> list[float]:
        return [100 * math.exp(chance.gauss(0, 0.05)) for _ in range(7)]

    alarms = sum(mann_whitney(sample(), sample()) < 0.05 for _ in range(1000))
    assert 10 < alarms <= 65


def test_a_real_difference_is_found() -> None:
    chance = random.Random(7)
    found = sum(
        mann_whitney([chance.gauss(100, 2) for _ in range(8)], [chance.gauss(105, 2) for _ in range(8)])
        < 0.05
        for _ in range(200)
    )
    assert found > 180


def test_what_too_few_runs_can_show() -> None:
    assert least_p(3, 3) == pytest.approx(0.1) and mann_whitney([1, 2, 3], [7, 8, 9]) == pytest.approx(0.1)
    assert least_p(4, 4) < 0.05
    assert (mann_whitney([], [1.0]), least_p(0, 5)) == (1.0, 1.0)


def test_holm() -> None:
    # As statsmodels' multipletests(method="holm").
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == [1.0, 1.0]


def test_intervals_hold_the_median_as_often_as_they_say() -> None:
    chance = random.Random(3)
    held = 0
    for _ in range(200):
        low, high = median_interval([chance.gauss(50, 5) for _ in range(15)])
        held += low <= 50 <= high
    assert held >= 180


def test_intervals_of_few_values_are_their_range() -> None:
    assert median_interval([3.0, 1.0, 2.0]) == (1.0, 3.0)
    assert median_interval([5.0]) == (5.0, 5.0)


def test_ratio_interval() -> None:
    low, high = ratio_interval([100, 101, 99, 100, 102, 98], [110, 111, 109, 110, 112, 108])
    assert low < 1.1 < high and low > 1.05 and high < 1.15
    assert all(math.isnan(value) for value in ratio_interval([0.0, 1.0], [1.0, 2.0]))


def test_summary() -> None:
    values = [3.0, 1.0, 2.0, 10.0, 2.5, 2.2, 2.4]
    found = summarize(values)
    assert (found.count, found.median, found.least, found.most) == (7, 2.4, 1.0, 10.0)
    assert found.deviation == pytest.approx(statistics.stdev(values))
    assert found.low <= found.median <= found.high
    assert summarize([4.0]).deviation == 0.0
    assert summarize(values) == found  # the same numbers, the same interval
