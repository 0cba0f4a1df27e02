"""One debug session from its parts: server on the phone, relay, LLDB here, and a clean end."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import posixpath
import socket
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths, process
from devkit.device.phone_terminal import PhoneTerminal
from devkit.errors import PHONE, DebugError
from devkit.lldb import client, recipes
from devkit.lldb.server import FOLDER, LaunchRefused, LldbServer, push_server, server_command
from devkit.lldb.session_folder import session_folder
from devkit.lldb.sysroot import mini_sysroot
from devkit.symbols import read_elf
from devkit.tunnels import Relay

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.tools import LldbTools
    from devkit.runtime.run import Launch

MANUAL_PORT = 5039
# Linux' numbers, which are not every machine's: SIGSTOP; SIGILL TRAP ABRT BUS FPE SEGV SYS.
_SIGSTOP = 19
_CRASHES = (4, 5, 6, 7, 8, 11, 31)


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
    `stops` are dicts with reason, frames and locals, in order; `transcript` is LLDB's output;
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


def debug(device: Device, tools: LldbTools, request: DebugRequest, *, show: bool = True) -> DebugResult:
    """Run one session to its end. Afterwards nothing of it is left on either side.

    Args:
        show: pass LLDB's output of a batch through as it comes.

    Raises:
        DebugError: lldb-server or LLDB could not do their part.
        UsageError: a breakpoint cannot be understood, or there is no terminal for a prompt.
    """
    for text in request.breakpoints:
        recipes.parse_breakpoint(text)
    if request.batch is None:
        client.check_terminal()
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
    device: Device, tools: LldbTools, request: DebugRequest, *, adb: Sequence[str]
) -> str:
    """The session as lines a person can paste: start, forward, LLDB. Only the mini sysroot is made.

    Args:
        adb: the adb program and its options for this phone.
    """
    from devkit.device import quote

    name, port = "devkit-manual", _manual_port()
    server = posixpath.join(request.device_dir, FOLDER, "lldb-server")
    sysroot = mini_sysroot(device, read_elf(request.program).interpreter)
    script = _script(device, request, sysroot, port)
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
            "# afterwards:",
            process.show([*adb, "forward", "--remove", f"tcp:{port}"]),
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
        with session_folder() as folder, server, Relay(server.connect()) as relay:
            script = _script(self._device, request, self._sysroot, relay.port)
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
                    lldb_exit = client.interactive(self._tools, script, folder, report)
                else:
                    lldb_exit = client.batch(
                        self._tools, script, request.batch, folder, report, transcript.add
                    )
            moved = relay.bytes_up + relay.bytes_down
            result = _result(report, lldb_exit, transcript.text, moved, launched=request.attach_pid is None)
            _check_end(result, self._tools, server, moved)
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
        "folder": launch.working_dir,
        "stdin": terminal if request.batch is None else "/dev/null",
        "stdout": terminal,
        "stderr": terminal,
    }


def _manual_port() -> int:
    """The local port of the shown forward: the usual one, or a free one. devkit itself needs none."""
    for port in (MANUAL_PORT, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free: int = probe.getsockname()[1]
            return free
    return MANUAL_PORT


def _script(device: Device, request: DebugRequest, sysroot: Path, port: int) -> recipes.SessionScript:
    # gdb-remote takes a library of the right name with the wrong build-id silently: the phone's own
    # files come first, and no folder of this machine's system is searched.
    return recipes.SessionScript(
        program=request.program,
        libraries=request.libraries,
        search_paths=(sysroot, *request.search_paths),
        port=port,
        platform="remote-linux" if device.libc == "glibc" else "remote-android",
        breakpoints=request.breakpoints,
        attach=request.attach_pid is not None,
    )


def _check_end(result: DebugResult, tools: LldbTools, server: LldbServer, moved: int) -> None:
    """Say what ended the session when it was neither the user nor the program.

    Raises:
        DebugError: LLDB, lldb-server or the connection ended in the middle.
    """
    hints = ["devkit debug … -v shows the programs it runs", f"{process.show([tools.lldb])} --version"]
    code = result.lldb_exit_code
    if not moved:
        raise DebugError(
            f"LLDB never connected to the phone ({_how(code)})",
            evidence=process.tail(result.transcript) or "LLDB printed nothing",
            hints=hints,
        )
    if server.lost:
        raise DebugError(
            "the connection to the phone broke off in the middle of the session",
            where=PHONE,
            evidence=server.lost,
            hints=["devkit device list", "check the cable or the network, then run the command again"],
        )
    if code < 0:
        raise DebugError(f"LLDB was ended in the middle of the session ({_how(code)})", hints=hints)
    if result.lost:
        raise DebugError(
            "lldb-server ended in the middle of the session",
            where=PHONE,
            evidence=process.tail(server.log) or "it printed nothing",
            hints=["devkit device shell -- df -h /data; cat /proc/meminfo", "run the command again"],
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
