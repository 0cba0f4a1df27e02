"""Debugging on the phone as VS Code has it: for each app a few configurations, each with its tasks."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from devkit.lldb.recipes import adapter_commands

if TYPE_CHECKING:
    from devkit.config import AppConfig

CODELLDB, LLDB_DAP = "codelldb", "lldb-dap"
# The input of tasks.json that asks which set of breakpoints.
PRESET_INPUT = "devkit.preset"


@dataclass(frozen=True)
class PhoneSession:
    """One way to debug an app.

    Attributes:
        kind: launch, input, preset, attach, wait or platform.
        name: what VS Code shows, without devkit's mark.
        place: the folder of its commands.
        words: what follows `devkit debug`, `--serve` and its folder included.
        focus: its terminal is typed into: a question is asked there, or the program reads.
        reveal: its terminal is shown: something is to be read there.
        commands: LLDB's commands before the target, for it, and for the process.
    """

    kind: str
    name: str
    place: str
    words: tuple[str, ...]
    focus: bool
    reveal: bool
    commands: dict[str, list[str]]


def phone_sessions(app: AppConfig, folder: str) -> tuple[PhoneSession, ...]:
    """The sessions of an app.

    Args:
        folder: where sessions write their commands, as VS Code names it; each gets a folder below it.
    """
    program = PurePosixPath(app.target or app.name).name
    kinds = (
        ("launch", "on the phone", (), ""),
        ("input", "on the phone, with input", ("--stdin", "-"), "typed"),
        ("preset", "on the phone, breakpoint set", ("--preset", f"${{input:{PRESET_INPUT}}}"), "shown"),
        ("attach", "on the phone, attach", ("--pick",), "typed"),
        ("wait", "on the phone, wait for it", ("--wait-for",), ""),
        ("platform", "on the phone, platform mode", ("--platform",), ""),
    )
    sessions = []
    for kind, title, options, terminal in kinds:
        place = f"{folder}/{app.name}-{kind}"
        words = (app.name, "--serve", place, *options)
        name = f"{app.name} {title}"
        if kind == "wait" and program != app.name:
            name = f"{app.name} {title} ({program})"
        focus, reveal = terminal == "typed", terminal != ""
        sessions.append(PhoneSession(kind, name, place, words, focus, reveal, adapter_commands(place)))
    return tuple(sessions)
