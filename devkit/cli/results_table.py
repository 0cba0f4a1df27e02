"""Measurements as tables for people: a row for each model, operator or case, a column for each number."""

from __future__ import annotations

from collections.abc import Sequence

from devkit import output
from devkit.results import Measurement, Report

SHOWN_ROWS = 24


def summary_table(report: Report, *, everything: bool = False) -> str:
    """The results as tables without colours; "" for none.

    Args:
        everything: all measurements, not only the parser's headline and the first rows.
    """
    chosen = list(report.measurements)
    if report.headline and not everything:
        chosen = [m for m in chosen if m.name in report.headline] or chosen
    telling = _telling_labels(chosen)
    parts: list[str] = []
    room = len(chosen) if everything else SHOWN_ROWS
    shown = 0
    for table in _tables(chosen):
        rows = table[: max(0, room)]
        if rows:
            parts.append(_render(rows, [name for name in telling if name in rows[0][0].labels]))
        room -= len(rows)
        shown += sum(len(row) for row in rows)
    hidden = len(report.measurements) - shown + report.dropped
    if hidden and chosen:
        parts.append(
            f"… and {hidden} more" + (" that were not kept\n" if everything else ": --json has them\n")
        )
    return "\n".join(parts)


def _tables(measurements: Sequence[Measurement]) -> list[list[list[Measurement]]]:
    """Rows (measurements of equal labels that follow each other), in tables of rows with equal columns."""
    rows: dict[object, list[Measurement]] = {}
    times: dict[object, int] = {}
    for number, measurement in enumerate(measurements):
        labels = tuple(measurement.labels.items())
        # The same number of the same case again begins a row of its own.
        times[labels, measurement.name] = time = times.get((labels, measurement.name), 0) + 1
        # What has no labels is a row of its own: one number a line.
        rows.setdefault((labels, time) if labels else number, []).append(measurement)
    tables: dict[tuple[object, ...], list[list[Measurement]]] = {}
    for row in rows.values():
        labelled = tuple(row[0].labels)
        columns = tuple((m.name, m.unit) for m in row) if len(row) > 1 else ()
        tables.setdefault((labelled, columns), []).append(row)
    return list(tables.values())


def _render(rows: Sequence[Sequence[Measurement]], labels: Sequence[str]) -> str:
    heads = [label.upper() for label in labels]
    if len(rows[0]) > 1 and len(rows) > 1:
        columns = [f"{m.name} ({m.unit})" if m.unit else m.name for m in rows[0]]
        lines = [(*_cells(row[0], labels), *map(value_text, row)) for row in rows]
        return output.table(lines, (*heads, *columns))
    single = [m for row in rows for m in row]
    lines = [(m.name, value_text(m), m.unit, *_cells(m, labels)) for m in single]
    return output.table(lines, ("RESULT", "VALUE", "UNIT", *heads))


def _cells(measurement: Measurement, labels: Sequence[str]) -> list[str]:
    return [measurement.labels.get(label, "") for label in labels]


def _telling_labels(measurements: Sequence[Measurement]) -> list[str]:
    """The labels in which rows differ."""
    names = dict.fromkeys(name for m in measurements for name in m.labels)
    return [name for name in names if len({m.labels.get(name) for m in measurements}) > 1]


def value_text(measurement: Measurement) -> str:
    """'152.38', '301.25 ± 0.47', or '-' for what is no number."""
    if measurement.value is None:
        return "-"
    value = measurement.value
    return (
        _digits(value)
        if measurement.spread is None
        else f"{_digits(value)} ± {_digits(measurement.spread, 3)}"
    )


def _digits(value: float, significant: int = 6) -> str:
    if abs(value) >= 1e15:
        return f"{value:.{significant}g}"
    if value == int(value) or abs(value) >= 10 ** (significant - 1):
        return str(round(value))
    return f"{value:.{significant}g}"
