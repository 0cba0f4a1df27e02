"""Functions of a profile with what they cost: themselves, and with all they call."""

from __future__ import annotations

from array import array
from dataclasses import dataclass

from devkit.profiling.model import INDEX, NONE, NUMBER
from devkit.profiling.tree import Merged


@dataclass(frozen=True)
class FunctionRow:
    """What one function costs in one event.

    Attributes:
        module: path; "" where it is in none.
        own: weight of samples in the function itself.
        total: weight of samples with the function anywhere in their stack, each counted once.
        file, line: where most of its own weight is (of its calls, when it has none); "" and 0: unknown.
    """

    name: str
    module: str
    own: int
    total: int
    file: str
    line: int

    @property
    def library(self) -> str:
        """The module's name without its folders."""
        return self.module.rpartition("/")[2]


def function_rows(merged: Merged, event: int = 0) -> list[FunctionRow]:
    """All functions with any weight in an event, the one with the most own weight first."""
    own = array(NUMBER, bytes(8 * len(merged.functions)))
    for node, function in enumerate(merged.function):
        if function >= 0:
            own[function] += merged.own[event][node]
    totals = _totals(merged, event)
    frames = _heaviest_frames(merged, event)
    rows = []
    for index, (name, module) in enumerate(merged.functions):
        if not totals[index]:
            continue
        frame = merged.profile.frames[frames[index]] if index in frames else None
        rows.append(
            FunctionRow(
                name,
                merged.profile.modules[module].path if module >= 0 else "",
                own[index],
                totals[index],
                frame.file if frame else "",
                frame.line if frame else 0,
            )
        )
    return sorted(rows, key=lambda row: (-row.own, -row.total, row.name, row.module))


def _totals(merged: Merged, event: int) -> array[int]:
    """Of each function; what it calls through itself is not counted again."""
    first, after = _children(merged.parent)
    sums = merged.sums[event]
    totals = array(NUMBER, bytes(8 * len(merged.functions)))
    on_path = array(INDEX, bytes(4 * len(merged.functions)))
    todo = [0]
    while todo:
        node = todo.pop()
        if node < 0:
            on_path[merged.function[~node]] -= 1
            continue
        function = merged.function[node]
        if function >= 0:
            if not on_path[function]:
                totals[function] += sums[node]
            on_path[function] += 1
            todo.append(~node)
        child = first[node]
        while child >= 0:
            if sums[child]:
                todo.append(child)
            child = after[child]
    return totals


def _children(parent: array[int]) -> tuple[array[int], array[int]]:
    """(first child of each node, the next sibling of each node); NONE where there is none."""
    first, after = array(INDEX, [NONE]) * len(parent), array(INDEX, [NONE]) * len(parent)
    for node in range(len(parent) - 1, 0, -1):
        above = parent[node]
        after[node] = first[above]
        first[above] = node
    return first, after


def _heaviest_frames(merged: Merged, event: int) -> dict[int, int]:
    """The frame of each function with the most own weight, or where it has none, the most of its calls."""
    profile = merged.profile
    own = array(NUMBER, bytes(8 * len(profile.stack_parent)))
    for stack, _, kind, weight in merged.weights.rows():
        if kind == event and stack >= 0:
            own[stack] += weight
    sums = array(NUMBER, own)
    for stack in range(len(sums) - 1, -1, -1):
        if profile.stack_parent[stack] >= 0:
            sums[profile.stack_parent[stack]] += sums[stack]
    own_of, sum_of = [0] * len(profile.frames), [0] * len(profile.frames)
    function_of: dict[int, int] = {}
    for stack, frame in enumerate(profile.stack_frame):
        own_of[frame] += own[stack]
        sum_of[frame] += sums[stack]
        function_of[frame] = merged.function[merged.node_of[stack]]
    best: dict[int, int] = {}
    for frame, function in function_of.items():
        known = best.get(function)
        if known is None or (own_of[frame], sum_of[frame]) > (own_of[known], sum_of[known]):
            best[function] = frame
    return best
