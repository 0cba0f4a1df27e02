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
    parts: list[str] = []
    room = len(chosen) if everything else SHOWN_ROWS
    shown = 0
    for table in _tables(chosen):
        rows = table[: max(0, room)]
        if rows:
            parts.append(_wide(rows) if len(rows[0]) > 1 or _has_labels(rows) else _long(rows))
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
    rows: dict[tuple[tuple[str, str], ...], list[Measurement]] = {}
    for number, measurement in enumerate(measurements):
        labels = tuple(measurement.labels.items())
        # What has no labels is a row of its own: one number a line.
        key = labels or (("", str(number)),)
        while any(m.name == measurement.name for m in rows.get(key, ())):
            key = (*key, ("", ""))  # the same case measured again
        rows.setdefault(key, []).append(measurement)
    tables: dict[tuple[object, ...], list[list[Measurement]]] = {}
    for row in rows.values():
        labelled = tuple(row[0].labels)
        columns = tuple((m.name, m.unit) for m in row) if len(row) > 1 else ()
        tables.setdefault((labelled, columns), []).append(row)
    return list(tables.values())


def _has_labels(rows: Sequence[Sequence[Measurement]]) -> bool:
    return bool(_telling_labels([row[0] for row in rows]))


def _wide(rows: Sequence[Sequence[Measurement]]) -> str:
    labels = _telling_labels([row[0] for row in rows])
    if len(rows[0]) == 1:
        header = ("RESULT", "VALUE", "UNIT", *(label.upper() for label in labels))
        lines = [(m.name, value_text(m), m.unit, *_cells(m, labels)) for (m,) in rows]
        return output.table(lines, header)
    columns = [f"{m.name} ({m.unit})" if m.unit else m.name for m in rows[0]]
    header = (*(label.upper() for label in labels), *columns)
    lines = [(*_cells(row[0], labels), *map(value_text, row)) for row in rows]
    return output.table(lines, header)


def _long(rows: Sequence[Sequence[Measurement]]) -> str:
    return output.table([(m.name, value_text(m), m.unit) for (m,) in rows], ("RESULT", "VALUE", "UNIT"))


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
    text = f"{measurement.value:.6g}"
    return text if measurement.spread is None else f"{text} ± {measurement.spread:.3g}"
