"""LLDB's platform mode as commands: it starts or joins the program itself, through lldb-server's platform."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

# The plugin that speaks to an adb server, and the one that needs two ports with the phone's numbers.
ANDROID, LINUX = "remote-android", "remote-linux"
_UNREACHABLE = re.compile(
    r"^.*(?:failed to connect(?: to)? port|failed to get reply to handshake packet).*$", re.MULTILINE | re.I
)


@dataclass(frozen=True)
class PlatformMode:
    """What the commands of this mode depend on.

    Attributes:
        plugin: ANDROID or LINUX.
        url: where the platform listens; for ANDROID its host is the serial.
        environment: variables of LLDB itself, which the plugin reads.
        program: the program's path on the phone.
        pid: join this process; None launches the program.
        working_dir, args, env: of a program that is launched; it has no variables but these.
        terminal: of the phone, for its input and output; None: LLDB shows its output, and it reads nothing.
    """

    plugin: str
    url: str
    environment: Mapping[str, str]
    program: str
    pid: int | None = None
    working_dir: str = ""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    terminal: str | None = None


def setting_commands() -> list[str]:
    """Settings that keep files from travelling."""
    return [
        # Else all libraries are pulled before an attach is answered: 34 MB for 200 of them.
        "settings set platform.use-module-cache false",
        # Else a launch replaces the phone's stripped program by the one here.
        "settings set target.auto-install-main-executable false",
    ]


def target_commands(mode: PlatformMode, program: Path) -> list[str]:
    """The connection to the platform, and the target on it."""
    variables = ", ".join(f"{name!r}: {value!r}" for name, value in mode.environment.items())
    return [
        *([f"script import os; os.environ.update({{{variables}}})"] if variables else []),
        f"platform select {mode.plugin}",
        f"platform connect {mode.url}",
        # With --platform it would be another platform, one that is not connected.
        f"target create --no-dependents --remote-file {quote(mode.program)} {quote(program)}",
    ]


def process_command(mode: PlatformMode) -> str:
    """Joins the process, or launches the program and stops it at its first instruction."""
    if mode.pid is not None:
        return f"process attach --pid {mode.pid}"
    words = ["process launch --stop-at-entry"]
    # Containers and some phones refuse to switch address randomization off.
    words += ["--disable-aslr false", f"--working-dir {quote(mode.working_dir)}"]
    # A line is a command: what holds one cannot be given on.
    words += [f"--environment {quote(f'{k}={v}')}" for k, v in mode.env.items() if "\n" not in v]
    if mode.terminal is not None:
        words += [f"--{stream} {mode.terminal}" for stream in ("stdin", "stdout", "stderr")]
    if mode.args:
        words += ["--", *(quote(arg) for arg in mode.args)]
    return " ".join(words)


def explain_unreachable(transcript: str) -> str | None:
    """Why LLDB reached the platform but not the program: the second connection; None when it did.

    Of the two ports of this mode the second one is what people forget to forward.
    """
    found = _UNREACHABLE.search(transcript)
    return found[0].strip() if found else None


def quote(path: Path | str) -> str:
    """A word for LLDB's command parser: in double quotes, with \\ and \" escaped."""
    text = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("`", "\\`")
    return f'"{text}"'
