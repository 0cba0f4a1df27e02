"""What the self-test says of each link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from devkit import output
from devkit.errors import HERE

OK, WARNING, FAILED, SKIPPED = "ok", "warning", "FAILED", "skipped"
TITLES = {
    "phone": "phone",
    "debugger": "LLDB and lldb-server",
    "compile": "compile a program for the phone",
    "push": "push it and run it",
    "server": "lldb-server on the phone",
    "launch": "launch: breakpoint, variable, stack, exit code",
    "input": "input for a launched program",
    "attach": "attach, and the program lives on",
    "clean": "nothing is left on the phone",
}


@dataclass(frozen=True)
class TestedLink:
    """One link: `state` is a constant above, `evidence` what was seen, `seconds` how long it took."""

    id: str
    state: str
    evidence: str = ""
    where: str = HERE
    hints: tuple[str, ...] = ()
    seconds: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The link as `--json` prints it."""
        return {**self.__dict__, "title": TITLES[self.id], "hints": list(self.hints)}


def say(link: TestedLink) -> None:
    """Print a link: state, title, what was seen, what to try."""
    sink = output.current()
    style = {OK: "green", WARNING: "yellow", FAILED: "red", SKIPPED: "dim"}[link.state]
    mark = sink.style(f"{link.state:8}", style)
    first, *rest = link.evidence.splitlines() or [""]
    where = f" [{link.where}]" if link.state == FAILED else ""
    sink.note(f"{mark}{TITLES[link.id]}{where}  ({link.seconds:.1f} s)")
    for line in [first, *rest]:
        sink.note(f"        {line}")
    for hint in link.hints:
        sink.note(f"        try: {hint}")
