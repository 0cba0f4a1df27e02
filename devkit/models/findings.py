"""What a check of a model folder says: findings, the worst first."""

from __future__ import annotations

from dataclasses import dataclass

ERROR, WARNING, NOTE = "error", "warning", "note"
_ORDER = (ERROR, WARNING, NOTE)


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong, or will surprise.

    Attributes:
        severity: ERROR does not load or gives wrong answers; WARNING is not what was meant, most
            likely; NOTE is worth knowing.
        file: relative to the model folder.
        key: the config key it is about, or None.
        hint: what mends it; empty when nothing can be said.
    """

    severity: str
    file: str
    key: str | None
    what: str
    hint: str = ""

    def as_dict(self) -> dict[str, str | None]:
        """The finding as `--json` prints it."""
        return {
            "severity": self.severity,
            "file": self.file,
            "key": self.key,
            "what": self.what,
            "hint": self.hint or None,
        }


def by_severity(findings: list[Finding]) -> tuple[Finding, ...]:
    """Each finding once, errors first; else in the order in which they were found."""
    return tuple(sorted(dict.fromkeys(findings), key=lambda finding: _ORDER.index(finding.severity)))
