"""The known findings of findings.yaml, looked for line by line."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib import resources
from typing import Any

from devkit.results.model import FAILED, NOTE, WARNING, Finding
from devkit.results.parsers.mnn import FORWARD_TYPES

MAX_FINDINGS = 50
_EVIDENCE_LENGTH = 400
_GROUP_NAME = re.compile(r"\(\?P<\w+>")


@dataclass(frozen=True)
class KnownFinding:
    """One entry of findings.yaml, see there."""

    kind: str
    pattern: re.Pattern[str]
    severity: str
    meaning: str
    cause: str = ""
    next: tuple[str, ...] = ()
    base: tuple[str, ...] = ()
    failed_if: re.Pattern[str] | None = None
    consequence: bool = False
    load_only: bool = False
    translate: tuple[str, ...] = ()
    has: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """All entries, what each exit code means, and two quick tests for lines worth a look."""

    known: tuple[KnownFinding, ...]
    beginnings: re.Pattern[str]
    words: tuple[str, ...]
    exit_codes: Mapping[int, tuple[str, str]]


class Finder:
    """Collects the findings of one output: each kind with the same values once.

    Args:
        own: the user's, which come before those of findings.yaml.
    """

    def __init__(self, own: Sequence[KnownFinding] = ()) -> None:
        self._own = own
        self._table: Table | None = None
        self._found: dict[tuple[str, tuple[tuple[str, str], ...]], Finding] = {}

    def line(self, text: str, number: int, *, free_text: bool) -> None:
        """Look at one line.

        Args:
            free_text: it is text nobody vouches for, so that only lines no model invents count.
        """
        if self._table is None:
            self._table = load_table()  # when the program runs already, not before it starts
        for known in self._own:
            if len(self._found) < MAX_FINDINGS and (match := known.pattern.search(text)):
                self._keep(known, match, text, number)
                return
        # Nearly all lines are nothing, and there may be millions.
        if not any(word in text for word in self._table.words) and not self._table.beginnings.match(text):
            return
        if len(self._found) >= MAX_FINDINGS:
            return
        for known in self._table.known:
            if known.load_only and free_text:
                continue
            if known.has and not any(word in text for word in known.has):
                continue
            match = known.pattern.search(text)
            if match:
                self._keep(known, match, text, number)
                return

    def found(self) -> list[Finding]:
        """What was found, in the order of the lines."""
        return list(self._found.values())

    def _keep(self, known: KnownFinding, match: re.Match[str], text: str, number: int) -> None:
        values = {name: value for name, value in match.groupdict().items() if value}
        for name in known.base:
            if name in values:
                values[name] = re.split(r"[/\\]", values[name])[-1]
        if known.translate:
            for name in known.translate:
                values[name] = FORWARD_TYPES.get(values[name], f"type {values[name]}")
            if len(known.translate) > 1 and len({values[name] for name in known.translate}) == 1:
                return
        severity = known.severity
        if known.failed_if is not None and not known.failed_if.search(text):
            severity = WARNING
        key = (known.kind, tuple(sorted(values.items())))
        if key in self._found:
            return
        self._found[key] = Finding(
            known.kind,
            severity,
            fill(known.meaning, values),
            fill(known.cause, values),
            tuple(fill(step, values) for step in known.next),
            text.strip()[:_EVIDENCE_LENGTH],
            number,
            values,
            known.consequence,
        )


def own_finding(
    kind: str,
    *,
    pattern: str,
    meaning: str,
    severity: str = FAILED,
    cause: str = "",
    next: Sequence[str] = (),
) -> KnownFinding:
    """An entry of `findings:` in devkit.yaml; the arguments are its keys."""
    return KnownFinding(kind, re.compile(pattern), severity, meaning, cause, tuple(next))


def of_exit_code(code: int) -> Finding | None:
    """What an exit code stands for, when it is one of a signal."""
    known = load_table().exit_codes.get(code)
    if known is None:
        return None
    meaning, cause = known
    return Finding("exit-code", FAILED, meaning, cause, values={"exit_code": str(code)}, consequence=True)


def fill(text: str, values: Mapping[str, str]) -> str:
    """Replace {NAME} by its value; names without one stay, for whoever knows them."""
    return re.sub(r"\{(\w+)\}", lambda m: values.get(m[1], m[0]), text)


def with_app(finding: Finding, app: str) -> Finding:
    """The finding with the app's name in its next commands."""
    values = {"app": app}
    steps = tuple(fill(step, values) for step in finding.next)
    return replace(finding, next=steps, cause=fill(finding.cause, values))


@lru_cache(maxsize=1)
def load_table() -> Table:
    """findings.yaml, read and checked once."""
    import yaml

    text = resources.files("devkit.results").joinpath("findings.yaml").read_text("utf-8")
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    data: dict[str, Any] = yaml.load(text, Loader=loader)
    known = tuple(_known(entry) for entry in data["findings"])
    anchored = [entry for entry in known if not entry.has]
    beginnings = "|".join(_GROUP_NAME.sub("(?:", entry.pattern.pattern) for entry in anchored)
    words = tuple(dict.fromkeys(word for entry in known for word in entry.has))
    exits = {int(code): (meaning, cause) for code, (meaning, cause) in data["exit_codes"].items()}
    return Table(known, re.compile(beginnings), words, exits)


def _known(entry: dict[str, Any]) -> KnownFinding:
    if entry["severity"] not in (FAILED, WARNING, NOTE):
        raise ValueError(f"findings.yaml: {entry['kind']}: no such severity: {entry['severity']}")
    if "has" not in entry and not entry["pattern"].startswith("^"):
        raise ValueError(f"findings.yaml: {entry['kind']}: needs `has:`, as its pattern may match anywhere")
    return KnownFinding(
        kind=entry["kind"],
        pattern=re.compile(entry["pattern"]),
        severity=entry["severity"],
        meaning=entry["meaning"],
        cause=entry.get("cause", ""),
        next=tuple(entry.get("next", ())),
        base=tuple(entry.get("base", ())),
        failed_if=re.compile(entry["failed_if"]) if "failed_if" in entry else None,
        consequence=bool(entry.get("consequence", False)),
        load_only=entry.get("phase") == "load",
        translate=tuple(entry.get("translate", ())),
        has=tuple(entry.get("has", ())),
    )
