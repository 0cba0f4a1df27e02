"""The Android releases that can be imitated: releases.yaml."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit.errors import EXIT_USAGE, SimError
from devkit.sim.adbd.release import WireRelease

RELEASES_FILE = Path(__file__).parent / "releases.yaml"


@dataclass(frozen=True)
class Release:
    """An Android release.

    Args:
        name: "14".
        properties: those that say which release it is.
        removed_properties: those that came later.
        wire: its adbd.
        removed_tools: programs its /system/bin does not have.
    """

    name: str
    properties: Mapping[str, str]
    removed_properties: tuple[str, ...]
    wire: WireRelease
    removed_tools: tuple[str, ...]


def release_names() -> list[str]:
    """All releases there are, oldest first."""
    return list(_load())


def find_release(name: str) -> Release:
    """The release of that name.

    Raises:
        SimError: it cannot be imitated.
    """
    releases = _load()
    if name not in releases:
        raise SimError(
            f"Android {name} cannot be imitated",
            hints=["known releases: " + ", ".join(releases)],
            exit_code=EXIT_USAGE,
        )
    row = releases[name]
    wire = WireRelease(
        row["protocol_version"], row["max_payload_bytes"], tuple(row["features"]), row["old_shell"]
    )
    return Release(
        name, row["properties"], tuple(row["removed_properties"]), wire, tuple(row["removed_tools"])
    )


def _load() -> dict[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load(RELEASES_FILE.read_text(encoding="utf-8"))
    return loaded
