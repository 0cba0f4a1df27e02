"""What stands below the flame graph: phases, operators, processors, and how the phone was meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devkit import output
from devkit.profiling.engine_times import engine_times_of
from devkit.profiling.model import Profile, Series
from devkit.profiling.processors import Busy, busy_processors, wall_seconds
from devkit.profiling.report import shortened

# SVG units.
WIDTH, HEIGHT, LEFT, RIGHT = 1100, 120, 70, 240
MOST_OPERATORS = 40
_BINS = 200
_MOST_SERIES = 10
_COLOURS = (
    "#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22",
    "#555555",
)  # fmt: skip
_NS = 1e9


@dataclass(frozen=True)
class Line:
    """A series in a panel: SVG points, its last value as text, its colour."""

    name: str
    points: str
    text: str
    colour: str


@dataclass(frozen=True)
class Panel:
    """All series of one kind over the time of the recording."""

    title: str
    unit: str
    top: str
    lines: tuple[Line, ...]
    left_out: int


@dataclass(frozen=True)
class Mark:
    """A span on the time line."""

    x: float
    width: float
    name: str
    colour: str


def sections_of(profile: Profile) -> list[str]:
    """HTML of what is known beside the samples; nothing where nothing is."""
    engine = engine_times_of(profile)
    busy = busy_processors(profile, engine)
    panels, marks = timeline(profile)
    if not (engine or panels or marks or len(busy) > 1):
        return []
    from jinja2 import Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=PackageLoader("devkit.profiling"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip
    return [
        environment.get_template("sections.html.j2").render(
            engine=engine, busy=busy, panels=panels, marks=marks, seconds=wall_seconds(profile),
            width=WIDTH, height=HEIGHT, left=LEFT, right=RIGHT, most=MOST_OPERATORS,
        )
    ]  # fmt: skip


def engine_text(profile: Profile, *, most: int = 15) -> str:
    """The same for a terminal."""
    engine = engine_times_of(profile)
    parts = [_processor_table(busy_processors(profile, engine))] if engine or profile.series else []
    for one in engine:
        phases: list[tuple[str, ...]] = [(name, f"{ms:.3f} ms") for name, ms in one.phases.items()]
        phases += [(name, f"{value:.2f} {unit}") for name, value, unit in one.speeds]
        if phases:
            parts.append(output.table(phases, (f"PHASE ({one.source})", "TIME OR SPEED")))
        if one.operators:
            total = one.operator_sum or 1.0
            rows: list[tuple[str, ...]] = [
                (f"{100 * o.value / total:.2f} %", f"{o.value:.4g} {one.unit}", o.kind, shortened(o.name))
                for o in one.operators[:most]
            ]
            parts.append(output.table(rows, ("SHARE", "MEAN", "TYPE", f"OPERATOR ({one.source})")))
    return "\n".join(part for part in parts if part)


def _processor_table(busy: Sequence[Busy]) -> str:
    rows: list[tuple[str, ...]] = [
        (one.processor, f"{one.seconds:.2f} s", f"{100 * one.share:.0f} %", one.source) for one in busy
    ]
    return output.table(rows, ("PROCESSOR", "BUSY", "OF THE TIME", "KNOWN BY")) if rows else ""


def timeline(profile: Profile) -> tuple[list[Panel], list[Mark]]:
    """Panels and marks on one axis: the time of the recording."""
    series = [one for one in profile.series if len(one.times_ns) > 1]
    times = [t for one in series for t in (one.times_ns[0], one.times_ns[-1])]
    times += [t for span in profile.spans for t in (span.start_ns, span.end_ns)]
    if not times:
        return [], []
    begin, end = min(times), max(times)
    scale = (WIDTH - LEFT - RIGHT) / ((end - begin) or 1)
    kinds: dict[tuple[str, str], list[Series]] = {}
    for one in series:
        kinds.setdefault((one.kind, one.unit), []).append(one)
    panels = []
    for (kind, unit), group in kinds.items():
        shown = sorted(group, key=lambda one: -max(one.values))[:_MOST_SERIES]
        top = max(max(one.values) for one in shown) or 1.0
        lines = tuple(
            Line(one.name, _points(one, begin, scale, top), f"{one.values[-1]:,.0f}", _COLOURS[i])
            for i, one in enumerate(shown)
        )
        panels.append(Panel(kind, unit, f"{top:,.0f}", lines, len(group) - len(shown)))
    tracks = {span.track: index for index, span in enumerate(profile.spans)}
    marks = [
        Mark(
            round(LEFT + (span.start_ns - begin) * scale, 1),
            round(max(1.0, (span.end_ns - span.start_ns) * scale), 1),
            f"{span.track}: {span.name}, {(span.end_ns - span.start_ns) / _NS:.3f} s",
            _COLOURS[tracks[span.track] % len(_COLOURS)],
        )
        for span in profile.spans
    ]
    return panels, marks


def _points(series: Series, begin: int, scale: float, top: float) -> str:
    """At most _BINS points: of each bin the highest, so that peaks stay."""
    count = len(series.times_ns)
    step = max(1, -(-count // _BINS))
    chosen = [
        max(range(first, min(first + step, count)), key=series.values.__getitem__)
        for first in range(0, count, step)
    ]
    return " ".join(
        f"{LEFT + (series.times_ns[i] - begin) * scale:.1f},"
        f"{HEIGHT - 4 - max(0.0, series.values[i]) / top * (HEIGHT - 16):.1f}"
        for i in chosen
    )
