"""The chart: one HTML file with inline SVG that needs no network, now or in ten years."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from devkit.bench.compare import Comparison
from devkit.bench.metrics import more_is_better
from devkit.bench.record import Run
from devkit.bench.report import number

# SVG units.
LABEL_WIDTH, PLOT_WIDTH, ROW_HEIGHT, MARGIN = 260, 560, 34, 24
_TICKS = 5


@dataclass(frozen=True)
class Dot:
    x: float
    y: float
    title: str


@dataclass(frozen=True)
class Row:
    """A cell's line in the chart of one metric: its runs as dots, median and interval as marks."""

    label: str
    y: float
    dots: tuple[Dot, ...]
    low: float
    high: float
    median: float
    text: str


@dataclass(frozen=True)
class Panel:
    """The chart of one metric."""

    name: str
    unit: str
    better: str
    height: float
    rows: tuple[Row, ...]
    ticks: tuple[tuple[float, str], ...]


def render_chart(run: Run, comparisons: Sequence[Comparison] = (), before: Run | None = None) -> str:
    """The whole HTML page."""
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("devkit.bench"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    heat = _heat_line(run)
    return environment.get_template("chart.html.j2").render(
        run=run,
        before=before,
        panels=[panel for name, unit in run.names() if (panel := _panel(run, name, unit))],
        comparisons=comparisons,
        number=number,
        heat=heat,
        label_width=LABEL_WIDTH,
        plot_width=PLOT_WIDTH,
        margin=MARGIN,
        row_height=ROW_HEIGHT,
        width=LABEL_WIDTH + PLOT_WIDTH + 2 * MARGIN + 110,
    )


def _panel(run: Run, name: str, unit: str) -> Panel | None:
    cells = [cell for cell in run.cells if run.values(cell, name)]
    if not cells:
        return None
    highest = max(max(run.values(cell, name)) for cell in cells)
    lowest = min(0.0, *(min(run.values(cell, name)) for cell in cells))
    span = (highest - lowest) or 1.0

    def x(value: float) -> float:
        return round(LABEL_WIDTH + MARGIN + (value - lowest) / span * PLOT_WIDTH, 1)

    rows = []
    for index, cell in enumerate(cells):
        y = MARGIN + index * ROW_HEIGHT + ROW_HEIGHT / 2
        summary = run.summary(cell, name)
        assert summary is not None
        values = run.values(cell, name)
        dots = tuple(
            # Dots of equal values lie beside each other.
            Dot(x(value), round(y + ((i % 5) - 2) * 2.5, 1), f"run {i + 1}: {number(value)} {unit}")
            for i, value in enumerate(values)
        )
        text = f"{number(summary.median)} {unit}"
        rows.append(Row(cell.label, y, dots, x(summary.low), x(summary.high), x(summary.median), text))
    ticks = tuple(
        (x(lowest + span * i / _TICKS), number(lowest + span * i / _TICKS)) for i in range(_TICKS + 1)
    )
    better = "more is better" if more_is_better(unit) else "less is better"
    return Panel(name, unit, better, 2 * MARGIN + len(cells) * ROW_HEIGHT, tuple(rows), ticks)


def _heat_line(run: Run) -> dict[str, Any] | None:
    """The hottest zone before each run, as an SVG line; None where the phone does not tell."""
    seen = [
        (s.number, float(s.before["hottest_c"])) for s in run.samples if s.before.get("hottest_c") is not None
    ]
    if len(seen) < 2:
        return None
    low, high = min(degrees for _, degrees in seen), max(degrees for _, degrees in seen)
    span, last = (high - low) or 1.0, max(place for place, _ in seen)
    step = PLOT_WIDTH / max(1, last - 1)
    points = " ".join(
        f"{LABEL_WIDTH + MARGIN + (place - 1) * step:.1f},{90 - (degrees - low) / span * 60:.1f}"
        for place, degrees in seen
    )
    return {"points": points, "low": low, "high": high}
