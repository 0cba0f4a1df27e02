"""Runs LLDB on this machine: at a prompt on the user's terminal, or through a file of commands."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.errors import FileError, OperationTimeout, UsageError
from devkit.lldb import recipes
from devkit.lldb.platform_commands import quote

if TYPE_CHECKING:
    from devkit.lldb.tools import LldbTools

_CLEAR_DEBUGINFOD = {"DEBUGINFOD_URLS": ""}
STDIN = Path("-")
# Keep the cursor, let all lines scroll again (LLDB 21 and later keep the last one for themselves).
_WHOLE_SCREEN_SCROLLS = "\x1b7\x1b[r\x1b8\n"


def interactive(tools: LldbTools, script: recipes.SessionScript, folder: Path, report: Path) -> int:
    """Give the terminal to LLDB until it ends; its exit code, negative after a signal."""
    file = folder / "session.lldb"
    commands = [
        *recipes.setup_commands(script),
        *recipes.recorded_connect_commands(script),
        f"{recipes.ARRIVE} show",
    ]
    paths.write_atomically(file, recipes.session_file(commands), mode=0o600)
    with _lent_terminal() as ended:
        child = process.start(
            [tools.lldb, "--source-quietly", "-s", file],
            env={**_CLEAR_DEBUGINFOD, "DEVKIT_LLDB_REPORT": str(report)},
            stdin=None,
            stdout=None,
            stderr=None,
            own_group=False,
            die_with_parent=True,
        )
        try:
            code = child.wait()
        except BaseException:
            # LLDB tidies the terminal up when it is asked to end.
            process.end_group(child)
            raise
        if code < 0:
            ended.append(code)
        return code


def batch(
    tools: LldbTools,
    script: recipes.SessionScript,
    source: Path,
    folder: Path,
    report: Path,
    take: Callable[[bytes], None],
    timeout_s: float | None = None,
) -> int:
    """Run a file of LLDB commands; LLDB's exit code, negative after a signal.

    Args:
        source: the file.
        take: is given LLDB's output as it comes.
        timeout_s: LLDB is ended after this long; None: never.

    Raises:
        OperationTimeout: the time was over.
    """
    rest = "detach" if script.attach else "kill"
    commands = [
        *recipes.setup_commands(script),
        *recipes.recorded_connect_commands(script),
        recipes.ARRIVE,
        f"command source --stop-on-error false {quote(source)}",
        f"{recipes.FINISH} {rest}",
    ]
    crashed = ["thread backtrace all", f"{recipes.FINISH} {rest}"]
    file, crash_file = folder / "session.lldb", folder / "crash.lldb"
    paths.write_atomically(file, recipes.session_file(commands), mode=0o600)
    paths.write_atomically(crash_file, recipes.session_file(crashed), mode=0o600)
    child = process.start(
        [tools.lldb, "--no-lldbinit", "--batch", "-s", file, "--source-on-crash", crash_file],
        env={**_CLEAR_DEBUGINFOD, "DEVKIT_LLDB_REPORT": str(report)},
        stdin=subprocess.DEVNULL,
        stderr=subprocess.STDOUT,
        die_with_parent=True,
    )
    assert child.stdout is not None
    over = threading.Event()

    def end() -> None:
        over.set()
        process.end_group(child)

    timer = threading.Timer(timeout_s or 0, end)
    timer.daemon = True
    if timeout_s is not None:
        timer.start()
    try:
        # read1 hands out what is there: the program's output appears as it is printed.
        while chunk := child.stdout.read1(65536):  # type: ignore[attr-defined]
            take(chunk)
        code = child.wait()
        if over.is_set():
            raise OperationTimeout(f"the session did not come to its end within {timeout_s:g} s")
        return code
    except BaseException:
        process.end_group(child)
        raise
    finally:
        timer.cancel()


def check_terminal() -> None:
    """A prompt needs somebody who types.

    Raises:
        UsageError: stdin is no terminal.
    """
    if not sys.stdin.isatty():
        raise UsageError(
            "LLDB's prompt needs a terminal, and stdin is none",
            hints=["--batch FILE runs LLDB commands from a file", "--batch - runs those that come on stdin"],
        )


def plain_file(source: Path, folder: Path) -> Path:
    """LLDB opens its commands by name: what comes through a pipe is written to a file first.

    Args:
        source: the file, or STDIN.

    Raises:
        FileError: the file cannot be read.
    """
    if source.is_file():
        return source.absolute()
    try:
        content = sys.stdin.buffer.read() if source == STDIN else source.read_bytes()
    except OSError as error:
        raise FileError(f"{source} cannot be read", evidence=str(error)) from None
    copy = folder / "commands.lldb"
    paths.write_atomically(copy, content, mode=0o600)
    return copy


@contextlib.contextmanager
def _lent_terminal() -> Iterator[list[int]]:
    """Leaves the terminal as it was, also when LLDB had no time to. Put a code in the list then."""
    ended: list[int] = []
    # Ctrl-C belongs to LLDB, which shares our terminal: it pauses the program.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    state = _terminal_state()
    try:
        yield ended
    finally:
        signal.signal(signal.SIGINT, before)
        if state is not None:
            import termios

            with contextlib.suppress(termios.error, OSError):
                termios.tcsetattr(0, termios.TCSADRAIN, state)
            if ended and sys.stdout.isatty() and os.environ.get("TERM") not in (None, "dumb"):
                output.current().raw(_WHOLE_SCREEN_SCROLLS.encode())


def _terminal_state() -> list[Any] | None:
    try:
        import termios

        return termios.tcgetattr(0)
    except Exception:  # no such module (Windows), no terminal
        return None
