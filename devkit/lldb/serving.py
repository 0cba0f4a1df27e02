"""Sessions for an editor: everything but LLDB, which is the editor's own debug adapter.

A folder takes the commands the adapter has to run, as files with fixed names: the editor's settings
name them, and need no port or socket that changes with each session.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output, paths, process
from devkit.errors import PHONE, DebugError
from devkit.lldb import recipes
from devkit.lldb.opening import PLAN_FILE, Opener, OpenSession
from devkit.tunnels.relay import open_listener

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.request import DebugRequest
    from devkit.lldb.tools import LldbTools

# How long an editor may take to start its adapter.
CLIENT_TIMEOUT_S = 600.0
# How long one may take that restarts, and how long one may take to leave.
RESTART_S = 5.0
CONNECTED_GRACE_S = 1.0
# How long a session may take that was asked to end, before it is told to by a signal.
ASKED_S = 3.0
END_TIMEOUT_S = 15.0
_POLL_S = 0.2
CONNECTED_FILE, BUSY_FILE, END_FILE = "connected", "busy", "end"
# Where the helper names the editor's breakpoints that have no code.
EMPTY_FILE = "empty.json"
_MARKS = (CONNECTED_FILE, BUSY_FILE, END_FILE, EMPTY_FILE)
_MOST_EXPLAINED = 20
Explain = Callable[[Sequence[str]], Sequence[str]]


def serve(
    device: Device,
    tools: LldbTools,
    request: DebugRequest,
    folder: Path,
    on_output: Callable[[bytes], None] = lambda data: None,
    explain: Explain = lambda places: (),
) -> None:
    """Write a session's commands into `folder` and keep it for its debugger, until that has gone for good.

    The line that starts with recipes.READY says on stdout that a debugger may come. An adapter that
    restarts a session lets go of the process and runs the commands for it again: it is given another
    session when it comes back within RESTART_S. What is written is removed at the end; so is the folder,
    when nothing else is in it.

    Args:
        on_output: is given what the program prints here, after it is shown.
        explain: says of breakpoints (FILE:LINE or a function) why they have no code; one sentence each.

    Raises:
        DebugError: lldb-server could not do its part, nobody came, or another session uses the folder.
    """
    where = f"{request.name or request.program.name} on {device.serial}"

    def says(data: bytes) -> None:
        output.current().raw(data)
        on_output(data)

    with _alone(folder, request.name), contextlib.closing(open_listener()) as listener:
        opener = Opener(device, tools, request)
        empty = _EmptyBreakpoints(folder / EMPTY_FILE, explain)
        first = True
        with _made(folder):
            while first or opener.is_prepared_ahead or _somebody_comes(listener, folder):
                with opener.open(folder, says, listener) as session:
                    if first:
                        _write_commands(session.script, folder, opener.server_major())
                        output.current().raw(f"{recipes.READY}{where}\n".encode())
                    goes_on = _keep(session, folder, CLIENT_TIMEOUT_S if first else RESTART_S, empty)
                    # Leaving a far phone, and coming again, may last longer than who ends it waits.
                    (folder / BUSY_FILE).touch()
                if not goes_on:
                    return
                first = False
                if opener.falls_back(folder):
                    output.current().warn("start it again: the program is then made to wait for the debugger")
                    return
                if opener.serves_restarts:
                    return


def end_serving(folder: Path) -> bool:
    """End the session that uses `folder`, if there is one and no debugger is connected to it.

    Editors run this also before they restart a session, whose debugger is still there.

    Returns:
        Whether it has been ended.

    Raises:
        DebugError: it does not end.
    """
    file = _lock_file(folder)
    connected = time.monotonic() + CONNECTED_GRACE_S
    while (folder / CONNECTED_FILE).exists() and not _is_free(file):
        if time.monotonic() > connected:
            return False
        time.sleep(_POLL_S / 4)
    if _is_free(file):
        return False
    with contextlib.suppress(OSError):  # no folder yet: it still builds, and does not look
        (folder / END_FILE).touch()
        if _ends_as_asked(file, folder):
            return True
    with contextlib.suppress(OSError, ValueError):
        os.kill(int(file.read_text("utf-8")), signal.SIGTERM)
    if _becomes_free(file, END_TIMEOUT_S):
        return True
    raise DebugError(f"the debug session does not end within {END_TIMEOUT_S:g} s", evidence=_holder(file))


@contextlib.contextmanager
def announced(folder: Path) -> Iterator[None]:
    """Say that a session will use `folder`, while it is still built and deployed for."""
    from devkit.ndk import lock

    file = _lock_file(folder).with_suffix(".announced")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.touch()
    with lock.if_free(file):
        yield


def is_begun(folder: Path) -> bool:
    """Whether a session uses `folder`, or one is announced."""
    file = _lock_file(folder)
    return not (_is_free(file) and _is_free(file.with_suffix(".announced")))


class _EmptyBreakpoints:
    """Tells why an editor's breakpoints have no code, each once, as compilers write: a link, a problem."""

    def __init__(self, file: Path, explain: Explain) -> None:
        self._file, self._explain = file, explain
        self._told: set[str] = set()

    def look(self) -> None:
        try:
            places = json.loads(self._file.read_text("utf-8"))
            self._file.unlink()
        except (OSError, ValueError):
            return
        new = [place for place in dict.fromkeys(places) if place not in self._told][:_MOST_EXPLAINED]
        self._told.update(new)
        for place in new:
            # One by one: what cannot be understood keeps no other from being told.
            for why in self._explain([place]):
                output.current().raw(f"{place}: warning: no code is at this breakpoint: {why}\n".encode())


def _keep(session: OpenSession, folder: Path, patience_s: float, empty: _EmptyBreakpoints) -> bool:
    """Wait until the debugger has come and gone. False: it did not come again, or is not to.

    Raises:
        DebugError: it never came, or the phone's side broke off.
    """
    (folder / BUSY_FILE).unlink(missing_ok=True)
    deadline = time.monotonic() + patience_s
    while not session.relay.connected.wait(_POLL_S):
        if (folder / END_FILE).exists():
            return False
        if session.server.lost:
            raise _broke_off(session.server.lost)
        if session.server.has_ended:
            raise DebugError(
                "lldb-server ended before a debugger came",
                where=PHONE,
                evidence=process.tail(session.server.log) or None,
                hints=["devkit run shows whether the program starts at all"],
            )
        if time.monotonic() > deadline:
            if patience_s == RESTART_S:
                return False
            raise DebugError(
                f"no debugger came within {patience_s:g} s",
                hints=["start the editor's configuration; it starts this command itself"],
            )
    (folder / CONNECTED_FILE).touch()
    try:
        # Waited for in pieces: signals are handled in between.
        while not session.relay.ended.wait(_POLL_S):
            empty.look()
        empty.look()
    finally:
        (folder / CONNECTED_FILE).unlink(missing_ok=True)
    # A phone that does not answer is waited for, longer than who ends the session waits.
    (folder / BUSY_FILE).touch()
    if lost := session.server.broke_off():
        raise _broke_off(lost)
    if session.server.was_killed:
        raise DebugError(
            "lldb-server ended in the middle of the session",
            where=PHONE,
            evidence=process.tail(session.server.log) or None,
            hints=["devkit device shell -- df -h /data; cat /proc/meminfo", "start it again"],
        )
    return True


def _somebody_comes(listener: socket.socket, folder: Path) -> bool:
    (folder / BUSY_FILE).unlink(missing_ok=True)
    deadline = time.monotonic() + RESTART_S
    while time.monotonic() < deadline and not (folder / END_FILE).exists():
        if select.select([listener], [], [], _POLL_S)[0]:
            return True
    return False


def _write_commands(script: recipes.SessionScript, folder: Path, server_major: int | None) -> None:
    for name, commands in recipes.adapter_files(script, server_major, folder / EMPTY_FILE).items():
        paths.write_atomically(folder / name, recipes.session_file(commands), mode=0o600)


def _broke_off(lost: str) -> DebugError:
    return DebugError(
        "the connection to the phone broke off in the middle of the session",
        where=PHONE,
        evidence=lost,
        hints=["devkit device list", "check the cable or the network, then start it again"],
    )


@contextlib.contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """Nobody else uses the folder. A session that is just ending is waited for.

    Raises:
        DebugError: another one goes on.
    """
    from devkit.ndk import lock

    file = _lock_file(folder)
    deadline = time.monotonic() + END_TIMEOUT_S
    while not _is_free(file):
        if time.monotonic() > deadline:
            raise DebugError(
                f"{name or 'this program'} is being debugged already",
                evidence=_holder(file),
                hints=[
                    "end that session in the editor",
                    "end it from a terminal: the same command with --end",
                ],
            )
        time.sleep(_POLL_S)
    with lock.exclusive(file, f"debugging {name}"):
        yield


@contextlib.contextmanager
def _made(folder: Path) -> Iterator[None]:
    folder.mkdir(parents=True, exist_ok=True)
    for name in _MARKS:
        (folder / name).unlink(missing_ok=True)
    try:
        yield
    finally:
        for name in (*recipes.ADAPTER_FILES, PLAN_FILE, *_MARKS):
            (folder / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # the user keeps something there
            folder.rmdir()


def _is_free(file: Path) -> bool:
    from devkit.ndk import lock

    with lock.if_free(file) as free:
        return free


def _becomes_free(file: Path, within_s: float) -> bool:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if _is_free(file):
            return True
        time.sleep(_POLL_S / 4)
    return False


def _ends_as_asked(file: Path, folder: Path) -> bool:
    """Whether it ends by itself. While it builds it does not look; while it is busy it is late."""
    began = asked = time.monotonic()
    while (now := time.monotonic()) < asked + ASKED_S and now < began + END_TIMEOUT_S:
        if _is_free(file):
            return True
        if (folder / BUSY_FILE).exists():
            asked = now
        time.sleep(_POLL_S / 4)
    return False


def _lock_file(folder: Path) -> Path:
    key = hashlib.sha256(os.fsencode(os.path.abspath(folder))).hexdigest()[:16]
    return paths.state_dir() / "serve" / f"{key}.lock"


def _holder(file: Path) -> str | None:
    try:
        return f"process {file.read_text('utf-8').strip()}"
    except OSError:
        return None
