"""The one place that writes LLDB commands: for sessions, batches, --print-commands and editors' adapters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import UsageError
from devkit.lldb import platform_commands
from devkit.lldb.platform_commands import PlatformMode, quote

# Commands of the helper: note the breakpoints, or show where the program stands too; note those without code;
# note how it ended and end what is left.
ARRIVE, EMPTY, FINISH = "devkit-arrive", "devkit-empty", "devkit-finish"
HELPER = Path(__file__).with_name("devkit_inside.py")

# A path may hold colons and blanks; the line number is what follows the last colon.
_FILE_LINE = re.compile(r"^(?P<file>.+):(?P<line>\d+)$")
_FUNCTION = re.compile(r"^[A-Za-z_~][\w:~<>, *&()\[\]+\-=!]*$")


# What a session for an editor says when a debugger may come.
READY = "ready for the debugger: "
# The files in which an editor's adapter finds the commands of a session.
ADAPTER_FILES = SETTINGS_FILE, TARGET_FILE, PROCESS_FILE = ("settings.lldb", "target.lldb", "process.lldb")


@dataclass(frozen=True)
class SessionScript:
    """Everything the commands depend on.

    `program` and `libraries` are the unstripped files on this machine, `search_paths` folders in
    which LLDB looks for what the phone has loaded. With a `launch_plan` (a file for the helper's
    devkit-launch) LLDB launches the program itself, else the server has. `platform` is LLDB's name for
    what the phone is. `source_map` pairs folders of the debug information with those here. With a `mode`
    LLDB goes through lldb-server's platform, and needs no `port`.
    """

    program: Path
    libraries: tuple[Path, ...]
    search_paths: tuple[Path, ...]
    port: int
    platform: str
    breakpoints: tuple[str, ...]
    attach: bool = False
    stop_at_main: bool = True
    launch_plan: Path | None = None
    mode: PlatformMode | None = None
    source_map: tuple[tuple[str, str], ...] = ()


def parse_breakpoint(text: str) -> tuple[str, str | int | None]:
    """'file.cpp:12' → ('file.cpp', 12); 'MNN::run' → ('MNN::run', None).

    Raises:
        UsageError: it is neither.
    """
    match = _FILE_LINE.match(text)
    if match and not text.endswith(":"):
        if int(match["line"]) < 1:
            raise UsageError(
                f"--break {text}: lines are counted from 1", hints=[f"--break {match['file']}:1"]
            )
        return match["file"], int(match["line"])
    if _FUNCTION.match(text):
        return text, None
    raise UsageError(
        f"--break {text} is neither FILE:LINE nor a function",
        hints=["--break CPUMatMul.cpp:42", "--break MNN::Transformer::Llm::response"],
    )


def setting_commands(script: SessionScript) -> list[str]:
    """Settings. Not every LLDB knows every one of them: an error here says nothing."""
    return [
        # A debuginfod server that does not answer holds a session up for minutes.
        "settings clear plugin.symbol-locator.debuginfod.server-urls",
        # Modules come from this machine by build-id, never over the link.
        "settings set target.exec-search-paths " + " ".join(quote(p) for p in script.search_paths),
        *_source_map(script),
        *(platform_commands.setting_commands() if script.mode is not None else []),
    ]


def _source_map(script: SessionScript) -> list[str]:
    pairs = " ".join(f"{quote(before)} {quote(here)}" for before, here in script.source_map)
    return [f"settings set target.source-map {pairs}"] if pairs else []


def target_commands(script: SessionScript) -> list[str]:
    """The target, its symbols and the breakpoints that were asked for."""
    lines = _target(script)
    lines += [f"target modules add {quote(library)}" for library in script.libraries]
    lines += [_breakpoint(text) for text in script.breakpoints]
    return lines


def _target(script: SessionScript) -> list[str]:
    if script.mode is not None:
        return platform_commands.target_commands(script.mode, script.program)
    return [
        # Dependents would be looked up one by one, each a round trip. Left to itself LLDB takes a program
        # of this machine's architecture for one that runs here, and looks its process id up among the
        # processes here: whoever has that number becomes the executable, and no breakpoint works
        # (DynamicLoaderPOSIXDYLD::ResolveExecutableModule).
        f"target create --no-dependents --platform {script.platform} {quote(script.program)}",
    ]


def setup_commands(script: SessionScript) -> list[str]:
    """Everything before the connection: settings, target, symbols, breakpoints."""
    lines = [*setting_commands(script), *target_commands(script)]
    if not script.breakpoints and not script.attach and script.stop_at_main:
        lines.append("breakpoint set --one-shot true --name main")
    return lines


def process_commands(script: SessionScript) -> list[str]:
    """The connection to a process that stands still: at its first instruction, or where it was."""
    if script.launch_plan is not None:
        return [f"command script import {quote(HELPER)}", f"devkit-launch {script.launch_plan}"]
    if script.mode is not None:
        return [platform_commands.process_command(script.mode)]
    return [f"gdb-remote 127.0.0.1:{script.port}"]


def connect_commands(script: SessionScript) -> list[str]:
    """The connection, and for a launch the way to the first breakpoint."""
    return [*process_commands(script), *([] if script.attach else ["process continue"])]


def recorded_connect_commands(script: SessionScript) -> list[str]:
    """`connect_commands` with the helper that records stops.

    The stop of a launch in the dynamic linker is the debugger's, not the user's: it is recorded
    only for an attach.
    """
    load = f"command script import {quote(HELPER)}"
    hook = "target stop-hook add --script-class devkit_inside.StopRecorder"
    connect = process_commands(script)
    if script.attach:
        return [load, hook, *connect]
    return [*([load] if load not in connect else []), *connect, hook, "process continue"]


def adapter_files(
    script: SessionScript, server_major: int | None = None, empty: Path | None = None
) -> dict[str, list[str]]:
    """The commands of a session by file, for an adapter that sets breakpoints in between and continues.

    Args:
        server_major: lldb-server's version, with which the adapter's LLDB compares its own.
        empty: the file that is to name the breakpoints without code.
    """
    load, *process = _asynchronous_process_commands(script)
    compare = [f"devkit-client {server_major}"] if server_major is not None else []
    return {
        SETTINGS_FILE: setting_commands(script),
        TARGET_FILE: target_commands(script),
        PROCESS_FILE: [load, *compare, *process, *([f"{EMPTY} {empty}"] if empty is not None else [])],
    }


def _asynchronous_process_commands(script: SessionScript) -> list[str]:
    """`process_commands` for an LLDB that does not wait by itself."""
    if script.launch_plan is not None:
        return process_commands(script)
    [command] = process_commands(script)
    return [f"command script import {quote(HELPER)}", f"devkit-stopped {command}"]


def adapter_commands(folder: str) -> dict[str, list[str]]:
    """What stands in an editor's settings: it runs the files that a session writes into `folder`.

    Returns:
        The commands before there is a target, those that make it, and those that make the process.
    """
    return {
        "init": [_source(folder, SETTINGS_FILE, stop=False)],
        "target": [_source(folder, TARGET_FILE, stop=True)],
        "process": [_source(folder, PROCESS_FILE, stop=True)],
    }


def _source(folder: str, name: str, *, stop: bool) -> str:
    return f"command source --stop-on-error {str(stop).lower()} {quote(f'{folder}/{name}')}"


def session_file(commands: Sequence[str]) -> str:
    """The text of a file for `lldb -s`."""
    return "\n".join(commands) + "\n"


def _breakpoint(text: str) -> str:
    place, line = parse_breakpoint(text)
    if line is not None:
        return f"breakpoint set --file {quote(str(place))} --line {line}"
    return f"breakpoint set --name {quote(str(place))}"
