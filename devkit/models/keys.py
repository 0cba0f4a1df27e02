"""The table of config keys (keys.yaml): what the engine reads, with its types and defaults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Key:
    """One key, as keys.yaml describes it."""

    name: str
    type: str
    default: Any = None
    choices: tuple[str, ...] = ()
    mllm: bool = False
    when: str = ""
    weight: str = ""
    replaced_by: str = ""


@dataclass(frozen=True)
class BackendFact:
    """How a backend shows in a built library, and what builds it."""

    name: str
    texts: tuple[str, ...]
    library: str | None
    option: str
    profile: str


@dataclass(frozen=True)
class Table:
    """All that keys.yaml holds.

    Attributes:
        others: keys of other programs, which the engine does not read.
        elsewhere: backends that no Android phone has, and what they are for.
    """

    keys: Mapping[str, Key]
    others: frozenset[str]
    backends: Mapping[str, BackendFact]
    elsewhere: Mapping[str, str]


@lru_cache(maxsize=1)
def load_table() -> Table:
    """Read keys.yaml."""
    import yaml

    raw = yaml.safe_load(Path(__file__).with_name("keys.yaml").read_text(encoding="utf-8"))
    keys = {
        name: Key(
            name,
            row["type"],
            row.get("default"),
            tuple(row.get("choices", ())),
            row.get("mllm", False),
            row.get("when", ""),
            row.get("weight", ""),
            row.get("replaced_by", ""),
        )
        for name, row in raw["keys"].items()
    }
    backends = {
        name: BackendFact(name, tuple(row["texts"]), row.get("library"), row["option"], row["profile"])
        for name, row in raw["backends"].items()
    }
    return Table(keys, frozenset(raw["others"]), backends, raw["elsewhere"])
