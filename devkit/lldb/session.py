"""One debug session from its parts: server on the phone, relay, LLDB here, and a clean end."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, process
from devkit.errors import PHONE, DebugError, OperationTimeout
from devkit.lldb import client, recipes, version
from devkit.lldb.opening import Opener, OpenSession
from devkit.lldb.platform_commands import explain_unreachable
from devkit.lldb.session_folder import session_folder

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.request import DebugRequest
    from devkit.lldb.tools import LldbTools

# Linux' numbers, which are not every machine's: SIGSTOP; SIGILL TRAP ABRT BUS FPE SEGV SYS.
_SIGSTOP = 19
_CRASHES = (4, 5, 6, 7, 8, 11, 31)


@dataclass(frozen=True)
class DebugResult:
    """How a session went.

    `exit_code` is the program's own (128 + n after signal n), None when it never ended by itself;
    `stops` are dicts with reason, frames, locals and the breakpoint's note, in order; `transcript` is LLDB's
    output;
    `breakpoints` are dicts with place, locations and hits; `transcript` and the end of the other two
    are only there after a batch; `lost` says that LLDB lost the program.
    """

    exit_code: int | None
    stops: tuple[dict[str, Any], ...]
    transcript: str
    lldb_exit_code: int
    relayed_bytes: int
    breakpoints: tuple[dict[str, Any], ...] = ()
    lost: bool = False

    def as_dict(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return {
            "program_exit": self.exit_code,
            "stops": list(self.stops),
            "breakpoints": list(self.breakpoints),
            "transcript": self.transcript,
            "relayed_bytes": self.relayed_bytes,
        }


def debug(
    device: Device,
    tools: LldbTools,
    request: DebugRequest,
    *,
    show: bool = True,
    on_output: Callable[[bytes], None] = lambda data: None,
) -> DebugResult:
    """Run one session to its end. Afterwards nothing of it is left on either side.

    Args:
        show: pass LLDB's output of a batch through as it comes.
        on_output: is given what the program prints, after it is shown; of a batch, LLDB's output as well.

    Raises:
        DebugError: lldb-server or LLDB could not do their part.
        UsageError: a breakpoint cannot be understood, or there is no terminal for a prompt.
        OperationTimeout: a batch took longer than request.timeout_s.
    """
    for text in request.breakpoints:
        recipes.parse_breakpoint(text)
    if request.batch is None:
        client.check_terminal()
    opener = Opener(device, tools, request)
    transcript = _Transcript(show and request.batch is not None, on_output)

    def past_lldb(data: bytes) -> None:
        """At a prompt the program's output goes straight to the user."""
        output.current().raw(data)
        on_output(data)

    program_says = past_lldb if request.batch is None else transcript.add
    with session_folder() as folder:
        report = folder / "report.json"
        for name, texts in (("pending.json", request.pending), ("notes.json", request.notes)):
            if any(texts):
                (folder / name).write_text(json.dumps(texts), "utf-8")
        commands = None if request.batch is None else client.plain_file(request.batch, folder)
        again = True
        while again:
            with opener.open(folder, program_says) as session:
                if commands is None:
                    lldb_exit = client.interactive(tools, session.script, folder, report)
                else:
                    try:
                        lldb_exit = client.batch(
                            tools, session.script, commands, folder, report, transcript.add, request.timeout_s
                        )
                    except OperationTimeout as error:
                        raise _timed_out(error, report, transcript.text) from None
                _tell_round_trips(device, session)
                moved = session.relay.bytes_up + session.relay.bytes_down
                result = _result(report, lldb_exit, transcript.text, moved, launched=not request.attaches)
                # Before our own end of the session, which closes the connection, too.
                lost = session.server.broke_off() if result.lost else session.server.lost
            again = opener.falls_back(folder)
    _check_end(result, tools, session.server.log, lost, moved, opener.version_clash)
    return result


def _timed_out(error: OperationTimeout, report: Path, transcript: str) -> OperationTimeout:
    stops = _result(report, 0, "", 0, launched=True).stops
    frame = stops[-1]["frames"][0] if stops and stops[-1]["frames"] else None
    where = f"the last stop was in {frame['function']}" if frame else "the program never stopped"
    said = process.tail(transcript) or "LLDB printed nothing"
    return OperationTimeout(
        error.what, evidence=f"{where}\n{said}", hints=["devkit debug … -v shows the programs it runs"]
    )


def _tell_round_trips(device: Device, session: OpenSession) -> None:
    saved = getattr(session.relay, "saved_round_trips", 0)
    output.current().detail(
        f"{device.round_trips} requests waited for the phone; {saved} of LLDB's questions did not have to"
    )


class _Transcript:
    """What a batch prints; it may come from two threads."""

    def __init__(self, show: bool, on_output: Callable[[bytes], None]) -> None:
        self._show = show
        self._on_output = on_output
        self._lock = threading.Lock()
        self._collected = bytearray()

    def add(self, chunk: bytes) -> None:
        with self._lock:
            self._collected += chunk
            if self._show:
                output.current().raw(chunk)
            self._on_output(chunk)

    @property
    def text(self) -> str:
        return self._collected.decode("utf-8", "replace")


def _check_end(
    result: DebugResult, tools: LldbTools, log: str, lost: str | None, moved: int, clash: str | None
) -> None:
    """Say what ended the session when it was neither the user nor the program.

    Raises:
        DebugError: LLDB, lldb-server or the connection ended in the middle.
    """
    hints = ["devkit debug … -v shows the programs it runs", f"{process.show([tools.lldb])} --version"]
    code = result.lldb_exit_code
    # The likely reason, where there is one.
    seen = [clash] if clash else []
    if clash:
        hints.insert(0, version.PIN_HINT)
    unreachable = explain_unreachable(result.transcript) if not result.stops else None
    if unreachable:
        raise DebugError(
            "LLDB reached the platform on the phone, but not its second port: that of the program",
            evidence="\n".join([*seen, unreachable]),
            hints=["leave --platform out: without it there is only one connection", *hints],
        )
    if not moved:
        raise DebugError(
            f"LLDB never connected to the phone ({_how(code)})",
            evidence="\n".join([*seen, process.tail(result.transcript) or "LLDB printed nothing"]),
            hints=hints,
        )
    if lost:
        raise DebugError(
            "the connection to the phone broke off in the middle of the session",
            where=PHONE,
            evidence=lost,
            hints=["devkit device list", "check the cable or the network, then run the command again"],
        )
    if code < 0:
        raise DebugError(
            f"LLDB was ended in the middle of the session ({_how(code)})",
            evidence="\n".join(seen) or None,
            hints=hints,
        )
    if result.lost:
        raise DebugError(
            "lldb-server ended in the middle of the session",
            where=PHONE,
            evidence="\n".join([*seen, process.tail(log) or "it printed nothing"]),
            hints=[
                *([version.PIN_HINT] if clash else []),
                "devkit device shell -- df -h /data; cat /proc/meminfo",
                "run the command again",
            ],
        )


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {-code}"


def _result(report: Path, lldb_exit: int, transcript: str, moved: int, *, launched: bool) -> DebugResult:
    try:
        data = json.loads(report.read_text("utf-8"))
    except (OSError, ValueError):
        data = {}
    stops = tuple(data.get("stops", ()))
    if launched and stops and stops[0].get("signal") == _SIGSTOP:
        # The debugger's own stop at the entry; LLDB may report it after the hook was added.
        stops = stops[1:]
    exit_code = data.get("exit_code")
    last_signal = stops[-1].get("signal") if stops else None
    if exit_code and last_signal == exit_code:
        # LLDB gives the bare number of the signal that ended the program.
        exit_code += 128
    elif data.get("killed") and last_signal in _CRASHES:
        # It stands where it crashed, and would have ended there without a debugger.
        exit_code = 128 + last_signal
    return DebugResult(
        exit_code=exit_code,
        lost=bool(data.get("lost")),
        breakpoints=tuple(data.get("breakpoints", ())),
        stops=stops,
        transcript=transcript,
        lldb_exit_code=lldb_exit,
        relayed_bytes=moved,
    )
