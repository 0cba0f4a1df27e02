"""A benchmark for people and spreadsheets: tables and CSV. The chart is in chart.py."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence

from devkit import output
from devkit.bench.compare import Comparison
from devkit.bench.record import Run

_CSV_HEADER = (
    "run", "app", "profile", "backend", "threads", "prompt", "number", "metric", "value", "unit", "exit_code",
    "failure", "hottest_before_c", "hottest_after_c",
)  # fmt: skip


def as_table(run: Run) -> str:
    """Median and spread of every metric in every cell, and how warm it got."""
    rows: list[tuple[str, ...]] = []
    for cell in run.cells:
        failed = sum(1 for sample in run.failures if sample.cell == cell)
        heat = _heat(run, cell.label)
        any_metric = False
        for name, unit in run.names():
            found = run.summary(cell, name)
            if found is None:
                continue
            any_metric = True
            rows.append(
                (
                    cell.label, name, number(found.median), unit,
                    f"{number(found.low)} … {number(found.high)}",
                    number(found.least), number(found.most), number(found.deviation),
                    str(found.count) + (f" ({failed} failed)" if failed else ""), heat,
                )
            )  # fmt: skip
        if not any_metric:
            rows.append((cell.label, "-", "-", "", "-", "-", "-", "-", f"0 ({failed} failed)", heat))
    header = ("CELL", "METRIC", "MEDIAN", "UNIT", "95 %", "MIN", "MAX", "STDEV", "RUNS", "HOTTEST")
    return output.table(rows, header)


def as_csv(run: Run) -> str:
    """One line for each number; a failed run has one line without."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_CSV_HEADER)
    for sample in run.samples:
        cell = sample.cell
        head = (run.id, run.app, cell.profile, cell.backend, cell.threads, cell.prompt, sample.number)
        tail = (
            sample.exit_code, sample.failure or "",
            sample.before.get("hottest_c"), sample.after.get("hottest_c"),
        )  # fmt: skip
        for metric in sample.metrics:
            writer.writerow((*head, metric.name, repr(metric.value), metric.unit, *tail))
        if not sample.metrics:
            writer.writerow((*head, "", "", "", *tail))
    return text.getvalue()


def comparison_table(comparisons: Sequence[Comparison]) -> str:
    """Before, after, the change with its 95 % interval, and the verdict."""
    rows: list[tuple[str, ...]] = [
        (c.cell.label, c.name, number(c.before), number(c.after), c.unit, c.text, f"{c.p:.3g}", c.verdict)
        for c in comparisons
    ]
    return output.table(rows, ("CELL", "METRIC", "BEFORE", "AFTER", "UNIT", "CHANGE (95 %)", "P", "VERDICT"))


def history_table(runs: Sequence[Run]) -> str:
    """One line for each run, the oldest first."""
    rows: list[tuple[str, ...]] = [
        (
            run.id,
            run.app,
            str(len(run.cells)),
            str(len(run.samples)),
            run.phone.get("model", "?"),
            run.started,
        )
        for run in runs
    ]
    return output.table(rows, ("RUN", "APP", "CELLS", "RUNS", "PHONE", "STARTED"))


def number(value: float) -> str:
    """Four significant digits, without an exponent where one can do without."""
    if value == 0:
        return "0"
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _heat(run: Run, label: str) -> str:
    """'41 → 55 °C', '-' where the phone does not tell; `capped` when cores were held back."""
    mine = [sample for sample in run.samples if sample.cell.label == label]
    before = [s.before["hottest_c"] for s in mine if s.before.get("hottest_c") is not None]
    after = [s.after["hottest_c"] for s in mine if s.after.get("hottest_c") is not None]
    text = f"{min(before):.0f} → {max(after):.0f} °C" if before and after else "-"
    if any(s.before.get("capped_khz") or s.after.get("capped_khz") for s in mine):
        text += " capped"
    return text
