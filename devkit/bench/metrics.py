"""Numbers out of a program's output: the narrow door through which parsers come in."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

# Units of which more is better; of all others less is.
_MORE_IS_BETTER = re.compile(r"(?:/s\b|per second|fps|flops|\bqps\b)", re.IGNORECASE)
_UNIT_BEHIND = re.compile(r"\s*([A-Za-zµ%][\w/%]*)")


@dataclass(frozen=True)
class Metric:
    """One number of one run. `unit` may be empty."""

    name: str
    value: float
    unit: str = ""


@dataclass(frozen=True)
class Reading:
    """What was read out of one output. `problem`: why the run failed, also after an exit with 0."""

    metrics: tuple[Metric, ...]
    problem: str | None = None


# Output and exit code to numbers.
Reader = Callable[[str, int], Reading]

WALL = "wall time"


def regex_reader(patterns: Sequence[str]) -> Reader:
    """A reader of the user's own patterns: each named group is a metric, one without name `metric N`.

    The unit is the word behind the number. A pattern that matches several times gives its last number.
    """
    compiled = [re.compile(pattern) for pattern in patterns]

    def read(text: str, _exit_code: int) -> Reading:
        found: dict[str, Metric] = {}
        missing = []
        for index, pattern in enumerate(compiled, 1):
            names = {number: name for name, number in pattern.groupindex.items()} or {1: f"metric {index}"}
            seen = False
            for match in pattern.finditer(text):
                for number, name in names.items():
                    value = _number(match[number])
                    if value is not None:
                        unit = _UNIT_BEHIND.match(text, match.end(number))
                        found[name] = Metric(name, value, unit[1] if unit else "")
                        seen = True
            if not seen:
                missing.append(pattern.pattern)
        problem = f"nothing in the output matches {' or '.join(missing)}" if missing else None
        return Reading(tuple(found.values()), problem)

    return read


def more_is_better(unit: str) -> bool:
    """Whether a bigger number of this unit is the better one (tok/s, GFLOPS), as a time's is not."""
    return _MORE_IS_BETTER.search(unit) is not None


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if math.isfinite(value) else None
