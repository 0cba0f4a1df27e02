"""Samples merged into a call tree, against the plainest way to do it; and what a page says of it."""

from __future__ import annotations

import base64
import json
import re
import zlib
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.profiling import Meta, Profile, ProfileBuilder
from devkit.profiling.export import speedscope
from devkit.profiling.flamegraph import render_page
from devkit.profiling.functions import function_rows
from devkit.profiling.report import as_folded, call_tree
from devkit.profiling.tree import NO_STACK, Function, Tree, build_tree, function_name, merge
from tests.support.profiles import profiles

Path = tuple[Function, ...]


def functions_of_sample(profile: Profile, stack: int) -> Path:
    if stack < 0:
        return (Function(NO_STACK, -1),)
    found = []
    for index in profile.frames_of(stack):
        frame = profile.frames[index]
        module = profile.modules[frame.module].path if frame.module >= 0 else ""
        found.append(Function(function_name(frame.function, module), frame.module))
    return tuple(found)


def paths_of(tree: Tree) -> list[Path]:
    paths: list[Path] = [()]
    for node in range(1, len(tree.parent)):
        above = paths[tree.parent[node]]
        paths.append((*above, tree.functions[tree.function[node]]) if tree.function[node] >= 0 else above)
    return paths


@settings(max_examples=25, deadline=None)
@given(profiles())
def test_a_tree_holds_every_sample_where_it_was(profile: Profile) -> None:
    expected: Counter[tuple[Path, int, int]] = Counter()
    columns = profile.sample_stack, profile.sample_thread, profile.sample_event, profile.sample_weight
    for stack, thread, event, weight in zip(*columns, strict=True):
        expected[functions_of_sample(profile, stack), thread, event] += weight
    tree = build_tree(profile, least_share=0)
    paths = paths_of(tree)
    found = {(paths[e.node], e.thread, e.event): e.weight for e in tree.entries}
    assert found == {key: weight for key, weight in expected.items() if weight}
    assert tree.least_share == 0.0


@settings(max_examples=25, deadline=None)
@given(profiles(), st.floats(0.01, 0.6), st.integers(1, 20))
def test_merging_small_nodes_loses_nothing(profile: Profile, share: float, most: int) -> None:
    whole, pruned = (
        build_tree(profile, least_share=0),
        build_tree(profile, least_share=share, most_nodes=most),
    )
    assert pruned.totals == whole.totals
    for index in range(len(profile.threads)):
        for event in range(len(profile.events)):
            sums = [
                sum(e.weight for e in tree.entries if (e.thread, e.event) == (index, event))
                for tree in (whole, pruned)
            ]
            assert sums[0] == sums[1]
    real = sum(1 for function in pruned.function if function >= 0) + 1
    assert real + sum(pruned.merged) == len(whole.parent)
    # What has its own node is at least as large as it must be, in one of the events.
    sums = [pruned.sums(event) for event in range(len(pruned.events))]
    for node, function in enumerate(pruned.function):
        if function >= 0:
            assert any(t and s[node] / t >= share for s, t in zip(sums, pruned.totals, strict=True))
    # Every parent comes before its children.
    assert all(parent < node for node, parent in enumerate(pruned.parent))


def test_the_heaviest_line_of_a_node_is_its_place() -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    thread, main = builder.thread(1, 1), builder.frame("main", file="/a.cpp", line=3)
    for line, weight in ((10, 5), (11, 7), (12, 1)):
        inner = builder.frame("work", file="/b.cpp", line=line, inlined=line == 11)
        builder.sample(builder.stack([main, inner]), thread, weight)
    tree = build_tree(builder.finish(Meta()))
    assert [tree.places[place] for place in tree.place if place >= 0] == [("/a.cpp", 3, 0), ("/b.cpp", 11, 1)]


@pytest.mark.parametrize(
    ("function", "module", "name"),
    [
        ("run", "/x/lib.so", "run"),
        ("", "/x/lib.so", "[lib.so]"),
        ("", "", "[unknown]"),
        ("", "[vdso]", "[vdso]"),
    ],
)
def test_frames_without_a_symbol_are_called_by_their_module(function: str, module: str, name: str) -> None:
    assert function_name(function, module) == name


def page_data(page: str) -> dict[str, Any]:
    match = re.search(r'id="data">([^<]*)<', page)
    assert match
    data: dict[str, Any] = json.loads(zlib.decompress(base64.b64decode(match[1])))
    return data


@settings(max_examples=15, deadline=None)
@given(profiles())
def test_a_page_holds_the_tree_and_nothing_of_the_profile_becomes_markup(profile: Profile) -> None:
    page = render_page(profile, title='<b>"x"</script>')
    data, tree = page_data(page), build_tree(profile)
    assert data["totals"] == tree.totals
    assert [sum(weights) for _, _, weights in data["entries"]] == tree.totals
    names = [tree.functions[f].name if f >= 0 else None for f in tree.function]
    assert names == [data["functions"][f][0] if f >= 0 else None for f in data["function"]]
    assert page.count("<script") == 2 and page.count("</script>") == 2
    assert "<b>" not in page
    # No network: nothing is loaded from anywhere.
    assert not re.search(r"https?://|src=|@import|url\(", page)


def test_a_page_says_what_it_merged() -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    thread = builder.thread(1, 1)
    builder.sample(builder.stack([builder.frame("heavy")]), thread, 1_000_000)
    for number in range(7):
        builder.sample(builder.stack([builder.frame(f"light {number}")]), thread, 2)
    page = render_page(builder.finish(Meta(notes=("no hardware counters: cpu-clock",))))
    assert "smaller&#34;: 7 of them" in page
    assert "no hardware counters: cpu-clock" in page


def test_a_recursion_that_ran_away_is_drawn_and_written() -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    frames = [builder.frame("descend"), builder.frame("ascend")]
    builder.sample(builder.stack(frames * 10_000), builder.thread(1, 1), 5)
    profile = builder.finish(Meta())
    merged = merge(profile)
    data = page_data(render_page(merged))
    assert len(data["parent"]) == 20_001 and sum(data["entries"][0][2]) == 5
    assert [(row.name, row.total) for row in function_rows(merged)] == [("ascend", 5), ("descend", 5)]
    assert len(call_tree(build_tree(merged)).splitlines()) == 42
    assert len(json.loads(speedscope(profile, "x"))["profiles"][0]["samples"][0]) == 20_000
    assert next(as_folded(merged)).count(";") == 19_999
