"""Tags that are shown by default: `tags.yaml`."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

from devkit.logcat.record import LEVELS


def default_tags(engine: str | None) -> tuple[dict[bytes, int], int]:
    """Tags with their lowest levels, and that of all other tags.

    Args:
        engine: "mnn", "cmake", or None for any.
    """
    table = _table()
    rows: dict[str, Any] = {}
    for name, tags in table["engines"].items():
        if engine is None or name == engine:
            rows.update(tags)
    rows.update(table["common"])
    return {tag.encode(): LEVELS[row["level"]] for tag, row in rows.items()}, LEVELS[table["others"]]


@cache
def _table() -> Any:
    import yaml

    return yaml.safe_load(resources.files("devkit.logcat").joinpath("tags.yaml").read_text("utf-8"))
