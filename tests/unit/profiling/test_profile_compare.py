"""Two profiles compared: what has changed, what may be chance."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.profiling import Meta, Profile, ProfileBuilder, save_profile
from devkit.profiling.compare import LESS, MORE, NOISE, chance_spread, change_table, compare_profiles
from devkit.profiling.flamegraph import render_comparison
from tests.support.profiles import profiles


def sampled(
    shares: dict[str, float], count: int, seed: int, *, folder: str = "/a", unit: str = "ns"
) -> Profile:
    """Samples drawn at random, as a recorder does it."""
    chance = random.Random(seed)
    builder = ProfileBuilder()
    builder.event("cpu-clock", unit)
    library, thread = builder.module(f"{folder}/libMNN.so", folder), builder.thread(seed, seed, "worker")
    main = builder.frame("main", builder.module(f"{folder}/app"))
    for name in chance.choices(list(shares), list(shares.values()), k=count):
        builder.sample(builder.stack([main, builder.frame(name, library, line=seed)]), thread, 1000)
    return builder.finish(Meta())


def test_a_function_that_grew_and_one_that_shrank_are_named() -> None:
    before = sampled({"gemm": 50, "norm": 30, "rope": 20}, 20_000, 1)
    after = sampled({"gemm": 40, "norm": 40, "rope": 20}, 10_000, 2, folder="/b")
    compared = compare_profiles(before, after)
    verdicts = {change.name: change.verdict for change in compared.changes}
    assert verdicts == {"gemm": LESS, "norm": MORE, "rope": NOISE, "main": NOISE}
    assert compared.counts == (20_000, 10_000) and not compared.notes
    gemm = next(change for change in compared.changes if change.name == "gemm")
    assert gemm.own_before == pytest.approx(0.5, abs=0.02) and gemm.library == "libMNN.so"
    lines = change_table(compared.changes).splitlines()
    assert lines[-1].split()[-2] == "rope" and "noise" in lines[-1]
    # Both trees are one: the same function of the same library is one node.
    assert len(compared.joined.stack_parent) == 7


def test_few_samples_are_said_to_be_few() -> None:
    before, after = sampled({"a": 1, "b": 1}, 60, 3), sampled({"a": 1, "b": 1}, 60, 4, unit="cycles")
    compared = compare_profiles(before, after)
    assert {change.verdict for change in compared.changes} == {NOISE}
    assert "Only 60 and 60 samples" in compared.notes[0]
    assert "cycles" in compared.notes[1]


def test_the_same_program_twice_is_noise_nearly_always() -> None:
    shares = {f"f{number}": 1.0 / number for number in range(1, 101)}
    wrong = 0
    for seed in range(20):
        before, after = sampled(shares, 3000, 100 + seed), sampled(shares, 3000, 200 + seed)
        wrong += sum(change.verdict != NOISE for change in compare_profiles(before, after).changes)
    # 2,020 comparisons at p = 0.001.
    assert wrong <= 10


@settings(max_examples=20, deadline=None)
@given(profiles(), profiles())
def test_any_two_profiles_can_be_compared(before: Profile, after: Profile) -> None:
    compared = compare_profiles(before, after)
    for side, profile in enumerate((before, after)):
        assert compared.weights[side] == profile.total(0)
        total = sum((c.own_before, c.own_after)[side] for c in compared.changes)
        assert total == pytest.approx(1.0 if profile.total(0) else 0.0)
    page = render_comparison(compared.joined, compared.counts, title="a", about=[], notes=compared.notes)
    assert page.count("</script>") == 2


@settings(deadline=None)
@given(st.floats(0, 1), st.floats(0, 1), st.integers(0, 10**6), st.integers(0, 10**6))
def test_the_spread_is_a_share_and_shrinks_with_samples(a: float, b: float, n: int, m: int) -> None:
    assert chance_spread(a, b, n, m) >= 0.0
    assert chance_spread(a, a, 4 * n + 4, 4 * m + 4) <= chance_spread(a, a, n + 1, m + 1)


def test_the_command_compares_two_files(tmp_path: Path) -> None:
    for name, profile in (
        ("before 前", sampled({"gemm": 50, "norm": 50}, 5000, 1)),
        ("after", sampled({"gemm": 30, "norm": 70}, 5000, 2)),
    ):
        save_profile(profile, tmp_path / name)
    done = subprocess.run(
        [
            sys.executable, "-m", "devkit", "profile", "--compare", "before 前", "after",
            "--html", "d.html", "--json",
        ],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, env=os.environ.copy(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert {c["function"]: c["verdict"] for c in data["changes"] if c["function"] != "main"} == {
        "gemm": "less", "norm": "more",
    }  # fmt: skip
    assert "<canvas" in (tmp_path / "d.html").read_text()
