"""Samples merged into one call tree: what flame graphs, call trees and comparisons are made of.

A node is a function of a module, called through its parent; lines and addresses are merged. Nodes that hold
less than a small part of every event are put together, one a parent, so that nothing gets lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from devkit.profiling.model import INDEX, NONE, NUMBER, REAL, Event, Profile, Thread

# The part of an event below which a node is merged.
LEAST_SHARE = 1 / 10_000
# More nodes than this no page draws at ease, and no person reads.
MOST_NODES = 60_000

NO_STACK = "(no stack)"

_Number = TypeVar("_Number", int, float)


class Function(NamedTuple):
    """What the nodes of one parent differ by: a name as people read it, index in `Tree.modules` or NONE."""

    name: str
    module: int


class Place(NamedTuple):
    """A source line, and whether the function was inlined there."""

    file: str
    line: int
    inlined: bool


class Entry(NamedTuple):
    """The own weight of a node in a thread and an event."""

    node: int
    thread: int
    event: int
    weight: int


@dataclass(frozen=True)
class Tree:
    """A call tree; every parent comes before its children, and the first node is the root.

    Attributes:
        modules: paths.
        parent: of each node; NONE for the root.
        function: index in `functions`; NONE for the root and for nodes that stand for merged ones.
        place: index in `places`: the line with the most weight in the node; NONE where no line is known.
        merged: how many nodes this one stands for; 0 for real ones.
        entries: each combination of node, thread and event once, by node.
        totals: the weight of each event.
        least_share: the part of an event below which nodes were merged; 0 when none were.
    """

    functions: Sequence[Function]
    modules: Sequence[str]
    threads: Sequence[Thread]
    events: Sequence[Event]
    parent: array[int]
    function: array[int]
    place: array[int]
    merged: array[int]
    places: Sequence[Place]
    entries: Sequence[Entry]
    totals: Sequence[int]
    least_share: float

    def own(self, event: int) -> array[int]:
        """The own weight of each node in one event, all threads together."""
        weights = array(NUMBER, bytes(8 * len(self.parent)))
        for entry in self.entries:
            if entry.event == event:
                weights[entry.node] += entry.weight
        return weights

    def sums(self, event: int) -> array[int]:
        """The weight of each node with all below it."""
        return _summed(self.own(event), self.parent)


def function_name(function: str, module: str) -> str:
    """What a frame is called: without a symbol, its module in brackets."""
    if function:
        return function
    # [kernel.kallsyms] and [vdso] have their brackets already.
    return module if module.startswith("[") else f"[{module.rpartition('/')[2] or module or 'unknown'}]"


def functions_of(profile: Profile) -> tuple[list[Function], array[int]]:
    """The functions of a profile, and of each frame which one it is."""
    known: dict[Function, int] = {}
    of_frame = array(INDEX)
    for frame in profile.frames:
        path = profile.modules[frame.module].path if frame.module >= 0 else ""
        function = Function(function_name(frame.function, path), frame.module)
        of_frame.append(known.setdefault(function, len(known)))
    return list(known), of_frame


@dataclass(frozen=True)
class Weights:
    """Columns: the weight of each combination of stack (or NONE), thread and event that has any, once."""

    stack: array[int]
    thread: array[int]
    event: array[int]
    weight: array[int]

    def rows(self) -> Iterator[tuple[int, int, int, int]]:
        """(stack, thread, event, weight)."""
        return zip(self.stack, self.thread, self.event, self.weight, strict=True)


@dataclass(frozen=True)
class Merged:
    """All samples of a profile as one call tree, before anything is left out.

    Attributes:
        parent, function: of each node, as in `Tree`.
        node_of: the node of each stack and, as last, of samples without a stack.
        own, sums: of each event, the weight of each node itself, and with all below it.
    """

    profile: Profile
    functions: list[Function]
    parent: array[int]
    function: array[int]
    node_of: array[int]
    weights: Weights
    own: list[array[int]]
    sums: list[array[int]]

    @property
    def totals(self) -> list[int]:
        """The weight of each event."""
        return [column[0] for column in self.sums]


def merge(profile: Profile) -> Merged:
    """Merge the samples of a profile."""
    functions, function_of = functions_of(profile)
    weights = _weights(profile)
    parent, function, node_of = _nodes(profile, functions, function_of)
    own = [array(NUMBER, bytes(8 * len(parent))) for _ in profile.events]
    for stack, _, event, weight in weights.rows():
        # The index -1 is that of no stack: the last element.
        own[event][node_of[stack]] += weight
    sums = [_summed(array(NUMBER, column), parent) for column in own]
    return Merged(profile, functions, parent, function, node_of, weights, own, sums)


def build_tree(
    source: Profile | Merged, *, least_share: float = LEAST_SHARE, most_nodes: int = MOST_NODES
) -> Tree:
    """The call tree of a profile without what is too small to be seen.

    Args:
        least_share: nodes with less than this part of every event are put together; 0 keeps all.
        most_nodes: where more are left, the smallest are put together, too.
    """
    merged = merge(source) if isinstance(source, Profile) else source
    profile, parent, totals = merged.profile, merged.parent, merged.totals
    share = [0.0] * len(parent)
    for column, total in zip(merged.sums, totals, strict=True):
        if total:
            share = [max(one, weight / total) for one, weight in zip(share, column, strict=True)]
    least = least_share
    if len(parent) > most_nodes:
        least = max(least, sorted(share, reverse=True)[most_nodes - 1])
    kept = [part >= least for part in share]
    kept[0] = True
    place, places = _places(merged, kept)
    new, pruned = _pruned(kept, parent, merged.function, place)
    node_of = array(INDEX, map(new.__getitem__, merged.node_of))
    threads, events = len(profile.threads) or 1, len(profile.events) or 1
    # One number is a smaller and faster key than three, and sorts the same.
    entries: dict[int, int] = {}
    for stack, thread, event, weight in merged.weights.rows():
        key = (node_of[stack] * threads + thread) * events + event
        entries[key] = entries.get(key, 0) + weight
    return Tree(
        merged.functions, [module.path for module in profile.modules], list(profile.threads),
        list(profile.events), *pruned, places,
        [
            Entry(key // events // threads, key // events % threads, key % events, weight)
            for key, weight in sorted(entries.items())
            if weight
        ],
        totals, least if any(pruned[3]) else 0.0,
    )  # fmt: skip


def _weights(profile: Profile) -> Weights:
    threads, events = len(profile.threads) or 1, len(profile.events) or 1
    summed: dict[int, int] = {}
    columns = profile.sample_stack, profile.sample_thread, profile.sample_event, profile.sample_weight
    for stack, thread, event, weight in zip(*columns, strict=True):
        key = (stack * threads + thread) * events + event
        summed[key] = summed.get(key, 0) + weight
    return Weights(
        array(INDEX, (key // events // threads for key in summed)),
        array(INDEX, (key // events % threads for key in summed)),
        array(INDEX, (key % events for key in summed)),
        array(NUMBER, summed.values()),
    )


def _nodes(
    profile: Profile, functions: list[Function], function_of: array[int]
) -> tuple[array[int], array[int], array[int]]:
    """(parent of each node, function of each node, node of each stack and, as last, of no stack)."""
    parent, function = array(INDEX, [NONE]), array(INDEX, [NONE])
    node_of = array(INDEX)
    known: dict[int, int] = {}
    for caller, frame in zip(profile.stack_parent, profile.stack_frame, strict=True):
        above = node_of[caller] if caller >= 0 else 0
        key = above << 32 | function_of[frame]
        node = known.get(key)
        if node is None:
            node = known[key] = len(parent)
            parent.append(above)
            function.append(function_of[frame])
        node_of.append(node)
    if NONE in profile.sample_stack:
        node_of.append(len(parent))
        parent.append(0)
        function.append(len(functions))
        functions.append(Function(NO_STACK, NONE))
    else:
        node_of.append(0)
    return parent, function, node_of


def _places(merged: Merged, kept: Sequence[bool]) -> tuple[array[int], list[Place]]:
    """The heaviest line of each node that is kept, all events taken together by their shares."""
    profile, totals = merged.profile, merged.totals
    share: array[float] = array(REAL, bytes(8 * (len(profile.stack_parent) + 1)))
    for stack, _, event, weight in merged.weights.rows():
        share[stack] += weight / totals[event] if totals[event] else 0.0
    # Without the last, which is that of no stack.
    share.pop()
    _summed(share, profile.stack_parent)
    by_frame: dict[int, float] = {}
    for part, frame, node in zip(share, profile.stack_frame, merged.node_of, strict=False):
        if kept[node]:
            key = node << 32 | frame
            by_frame[key] = by_frame.get(key, 0.0) + part
    best: dict[int, tuple[float, int]] = {}
    for key, part in by_frame.items():
        node = key >> 32
        if node not in best or part > best[node][0]:
            best[node] = part, key & 0xFFFFFFFF
    known: dict[Place, int] = {}
    place = array(INDEX, [NONE]) * len(kept)
    for node, (_, heaviest) in best.items():
        seen = profile.frames[heaviest]
        if seen.file:
            place[node] = known.setdefault(Place(seen.file, seen.line, seen.inlined), len(known))
    return place, list(known)


def _pruned(
    kept: Sequence[bool], parent: array[int], function: array[int], place: array[int]
) -> tuple[array[int], tuple[array[int], array[int], array[int], array[int]]]:
    """(where each node went, the columns parent, function, place and merged of what is left)."""
    new = array(INDEX)
    columns = array(INDEX), array(INDEX), array(INDEX), array(INDEX)

    def append(*values: int) -> None:
        new.append(len(columns[0]))
        for column, value in zip(columns, values, strict=True):
            column.append(value)

    rest: dict[int, int] = {}
    for node, above in enumerate(parent):
        if kept[node]:
            append(new[above] if above >= 0 else NONE, function[node], place[node], 0)
            continue
        target = new[above]
        if not columns[3][target]:
            if target not in rest:
                rest[target] = len(columns[0])
                append(target, NONE, NONE, 1)
                continue
            target = rest[target]
        columns[3][target] += 1
        new.append(target)
    return new, columns


def _summed(weights: array[_Number], parent: Sequence[int]) -> array[_Number]:
    """Own weights to weights with all below; in place."""
    for index in range(len(weights) - 1, -1, -1):
        above = parent[index]
        if above >= 0:
            weights[above] += weights[index]
    return weights
