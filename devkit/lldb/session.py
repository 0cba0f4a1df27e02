"""One debug session from its parts: server on the phone, relay, LLDB here, and a clean end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import posixpath
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.errors import DebugError
from devkit.lldb import recipes
from devkit.lldb.phone_terminal import PhoneTerminal
from devkit.lldb.server import FOLDER, LaunchRefused, LldbServer, push_server, server_command
from devkit.lldb.sysroot import mini_sysroot
from devkit.symbols import read_elf
from devkit.tunnels import Relay

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.tools import LldbTools
    from devkit.runtime.run import Launch

_SIGSTOP = 19  # Linux's number, which is not every machine's
_CLEAR_DEBUGINFOD = {"DEBUGINFOD_URLS": ""}


@dataclass(frozen=True)
class DebugRequest:
    """What to debug.

    `program` and `libraries` are the unstripped files on this machine, `search_paths` folders that
    hold nothing but files made for the phone; exactly one of `launch` and `attach_pid` is given;
    `batch` is a file of LLDB commands to run instead of a prompt.
    """

    program: Path
    libraries: tuple[Path, ...]
    search_paths: tuple[Path, ...]
    device_dir: str
    launch: Launch | None = None
    attach_pid: int | None = None
    breakpoints: tuple[str, ...] = ()
    batch: Path | None = None


@dataclass(frozen=True)
class DebugResult:
    """How a session went.

    `exit_code` is the program's own (128 + n after signal n), None when it never ended by itself;
    `stops` are dicts with reason, frames and locals, in order; `transcript` is LLDB's output (only
    collected for a batch).
    """

    exit_code: int | None
    stops: tuple[dict[str, Any], ...]
    transcript: str
    lldb_exit_code: int
    relayed_bytes: int

    def as_dict(self) -> dict[str, Any]:
        """The result as `--json` prints it."""
        return {
            "program_exit": self.exit_code,
            "stops": list(self.stops),
            "transcript": self.transcript,
            "relayed_bytes": self.relayed_bytes,
        }


def debug(device: Device, tools: LldbTools, request: DebugRequest, *, show: bool = True) -> DebugResult:
    """Run one session to its end. Afterwards nothing of it is left on either side.

    Args:
        show: pass LLDB's output of a batch through as it comes.

    Raises:
        DebugError: lldb-server or LLDB could not do their part.
        UsageError: a breakpoint cannot be understood.
    """
    for text in request.breakpoints:
        recipes.parse_breakpoint(text)
    remote_server = push_server(device, tools, request.device_dir)
    sysroot = mini_sysroot(device, read_elf(request.program).interpreter)
    # A reduced phone lives where address randomization often cannot be switched off.
    lldb_launches = request.launch is not None and device.is_reduced
    session = _Session(device, tools, request, remote_server, sysroot, show)
    if lldb_launches:
        return session.run(lldb_launches=True)
    try:
        return session.run(lldb_launches=False)
    except LaunchRefused as error:
        output.current().detail(f"{error.evidence}: LLDB launches the program instead")
        return session.run(lldb_launches=True)


def render_manual_commands(
    tools: LldbTools, request: DebugRequest, *, adb: Sequence[str], port: int = 5039
) -> str:
    """The session as lines a person can paste: start, forward, LLDB. Nothing is done.

    Args:
        adb: the adb program and its options for this phone.
        port: the local port of the shown forward (devkit itself needs none).
    """
    from devkit.device import quote

    name = "devkit-manual"
    server = posixpath.join(request.device_dir, FOLDER, "lldb-server")
    script = _script(request, paths.cache_dir() / "sysroot", port)
    command = server_command(server, name, request.launch, request.attach_pid)
    lldb = [str(tools.lldb)]
    for line in recipes.setup_commands(script) + recipes.connect_commands(script):
        lldb += ["-o", line]
    return "\n".join(
        [
            "# on the phone, in a terminal of its own:",
            process.show([*adb, "shell", quote(["mkdir", "-p", posixpath.dirname(server)])]),
            process.show([*adb, "push", str(tools.server), server]),
            process.show([*adb, "shell", f"chmod 755 {quote([server])}; {command}"]),
            "# here:",
            process.show([*adb, "forward", f"tcp:{port}", f"localabstract:{name}"]),
            process.show(lldb),
        ]
    )


class _Session:
    """The parts of a session; `run` puts them together for one of the two ways to launch."""

    def __init__(
        self,
        device: Device,
        tools: LldbTools,
        request: DebugRequest,
        remote_server: str,
        sysroot: Path,
        show: bool,
    ) -> None:
        self._device = device
        self._tools = tools
        self._request = request
        self._remote_server = remote_server
        self._sysroot = sysroot
        self._show = show and request.batch is not None

    def run(self, *, lldb_launches: bool) -> DebugResult:
        """Run it.

        Args:
            lldb_launches: lldb-server starts without the program, and LLDB has it launched with the
                phone's randomized addresses, on a terminal of the phone.

        Raises:
            LaunchRefused: lldb-server cannot launch it itself.
            DebugError: as `debug`.
        """
        request = self._request
        transcript = _Transcript(self._show)
        server = LldbServer(
            self._device,
            self._remote_server,
            launch=request.launch,
            attach_pid=request.attach_pid,
            waits=lldb_launches,
        )
        with _session_folder() as folder, server, Relay(server.connect()) as relay:
            script = _script(request, self._sysroot, relay.port)
            report = folder / "report.json"
            with contextlib.ExitStack() as stack:
                if lldb_launches:
                    terminal = stack.enter_context(
                        PhoneTerminal(self._device, self._program_says(transcript))
                    )
                    plan = _launch_plan(request, self._environment(), relay.port, terminal.path)
                    file = folder / "launch.json"
                    paths.write_atomically(file, json.dumps(plan), mode=0o600)
                    script = dataclasses.replace(script, launch_plan=file)
                if request.batch is None:
                    lldb_exit = _interactive(self._tools, script, folder, report)
                else:
                    lldb_exit = _batch(self._tools, script, request.batch, folder, report, transcript)
            moved = relay.bytes_up + relay.bytes_down
            result = _result(report, lldb_exit, transcript.text, moved, launched=request.attach_pid is None)
            if request.batch is not None and not moved:
                raise DebugError(
                    "LLDB never connected to the phone",
                    evidence=process.tail(transcript.text),
                    hints=["devkit debug … --debug -v shows the commands", f"{self._tools.lldb} --version"],
                )
            return result

    def _environment(self) -> dict[str, str]:
        """The phone's own variables: a program that LLDB launches has only those it is given."""
        lines = self._device.shell("env -0").stdout.decode("utf-8", "surrogateescape").split("\0")
        return {name: value for name, found, value in (line.partition("=") for line in lines) if found}

    def _program_says(self, transcript: _Transcript) -> Callable[[bytes], None]:
        # At a prompt the program's output goes past LLDB, straight to the user.
        return output.current().raw if self._request.batch is None else transcript.add


class _Transcript:
    """What a batch prints; it may come from two threads."""

    def __init__(self, show: bool) -> None:
        self._show = show
        self._lock = threading.Lock()
        self._collected = bytearray()

    def add(self, chunk: bytes) -> None:
        with self._lock:
            self._collected += chunk
            if self._show:
                output.current().raw(chunk)

    @property
    def text(self) -> str:
        return self._collected.decode("utf-8", "replace")


def _launch_plan(
    request: DebugRequest, environment: dict[str, str], port: int, terminal: str
) -> dict[str, Any]:
    """What the helper's devkit-launch reads. In a batch the program gets no input."""
    launch = request.launch
    assert launch is not None
    return {
        "url": f"connect://127.0.0.1:{port}",
        "program": launch.program,
        "args": list(launch.args),
        "env": [f"{key}={value}" for key, value in {**environment, **launch.environment()}.items()],
        "folder": launch.folder,
        "stdin": terminal if request.batch is None else "/dev/null",
        "stdout": terminal,
        "stderr": terminal,
    }


def _script(request: DebugRequest, sysroot: Path, port: int) -> recipes.SessionScript:
    # gdb-remote takes a library of the right name with the wrong build-id silently: the phone's own
    # files come first, and no folder of this machine's system is searched.
    return recipes.SessionScript(
        program=request.program,
        libraries=request.libraries,
        search_paths=(sysroot, *request.search_paths),
        port=port,
        breakpoints=request.breakpoints,
        attach=request.attach_pid is not None,
    )


def _interactive(tools: LldbTools, script: recipes.SessionScript, folder: Path, report: Path) -> int:
    file = folder / "session.lldb"
    commands = [*recipes.setup_commands(script), *recipes.recorded_connect_commands(script)]
    paths.write_atomically(file, recipes.session_file(commands), mode=0o600)
    # Ctrl-C belongs to LLDB, which shares our terminal: it pauses the program.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        child = process.start(
            [tools.lldb, "--source-quietly", "-s", file],
            env={**_CLEAR_DEBUGINFOD, "DEVKIT_LLDB_REPORT": str(report)},
            stdin=None,
            stdout=None,
            stderr=None,
            own_group=False,
            die_with_parent=True,
        )
        return child.wait()
    finally:
        signal.signal(signal.SIGINT, before)


def _batch(
    tools: LldbTools,
    script: recipes.SessionScript,
    batch: Path,
    folder: Path,
    report: Path,
    transcript: _Transcript,
) -> int:
    end = "detach" if script.attach else "kill"
    commands = [
        *recipes.setup_commands(script),
        *recipes.recorded_connect_commands(script),
        f"command source --stop-on-error false {recipes.quote(batch.absolute())}",
        f"devkit-finish {end}",
    ]
    crashed = ["thread backtrace all", f"devkit-finish {end}"]
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
    try:
        # read1 hands out what is there: the program's output appears as it is printed.
        while chunk := child.stdout.read1(65536):  # type: ignore[attr-defined]
            transcript.add(chunk)
        return child.wait()
    except BaseException:
        process.end_group(child)
        raise


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
    if exit_code and stops and stops[-1].get("signal") == exit_code:
        # LLDB gives the bare number of the signal that ended the program.
        exit_code += 128
    return DebugResult(
        exit_code=exit_code,
        stops=stops,
        transcript=transcript,
        lldb_exit_code=lldb_exit,
        relayed_bytes=moved,
    )


@contextlib.contextmanager
def _session_folder() -> Iterator[Path]:
    """A private folder named after this process; those of dead processes are swept first."""
    sessions = paths.state_dir() / "sessions"
    sessions.mkdir(parents=True, exist_ok=True)
    for old in sessions.iterdir():
        pid = old.name.partition("-")[0]
        if pid.isdigit() and not process.is_alive(int(pid)):
            shutil.rmtree(old, ignore_errors=True)
    folder = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=sessions))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
