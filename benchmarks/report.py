"""What a benchmark says: ours, the peer's, their relation, the spread, the goal, the verdict."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Measure:
    """One figure. `ours`, `peer` and `spread` are in `unit`; `relation` is what the goal is about."""

    name: str
    unit: str
    ours: float
    peer: float
    spread: float
    relation: float
    relation_unit: str
    goal: str
    met: bool

    def as_dict(self) -> dict[str, Any]:
        return {**self.__dict__, "verdict": self.verdict}

    @property
    def verdict(self) -> str:
        return "met" if self.met else "MISSED"


def table(measures: list[Measure]) -> str:
    """Aligned columns for people."""
    header = ("measure", "ours", "peer", "relation", "spread", "goal", "verdict")
    rows = [
        (
            m.name,
            f"{m.ours:.3g} {m.unit}",
            f"{m.peer:.3g} {m.unit}",
            f"{m.relation:+.3g} {m.relation_unit}",
            f"±{m.spread:.2g} {m.unit}",
            m.goal,
            m.verdict,
        )
        for m in measures
    ]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(r, widths, strict=True)).rstrip() for r in [header, *rows]]
    return "\n".join(lines)
