"""Lets a person pick one of the phone's processes at a terminal."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from devkit import output
from devkit.device.processes import ProcessEntry
from devkit.errors import PHONE, DeviceError, UsageError

_SHOWN = 30
_COMMAND_CHARS = 70


def pick_process(entries: Sequence[ProcessEntry], *, first: str | None = None) -> ProcessEntry:
    """Ask on stderr which process; answered by a line's number, a pid, or a part of a name.

    Args:
        first: a program's name; its processes come first, and Enter alone takes the newest of them.

    Raises:
        UsageError: nobody is there to answer.
        DeviceError: the phone shows no processes.
    """
    entries = [entry for entry in entries if entry.cmdline]  # the others are the kernel's own
    if not entries:
        raise DeviceError("the phone shows no processes", where=PHONE, hints=["devkit device shell -- ps -A"])
    shown = _ordered(entries, first)
    default = shown[0] if first is not None and shown[0].program == first else None
    while True:
        _show(shown)
        answer = _ask(default)
        if not answer and default is not None:
            return default
        if answer.isdigit() and 1 <= int(answer) <= min(len(shown), _SHOWN):
            return shown[int(answer) - 1]
        found = _matching(entries, answer)
        if len(found) == 1:
            return found[0]
        if found:
            shown, default = _ordered(found, first), None
        else:
            _say(f"nothing on the phone matches {answer}" if answer else "a number, or a part of a name")


def _ordered(entries: Sequence[ProcessEntry], first: str | None) -> list[ProcessEntry]:
    """The wanted ones, then the others; newest first."""
    return sorted(entries, key=lambda e: (e.program != first, -e.pid))


def _matching(entries: Sequence[ProcessEntry], answer: str) -> list[ProcessEntry]:
    if answer.isdigit():
        return [entry for entry in entries if entry.pid == int(answer)]
    return [e for e in entries if answer and answer.lower() in " ".join(e.cmdline).lower()]


def _show(entries: Sequence[ProcessEntry]) -> None:
    rows = [
        (str(number), str(e.pid), e.user, " ".join(e.cmdline)[:_COMMAND_CHARS])
        for number, e in enumerate(entries[:_SHOWN], start=1)
    ]
    _say(output.table([tuple(row) for row in rows], ("#", "PID", "USER", "COMMAND")).rstrip())
    if len(entries) > _SHOWN:
        _say(f"and {len(entries) - _SHOWN} more: type a part of the name")


def _say(text: str) -> None:
    # A question, not a note: it is asked with --quiet, too.
    sys.stderr.write(text + "\n")


def _ask(default: ProcessEntry | None) -> str:
    usual = f" [{default.program}, {default.pid}]" if default else ""
    sys.stderr.write(f"which process? number, or part of its name{usual}: ")
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise UsageError(
            "which process is not known: nobody answers",
            hints=["devkit device ps lists them", "name one: --attach PID"],
        )
    return line.strip()
