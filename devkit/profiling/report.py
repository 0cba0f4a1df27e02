"""A profile for people and programs without a browser: tables, the call tree, CSV, JSON, folded stacks."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from devkit import output
from devkit.profiling.functions import FunctionRow
from devkit.profiling.model import Event, Profile
from devkit.profiling.tree import Merged, Tree

# Templates of C++ make names of a thousand letters; JSON and CSV have them whole.
_LONGEST_NAME = 90
_CSV_HEADER = (
    "function", "library", "self", "total", "self_share", "total_share", "unit", "file", "line",
)  # fmt: skip


def top_table(rows: Sequence[FunctionRow], total: int, *, most: int = 25) -> str:
    """The functions with the most own weight."""
    shown: list[tuple[str, ...]] = [
        (
            _percent(row.own, total),
            _percent(row.total, total),
            shortened(row.name),
            row.library,
            _place(row.file, row.line),
        )
        for row in rows[:most]
    ]
    return output.table(shown, ("SELF", "TOTAL", "FUNCTION", "LIBRARY", "HOTTEST LINE"))


def call_tree(tree: Tree, event: int = 0, *, least_share: float = 0.01, most_depth: int = 40) -> str:
    """The call tree as indented lines, the heaviest branch first.

    Args:
        least_share: branches below that part of all are left out.
        most_depth: rows of one branch.
    """
    sums, own = tree.sums(event), tree.own(event)
    total = sums[0]
    children: dict[int, list[int]] = {}
    for node in range(1, len(tree.parent)):
        if total and tree.function[node] >= 0 and sums[node] >= least_share * total:
            children.setdefault(tree.parent[node], []).append(node)
    lines = [f"{'TOTAL':>8}  {'SELF':>8}  FUNCTION"]
    todo = [(node, 0) for node in sorted(children.get(0, ()), key=lambda n: sums[n])]
    while todo:
        node, depth = todo.pop()
        name, module = tree.functions[tree.function[node]]
        library = f"  {tree.modules[module].rpartition('/')[2]}" if module >= 0 else ""
        lines.append(
            f"{_percent(sums[node], total):>8}  {_percent(own[node], total):>8}  "
            f"{'  ' * depth}{shortened(name)}{library}"
        )
        below = sorted(children.get(node, ()), key=lambda n: sums[n])
        if below and depth + 1 >= most_depth:
            lines.append(" " * 20 + "  " * (depth + 1) + "…")
        else:
            todo += [(child, depth + 1) for child in below]
    return "\n".join(lines)


def thread_table(profile: Profile, event: int = 0) -> str:
    """What each thread has of an event."""
    weights: Counter[int] = Counter()
    samples: Counter[int] = Counter()
    columns = zip(profile.sample_thread, profile.sample_event, profile.sample_weight, strict=True)
    for thread, kind, weight in columns:
        if kind == event:
            weights[thread] += weight
            samples[thread] += 1
    total = sum(weights.values())
    rows: list[tuple[str, ...]] = [
        (profile.threads[index].name or "?", str(profile.threads[index].tid), _percent(weight, total),
         str(samples[index]))
        for index, weight in weights.most_common()
    ]  # fmt: skip
    return output.table(rows, ("THREAD", "TID", "SHARE", "SAMPLES"))


def as_csv(rows: Sequence[FunctionRow], total: int, event: Event) -> str:
    """One line for each function."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEADER)
    for row in rows:
        shares = (f"{weight / total:.6f}" if total else "" for weight in (row.own, row.total))
        writer.writerow(
            (row.name, row.module, row.own, row.total, *shares, event.unit, row.file, row.line or "")
        )
    return text.getvalue()


def as_dict(rows: Sequence[FunctionRow], profile: Profile, merged: Merged, event: int) -> dict[str, Any]:
    """The profile as `--json` prints it."""
    total, meta = merged.totals[event], profile.meta
    return {
        "machine": meta.machine,
        "command": list(meta.command),
        "recorder": meta.recorder,
        "recorded_at": meta.recorded_at,
        "notes": list(meta.notes),
        "engine": list(meta.extra.get("engine", ())),
        "samples": len(profile),
        "lost": meta.lost,
        "event": {"name": profile.events[event].name, "unit": profile.events[event].unit, "total": total}
        if profile.events
        else None,
        "functions": [
            {
                "function": row.name,
                "library": row.module,
                "self": row.own,
                "total": row.total,
                "self_share": row.own / total if total else None,
                "total_share": row.total / total if total else None,
                "file": row.file or None,
                "line": row.line or None,
            }
            for row in rows
        ],
    }


def as_folded(merged: Merged, event: int = 0) -> Iterator[str]:
    """One line for each stack: `outer;inner weight`, as many flame graph tools read it."""
    names = [
        name.replace(";", ",").replace("\n", " ").replace("\r", " ").strip() or "?"
        for name, _ in merged.functions
    ]
    for node, weight in enumerate(merged.own[event]):
        if not weight or not node:
            continue
        path = []
        while node > 0:
            path.append(names[merged.function[node]])
            node = merged.parent[node]
        yield f"{';'.join(reversed(path))} {weight}\n"


def shortened(name: str) -> str:
    """A function's name for a terminal."""
    return name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"


def _percent(weight: float, total: float) -> str:
    return f"{100 * weight / total:.2f} %" if total else "-"


def _place(file: str, line: int) -> str:
    short = "/".join(file.split("/")[-2:])
    return f"{short}:{line}" if line else short
