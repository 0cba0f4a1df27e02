"""One link of `devkit tunnel check` as it was found."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devkit.errors import DevkitError

OK, WARNING, BROKEN, NOT_CHECKED = "ok", "warning", "broken", "not checked"


@dataclass(frozen=True)
class Step:
    """One link as it was found.

    Attributes:
        machine: on which machine it ends: LAPTOP, SERVER, PHONE or the name of a jump host.
        state: OK, WARNING, BROKEN or NOT_CHECKED.
    """

    id: str
    machine: str
    title: str
    state: str
    evidence: str = ""
    hints: tuple[str, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return {**self.__dict__, "hints": list(self.hints)}


def evidence_of(error: DevkitError) -> str:
    """What failed and what was seen, in lines."""
    return error.what + (f"\n{error.evidence}" if error.evidence else "")
