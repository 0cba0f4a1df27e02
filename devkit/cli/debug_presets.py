"""`--preset` and `--list-presets` of `devkit debug`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from devkit import output

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.lldb.presets import PresetPoint
    from devkit.runtime import PreparedApp

LIST = "list"


def list_presets() -> None:
    """Print all breakpoint sets, with what each stop is for."""
    from devkit import config
    from devkit.lldb.presets import all_presets

    sink = output.current()
    presets = list(all_presets(config.load()).values())
    lines: list[str] = []
    for preset in presets:
        origin = "" if preset.origin == "built-in" else f"  ({preset.origin})"
        lines.append(f"{sink.style(preset.name, 'bold')}  {preset.about}{origin}")
        for number, point in enumerate(preset.points, start=1):
            lines.append(f"  {number:>2}  {point.place}")
            lines += [f"      {point.why}"] if point.why else []
        lines.append("")
    lines.append("devkit debug APP --preset NAME   stops at all of them; --preset may be repeated")
    sink.data({"presets": [preset.as_dict() for preset in presets]}, "\n".join(lines))


def preset_breakpoints(
    config: Config, prepared: PreparedApp, names: Sequence[str], *, besides: Sequence[str]
) -> list[PresetPoint]:
    """The breakpoints of these sets that the program has; says what each is for, and which are missing.

    Args:
        besides: breakpoints that are given one by one: they come first, and are not repeated.

    Raises:
        DebugError: the program has nothing of a set.
    """
    from devkit.lldb.presets import choose, find_presets, missing_line

    presets = find_presets(config, names)
    foreign = prepared.foreign_libraries
    own = [file for file in prepared.libraries if file not in foreign]
    chosen = choose(presets, (prepared.local.program, *own), foreign)
    sink = output.current()
    points = [point for point in chosen.points if point.place not in besides]
    for preset in presets:
        sink.note(f"preset {preset.name}: {preset.about}")
    for number, point in enumerate(points, start=len(besides) + 1):
        why = f"  {point.why}" if point.why else ""
        sink.note(f"  {number:>2}  {sink.style(point.place, 'bold')}{why}")
    for entry in chosen.missing:
        sink.warn(missing_line(entry))
    if chosen.stripped:
        files = ", ".join(file.name for file in chosen.stripped)
        sink.warn(f"no symbols in {files}: functions that are only there stay pending")
    return points
