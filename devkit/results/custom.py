"""Parsers that a user writes in devkit.yaml: regular expressions whose named groups are values."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from devkit.results.model import FAILED, Finding, number
from devkit.results.parser import Parser

_UNIT_GROUP = "_unit"
_MAX_FINDINGS = 20


@dataclass(frozen=True)
class LinePattern:
    """One kind of line with numbers.

    Attributes:
        pattern: searched in every line.
        units: group name → unit; these groups are values ("" for none), the other groups labels.
            A group `NAME_unit` beside a value NAME gives its unit when it matched.
    """

    pattern: str
    units: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class CustomParser:
    """One entry of `results:` in devkit.yaml.

    Attributes:
        programs: program names whose output it reads without being asked, as patterns of whole names.
        failed: patterns of lines that mean failure although the program exits with 0.
        ok: when given, a line must match it, or the program failed.
    """

    name: str
    lines: Sequence[LinePattern] = ()
    programs: Sequence[str] = ()
    failed: Sequence[str] = ()
    ok: str | None = None

    def make(self) -> Parser:
        """A parser for one output."""
        return _Custom(self)


def check_pattern(text: str) -> str | None:
    """Why a text is no regular expression; None when it is one."""
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as error:
        return str(error)
    return None


def check_line(pattern: str, units: Mapping[str, str]) -> str | None:
    """Why a pattern and its units do not fit together; None when they do."""
    groups = re.compile(pattern).groupindex
    unknown = [name for name in units if name not in groups]
    if unknown:
        known = ", ".join(groups) or "none"
        return f"the pattern has no group named {unknown[0]} (its groups: {known}); write (?P<{unknown[0]}>…)"
    if not units:
        return "no group of it is a value: name them in `units: {GROUP: UNIT}`"
    return None


class _Custom(Parser):
    def __init__(self, described: CustomParser) -> None:
        super().__init__()
        self.name = described.name
        self._lines = [(re.compile(line.pattern), line.units) for line in described.lines]
        self._failed = [re.compile(pattern) for pattern in described.failed]
        self._ok = re.compile(described.ok) if described.ok else None
        self._ok_seen = False
        self._findings: list[Finding] = []
        self._line_number = 0
        self._no_values = not described.lines

    def line(self, text: str) -> None:
        self._line_number += 1
        for pattern, units in self._lines:
            if found := pattern.search(text):
                self._take(found, units)
        if self._ok is not None and not self._ok_seen:
            self._ok_seen = self._ok.search(text) is not None
        for pattern in self._failed:
            if pattern.search(text) and len(self._findings) < _MAX_FINDINGS:
                self._findings.append(
                    Finding(
                        "said-so", FAILED, f"the line matches {pattern.pattern!r}, which means failure",
                        f"`failed:` of results.{self.name} in devkit.yaml",
                        line=text.strip()[:300], line_number=self._line_number,
                    )
                )  # fmt: skip
                break

    def findings(self) -> Sequence[Finding]:
        if self._ok is None or self._ok_seen:
            return self._findings
        missing = Finding(
            "not-said", FAILED, f"no line matches {self._ok.pattern!r}, which a good run prints",
            f"`ok:` of results.{self.name} in devkit.yaml", consequence=True,
        )  # fmt: skip
        return [*self._findings, missing]

    @property
    def may_have_none(self) -> bool:
        return self._no_values

    def _take(self, found: re.Match[str], units: Mapping[str, str]) -> None:
        groups = {name: text for name, text in found.groupdict().items() if text is not None}
        unit_groups = {name + _UNIT_GROUP for name in units}
        labels = {n: t for n, t in groups.items() if n not in units and n not in unit_groups}
        for name, unit in units.items():
            text = groups.get(name)
            if text is None:
                continue
            try:
                value = number(text.replace(",", ""))
            except ValueError:
                continue
            self.add(name, value, groups.get(name + _UNIT_GROUP, unit), labels)
