"""Two profiles side by side: which functions take another share of the time, and what may be chance.

Shares, not weights: runs differ in length. A share of n samples has a spread of its own; what is within it is
noise. What two runs differ in beside the program (heat, clocks) no statistics of samples can see.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from devkit import output
from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.functions import function_rows
from devkit.profiling.model import NONE, Frame, Meta, Profile
from devkit.profiling.report import shortened
from devkit.profiling.tree import merge

MORE, LESS, NOISE = "more", "less", "noise"
# Two-sided p = 0.001: of a thousand functions one is called changed by chance.
_Z = 3.29
# Fewer samples than these show only large functions; the report says so.
FEW_SAMPLES = 1000


@dataclass(frozen=True)
class Change:
    """One function before and after.

    Attributes:
        own_before, own_after, total_before, total_after: shares of all, 0 to 1.
        spread: changes of the own share up to this may be chance.
        verdict: MORE, LESS or NOISE, of the own share.
    """

    name: str
    library: str
    own_before: float
    own_after: float
    total_before: float
    total_after: float
    spread: float
    verdict: str

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "function": self.name,
            "library": self.library,
            "self_before": self.own_before,
            "self_after": self.own_after,
            "total_before": self.total_before,
            "total_after": self.total_after,
            "spread": self.spread,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class ProfileComparison:
    """Two profiles compared.

    Attributes:
        joined: both as one profile: event 0 is before, event 1 after.
        counts: samples of each.
        weights: of each, in `units`.
        changes: the largest change of the own share first.
    """

    joined: Profile
    counts: tuple[int, int]
    weights: tuple[int, int]
    units: tuple[str, str]
    changes: tuple[Change, ...]

    @property
    def notes(self) -> list[str]:
        """What a reader has to know."""
        found = []
        least = min(self.counts)
        if least < FEW_SAMPLES:
            worst = 100 * _Z * math.sqrt(0.5 / max(1, least))
            found.append(
                f"Only {self.counts[0]} and {self.counts[1]} samples: changes of up to "
                f"{worst:.0f} points may be chance."
            )
        if self.units[0] != self.units[1]:
            found.append(f"Before it was {self.units[0]} that were counted, after it {self.units[1]}.")
        return found

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "samples": list(self.counts),
            "weights": list(self.weights),
            "units": list(self.units),
            "notes": self.notes,
            "changes": [change.as_dict() for change in self.changes],
        }


def compare_profiles(before: Profile, after: Profile, events: tuple[int, int] = (0, 0)) -> ProfileComparison:
    """Compare the shares of one event of each profile. Libraries are the same when their names are."""
    joined = _join(before, after, events)
    counts = joined.sample_event.count(0), joined.sample_event.count(1)
    merged = merge(joined)
    totals = merged.totals[0], merged.totals[1]
    rows = [
        {(row.name, row.library): row for row in function_rows(merged, event)} if totals[event] else {}
        for event in (0, 1)
    ]
    changes = []
    for key in dict.fromkeys([*rows[0], *rows[1]]):
        shares = [
            (row.own / total, row.total / total) if (row := side.get(key)) else (0.0, 0.0)
            for side, total in zip(rows, totals, strict=True)
        ]
        (own_before, total_before), (own_after, total_after) = shares
        spread = chance_spread(own_before, own_after, *counts)
        difference = own_after - own_before
        verdict = NOISE if abs(difference) <= spread else MORE if difference > 0 else LESS
        changes.append(Change(*key, own_before, own_after, total_before, total_after, spread, verdict))
    changes.sort(key=lambda c: (-abs(c.own_after - c.own_before), c.name))
    units = tuple(
        profile.events[event].unit if profile.events else ""
        for profile, event in zip((before, after), events, strict=True)
    )
    return ProfileComparison(joined, counts, totals, (units[0], units[1]), tuple(changes))


def chance_spread(before: float, after: float, count_before: int, count_after: int) -> float:
    """How far two shares of so many samples may lie apart by chance (p >= 0.001); 1 without samples."""
    if not count_before or not count_after:
        return 1.0
    both = (before * count_before + after * count_after) / (count_before + count_after)
    return _Z * math.sqrt(max(0.0, both * (1 - both)) * (1 / count_before + 1 / count_after))


def change_table(changes: Sequence[Change], *, most: int = 25) -> str:
    """The largest changes; those that may be chance last."""
    ordered = sorted(changes, key=lambda change: change.verdict == NOISE)[:most]
    rows: list[tuple[str, ...]] = [
        (
            f"{100 * change.own_before:.2f} %",
            f"{100 * change.own_after:.2f} %",
            f"{100 * (change.own_after - change.own_before):+.2f} ±{100 * change.spread:.2f}",
            change.verdict,
            shortened(change.name),
            change.library,
        )
        for change in ordered
        if change.own_before or change.own_after
    ]
    return output.table(rows, ("BEFORE", "AFTER", "POINTS", "VERDICT", "FUNCTION", "LIBRARY"))


def _join(before: Profile, after: Profile, events: tuple[int, int]) -> Profile:
    builder = ProfileBuilder()
    threads: dict[str, int] = {}
    for side, (profile, event) in enumerate(zip((before, after), events, strict=True)):
        kind = profile.events[event].unit if profile.events else ""
        builder.event(("before", "after")[side], kind)
        modules = [builder.module(module.name) for module in profile.modules]
        frames = [
            builder.add_frame(
                Frame(
                    frame.function, modules[frame.module] if frame.module >= 0 else NONE, frame.file,
                    frame.line, frame.inlined,
                )
            )
            for frame in profile.frames
        ]  # fmt: skip
        stacks: list[int] = []
        for parent, frame in zip(profile.stack_parent, profile.stack_frame, strict=True):
            stacks.append(builder.child(stacks[parent] if parent >= 0 else NONE, frames[frame]))
        # Threads of two runs are the same when their names are; ids are not.
        of_thread = [
            builder.thread(0, threads.setdefault(thread.name, len(threads)), thread.name)
            for thread in profile.threads
        ]
        columns = (
            profile.sample_stack, profile.sample_thread, profile.sample_event, profile.sample_weight,
            profile.sample_time_ns,
        )  # fmt: skip
        for stack, sampled, seen, weight, time in zip(*columns, strict=True):
            if seen == event:
                builder.sample(stacks[stack] if stack >= 0 else NONE, of_thread[sampled], weight, time, side)
    return builder.finish(Meta())
