"""What comes out of an output: measurements, findings, and the report that judges them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

OK = "ok"
NOTE = "note"
WARNING = "warning"
FAILED = "failed"

_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")
# printf of a float that is none: nan, -nan, nan(ind), inf, infinity, 1.#QNAN.
_NO_NUMBER = re.compile(r"[+-]?(?:(?i:nan(?:\(\w*\))?|inf(?:inity)?)|1\.#\w+)")
NUMBER = rf"(?:{_NUMBER.pattern}|{_NO_NUMBER.pattern})"


def number(text: str) -> float | None:
    """The number a program printed; None for NaN and infinity, which JSON has not.

    Raises:
        ValueError: it is no number at all.
    """
    text = text.strip()
    if _NO_NUMBER.fullmatch(text):
        return None
    if not _NUMBER.fullmatch(text):
        raise ValueError(f"not a number: {text!r}")
    if text.lstrip("+-").isdigit() and len(text) < 19:
        return int(text)
    value = float(text)
    return value if math.isfinite(value) else None


@dataclass(frozen=True)
class Measurement:
    """One number of an output.

    Attributes:
        value: None when the program printed NaN or infinity.
        unit: as the program has it ("tok/s", "ms", "MB"); "" for a bare ratio or count.
        spread: the standard deviation printed beside it, in the same unit.
        labels: what the number belongs to: model, op, backend, threads …
    """

    name: str
    value: float | None
    unit: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    spread: float | None = None

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "name": self.name,
            "value": self.value,
            "unit": self.unit,
            "spread": self.spread,
            "labels": dict(self.labels),
        }


@dataclass(frozen=True)
class Finding:
    """Something known that the output, or its absence, says.

    Attributes:
        kind: its name in findings.yaml, or of the parser that concluded it.
        severity: FAILED, WARNING or NOTE.
        consequence: it only reports what an earlier line caused.
        line: the output's own words.
        line_number: which line of the output, from 1; 0 when it is none.
        values: what the line names: file, library, symbol …
    """

    kind: str
    severity: str
    meaning: str
    cause: str = ""
    next: tuple[str, ...] = ()
    line: str = ""
    line_number: int = 0
    values: Mapping[str, str] = field(default_factory=dict)
    consequence: bool = False

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "kind": self.kind,
            "severity": self.severity,
            "meaning": self.meaning,
            "cause": self.cause,
            "next": list(self.next),
            "line": self.line,
            "line_number": self.line_number,
            "values": dict(self.values),
            "consequence": self.consequence,
        }


@dataclass(frozen=True)
class Report:
    """The judgement of one output.

    Attributes:
        parser: the parser that read it; None when no parser knew it.
        status: OK, WARNING or FAILED. FAILED also when only the exit code says so.
        findings: the first cause first, consequences last.
        dropped: measurements beyond the limit that were not kept.
        headline: names that a short summary shows; empty for all.
    """

    parser: str | None
    status: str
    measurements: tuple[Measurement, ...] = ()
    findings: tuple[Finding, ...] = ()
    dropped: int = 0
    headline: tuple[str, ...] = ()

    @property
    def first_cause(self) -> Finding | None:
        """The finding that best explains a failure; None when it did not fail, or nothing is known."""
        if self.status != FAILED:
            return None
        causes = [f for f in self.findings if not f.consequence and f.severity in (FAILED, WARNING)]
        causes.sort(key=lambda f: f.severity != FAILED)
        return next((f for f in [*causes, *self.findings] if f.severity != NOTE), None)

    def values(self, name: str) -> list[float | None]:
        """The values of all measurements of this name."""
        return [m.value for m in self.measurements if m.name == name]

    def value(self, name: str) -> float | None:
        """The last value of this name; None when there is none, or it was NaN."""
        return next((m.value for m in reversed(self.measurements) if m.name == name), None)

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "parser": self.parser,
            "status": self.status,
            "results": [m.as_dict() for m in self.measurements],
            "findings": [f.as_dict() for f in self.findings],
            "dropped": self.dropped,
        }
