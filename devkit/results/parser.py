"""What all parsers have in common."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from devkit.results.model import FAILED, Finding, Measurement

# Beyond it a parser only counts: an output may go on for days.
MAX_MEASUREMENTS = 20_000


class Parser:
    """Reads one program's output line by line.

    Attributes:
        name: as in `results:` of devkit.yaml.
        programs: names of programs whose output this is, as patterns of whole names.
        signature: a line that only this program prints, for logs whose program is unknown.
        long_lines: it wants lines in full; others get their first 4096 characters.
        headline: names of measurements that a short summary shows; empty for all.
        logcat_tag: where its numbers go when the engine was built to log; "" when they cannot.
        free_text: the output holds text nobody vouches for (a language model's answer).
    """

    name = ""
    programs: tuple[str, ...] = ()
    signature: re.Pattern[str] | None = None
    long_lines = False
    headline: tuple[str, ...] = ()
    logcat_tag = ""
    free_text = False

    def __init__(self) -> None:
        self.measured: list[Measurement] = []
        self.dropped = 0

    def line(self, text: str) -> None:
        """Read the next line."""
        raise NotImplementedError

    def findings(self) -> Sequence[Finding]:
        """What the parser itself concludes, at the end of the output."""
        return ()

    def finish(self) -> None:
        """The output has ended."""

    @property
    def in_free_text(self) -> bool:
        """Whether lines that come now are text nobody vouches for."""
        return False

    @property
    def may_have_none(self) -> bool:
        """Whether this output rightly holds no measurement."""
        return False

    def add(
        self,
        name: str,
        value: float | None,
        unit: str = "",
        labels: Mapping[str, str] | None = None,
        spread: float | None = None,
    ) -> None:
        """Keep one measurement."""
        if len(self.measured) >= MAX_MEASUREMENTS:
            self.dropped += 1
            return
        self.measured.append(Measurement(name, value, unit, dict(labels or {}), spread))


def fell_back(asked: str, used: str, line: str = "", number: int = 0) -> Finding:
    """The finding for a program that ran on another backend than it was told to."""
    return Finding(
        "backend-fell-back",
        FAILED,
        f"it ran on {used} although {asked} was asked for",
        "the backend is not built into the deployed libraries, its library did not travel, or the phone "
        "refused it; the numbers are those of " + used,
        ("devkit deploy {app} --dry-run shows the libraries that travel", "devkit build --explain"),
        line,
        number,
        {"asked": asked, "used": used},
    )
