"""The flame graph: one HTML page with everything in it, that needs no network, now or in ten years."""

from __future__ import annotations

import base64
import datetime
import json
import zlib
from array import array
from collections.abc import Sequence
from typing import Any

from devkit.profiling.model import NONE, Meta, Profile
from devkit.profiling.tree import Merged, Tree, build_tree, merge

_SCRIPTS = ("tree.js", "draw.js", "page.js")


def render_page(source: Profile | Merged, *, title: str = "") -> str:
    """The page of one profile; below the graph what the engine and the phone said meanwhile.

    Args:
        source: the profile, or what `merge` made of it.
    """
    from devkit.profiling.sections import sections_of

    merged = merge(source) if isinstance(source, Profile) else source
    profile = merged.profile
    return _render(
        build_tree(merged),
        title or shown_command(profile.meta) or "profile",
        [*facts(profile.meta), f"{len(profile):,} samples"],
        profile.meta.notes,
        sections_of(profile),
        {"mode": "profile"},
    )


def render_comparison(
    joined: Profile, counts: tuple[int, int], *, title: str, about: Sequence[str], notes: Sequence[str]
) -> str:
    """The page of two profiles, joined into one whose events are the two.

    Args:
        counts: samples of each.
    """
    return _render(build_tree(joined), title, about, notes, (), {"mode": "compare", "counts": list(counts)})


def shown_command(meta: Meta) -> str:
    """The command for headings."""
    return " ".join(meta.command)


def facts(meta: Meta) -> list[str]:
    """Where a profile comes from, in a few words each."""
    found = [meta.machine, meta.arch, meta.recorder]
    if meta.recorded_at:
        moment = datetime.datetime.fromtimestamp(meta.recorded_at).astimezone()
        found.append(moment.isoformat(" ", "seconds"))
    return [fact for fact in found if fact]


def page_data(tree: Tree) -> dict[str, Any]:
    """The tree as the page's scripts read it.

    Neighbours are mostly alike: parents are written as distances, nodes of entries as steps.
    """
    used = sorted({function for function in tree.function if function >= 0})
    new = {function: index for index, function in enumerate(used)}
    files = {file: index for index, file in enumerate(dict.fromkeys(place.file for place in tree.places))}
    return {
        "events": [{"name": event.name, "unit": event.unit} for event in tree.events],
        "totals": list(tree.totals),
        "threads": [list(thread) for thread in tree.threads],
        "modules": list(tree.modules),
        "functions": [list(tree.functions[function]) for function in used],
        "files": list(files),
        "places": [[files[place.file], place.line, int(place.inlined)] for place in tree.places],
        "parent": [node - parent for node, parent in enumerate(tree.parent)],
        "function": [new.get(function, NONE) for function in tree.function],
        "place": tree.place.tolist(),
        "merged": tree.merged.tolist(),
        "entries": [_entries(tree, event) for event in range(len(tree.events))],
    }


def _entries(tree: Tree, event: int) -> list[list[int]]:
    mine = [entry for entry in tree.entries if entry.event == event]
    steps, last = array("i"), 0
    for entry in mine:
        steps.append(entry.node - last)
        last = entry.node
    return [steps.tolist(), [entry.thread for entry in mine], [entry.weight for entry in mine]]


def _render(
    tree: Tree,
    title: str,
    about: Sequence[str],
    notes: Sequence[str],
    sections: Sequence[str],
    extra: dict[str, Any],
) -> str:
    from importlib.resources import files

    from jinja2 import Environment, PackageLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=PackageLoader("devkit.profiling"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates = files("devkit.profiling") / "templates"
    packed = zlib.compress(json.dumps({**page_data(tree), **extra}, separators=(",", ":")).encode(), 6)
    said = list(notes)
    if tree.least_share:
        said.append(
            f"Frames with less than {tree.least_share:.3%} of everything are put together"
            f' as "smaller": {sum(tree.merged):,} of them.'
        )
    return environment.get_template("page.html.j2").render(
        title=title,
        facts=about,
        notes=said,
        compare=extra["mode"] == "compare",
        sections=[Markup(section) for section in sections],
        data=Markup(base64.b64encode(packed).decode()),
        scripts=Markup("\n".join((templates / name).read_text("utf-8") for name in _SCRIPTS)),
    )
