"""A program that ended before it came to a breakpoint: why, as far as its output and its end tell."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from devkit.process import tail
from devkit.runtime.run import signal_name

# What a dynamic linker prints before main: bionic's, then glibc's.
_LINKER = re.compile(r"^.*(?:CANNOT LINK EXECUTABLE|error while loading shared libraries).*$", re.MULTILINE)
# What LLDB prints between the program's lines: its own words, and the place of a stop.
_LLDB_SAYS = re.compile(
    r"^(?:\(lldb\)|Process \d+ (?:resuming|exited|stopped|launched)"
    r"|\* thread #| +frame #|(?:->)? +0x|\S+`\S+:$)"
)
# Between these two the program ran for the first time.
_STARTED, _ARRIVED = "\n(lldb) process continue\n", "\n(lldb) devkit-arrive"
_SHOWN_LINES = 5


@dataclass(frozen=True)
class EarlyEnd:
    """One sentence, the lines of output that show it, and the next commands."""

    what: str
    evidence: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """All of it, for a warning."""
        lines = [f"  | {line}" for line in self.evidence] + [f"  try: {hint}" for hint in self.hints]
        return "\n".join([self.what, *lines])


def explain_early_end(exit_code: int | None, transcript: str, app: str, args: Sequence[str] = ()) -> EarlyEnd:
    """Why no breakpoint was hit, although there was code at them.

    Args:
        exit_code: the program's own, 128 + n after signal n; None when it did not end by itself.
        transcript: LLDB's output with the program's in between.
        app: for the hints.
        args: what the program was started with.
    """
    run = f"devkit run {app}" + (" -- …" if args else "")
    linker = _LINKER.search(transcript)
    if linker is not None and exit_code not in (None, 0):
        return EarlyEnd(
            f"the program ended before main (exit code {exit_code}): the phone's linker refused it",
            (linker[0].strip(),),
            (f"devkit deploy {app} --dry-run shows what travels, and why", run),
        )
    first = transcript.partition(_STARTED)[2].partition(_ARRIVED)[0]
    said = [line for line in first.splitlines() if line.strip() and not _LLDB_SAYS.match(line)]
    evidence = tuple(tail("\n".join(said), _SHOWN_LINES).splitlines())
    if exit_code is None:
        return EarlyEnd("the program never came to a breakpoint: the session ended while it ran", evidence)
    name = signal_name(exit_code)
    if name is not None:
        return EarlyEnd(
            f"the program never came to a breakpoint: {name} ended it",
            evidence,
            ("thread backtrace in the --batch file shows where",),
        )
    how = "it ended normally" if exit_code == 0 else f"it ended with exit code {exit_code}"
    return EarlyEnd(
        f"the program never came to a breakpoint: {how}",
        evidence,
        (f"{run} shows the whole output", "--break main, then step towards the place with `next`"),
    )
