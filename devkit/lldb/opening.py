"""What stands before LLDB comes: lldb-server on the phone, the relay to it, the program's terminal."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from devkit import output, paths
from devkit.device.phone_terminal import PhoneTerminal
from devkit.lldb import preloaded, recipes, version
from devkit.lldb.client import STDIN
from devkit.lldb.platform_commands import PlatformMode
from devkit.lldb.program_input import Typing
from devkit.lldb.server import LaunchRefused, LldbServer, push_server
from devkit.lldb.sysroot import mini_sysroot
from devkit.lldb.waiting import wait_for_process
from devkit.symbols import read_elf
from devkit.tunnels import Relay
from devkit.tunnels.ahead import AnswersAhead

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.platform_server import PlatformWay
    from devkit.lldb.request import DebugRequest
    from devkit.lldb.tools import LldbTools
    from devkit.runtime.run import Launch

PLAN_FILE, REFUSED_FILE = "launch.json", "refused"


@dataclass(frozen=True)
class OpenSession:
    """A session that LLDB can join: the commands it needs, and both ends of its connection."""

    script: recipes.SessionScript
    server: LldbServer
    relay: Relay | PlatformWay


class Opener:
    """Opens sessions of one request. Making one brings lldb-server and the mini sysroot up to date.

    `version_clash` says that LLDB and lldb-server are of different major versions, None that they are not.

    Raises:
        DebugError, DeviceError: the phone does not take or give a file.
    """

    def __init__(self, device: Device, tools: LldbTools, request: DebugRequest) -> None:
        self._device = device
        self._request = request
        self._tools = tools
        self._server = push_server(device, tools, request.device_dir)
        self.version_clash = version.version_clash(device, tools, self._server)
        if self.version_clash:
            output.current().warn(f"{self.version_clash}; {version.PIN_HINT}")
        self._sysroot = mini_sysroot(device, read_elf(request.program).interpreter)
        # A reduced phone lives where address randomization often cannot be switched off.
        self._waits = request.launch is not None and (
            # What a sanitizer reports is read here.
            request.stdin is not None or device.is_reduced or request.sanitizer is not None
        )
        self._preloads = request.input_by == "preload"
        if request.input_by == "auto" and self._waits and (said := preloaded.known_refusal(device)):
            output.current().detail(f"this phone did not launch onto a terminal ({said}): preloading instead")
            self._preloads = preloaded.cannot_wait(read_elf(request.program)) is None

    @property
    def is_prepared_ahead(self) -> bool:
        """Whether a session can stand ready without touching a program: LLDB launches it itself."""
        return self._waits and not self._preloads

    def falls_back(self, folder: Path) -> bool:
        """Whether LLDB could not launch the program in the last session, and the next one will not ask it to.

        Args:
            folder: that session's.
        """
        try:
            reason = (folder / REFUSED_FILE).read_text("utf-8").strip()
            (folder / REFUSED_FILE).unlink()
        except OSError:
            return False
        problem = preloaded.cannot_wait(read_elf(self._request.program))
        if self._preloads or self._request.input_by != "auto" or problem:
            output.current().warn(f"the program was not launched onto a terminal: {reason}")
            if problem:
                output.current().warn(problem)
            return False
        output.current().note(f"not launched onto a terminal ({reason}): it is made to wait for LLDB instead")
        preloaded.remember_refusal(self._device, reason)
        self._preloads = True
        return True

    def server_major(self) -> int | None:
        """lldb-server's major version, for a debugger of which devkit knows nothing."""
        return version.server_major(self._device, self._tools, self._server)

    @property
    def serves_restarts(self) -> bool:
        """Whether one session takes an LLDB that starts its program anew."""
        return self._request.platform

    @contextlib.contextmanager
    def open(
        self, folder: Path, on_output: Callable[[bytes], None], listener: socket.socket | None = None
    ) -> Iterator[OpenSession]:
        """The session until the context ends; afterwards nothing of it is left on the phone.

        Args:
            folder: private, for files that LLDB reads.
            on_output: takes what a program prints that has a terminal on the phone.
            listener: where LLDB connects; None: on a new port, for this session only.

        Raises:
            DebugError: lldb-server could not do its part.
        """
        request = self._request
        with contextlib.ExitStack() as stack:
            if request.platform:
                yield self._on_platform(stack, on_output)
                return
            if self._waits and self._preloads:
                yield self._preloaded(stack, on_output, listener)
                return
            try:
                server, relay = self._connect(stack, listener, waits=self._waits)
            except LaunchRefused as error:
                output.current().detail(f"{error.evidence}: LLDB launches the program instead")
                self._waits = True
                server, relay = self._connect(stack, listener, waits=True)
            script = session_script(self._device, request, self._sysroot, relay.port)
            if self._waits:
                terminal = stack.enter_context(self._terminal(stack, on_output))
                plan = _launch_plan(request, self._environment(), relay.port, terminal.path)
                plan["refused"] = str(folder / REFUSED_FILE)
                file = folder / PLAN_FILE
                paths.write_atomically(file, json.dumps(plan), mode=0o600)
                # Who comes for another session waits for another plan.
                stack.callback(file.unlink, missing_ok=True)
                script = dataclasses.replace(script, launch_plan=file)
                if request.stdin is not None:
                    stack.enter_context(Typing(request.stdin, terminal))
            yield OpenSession(script, server, relay)

    def _preloaded(
        self,
        stack: contextlib.ExitStack,
        on_output: Callable[[bytes], None],
        listener: socket.socket | None,
    ) -> OpenSession:
        request = self._request
        assert request.launch is not None
        terminal = stack.enter_context(self._terminal(stack, on_output))
        program = preloaded.WaitingProgram(
            self._device, request.launch, read_elf(request.program), request.device_dir, terminal,
            reads=request.batch is None or request.stdin is not None,
        )  # fmt: skip
        stack.enter_context(program)
        server = stack.enter_context(
            LldbServer(self._device, self._server, launch=None, attach_pid=program.pid, app=request.name)
        )
        relay = stack.enter_context(Relay(server.connect(), listener, ahead=AnswersAhead()))
        if request.stdin is not None:
            stack.enter_context(Typing(request.stdin, terminal))
        return OpenSession(session_script(self._device, request, self._sysroot, relay.port), server, relay)

    def _connect(
        self, stack: contextlib.ExitStack, listener: socket.socket | None, *, waits: bool
    ) -> tuple[LldbServer, Relay]:
        request, pid = self._request, self._request.attach_pid
        with contextlib.ExitStack() as parts:
            try:
                if request.wait_for is not None:
                    pid = wait_for_process(
                        self._device, request.wait_for, request.device_dir, request.timeout_s
                    )
                server = parts.enter_context(
                    LldbServer(
                        self._device,
                        self._server,
                        launch=request.launch,
                        attach_pid=pid,
                        waits=waits,
                        app=request.name,
                    )
                )
                # Without a process yet, answers change when LLDB launches it.
                ahead = None if waits else AnswersAhead()
                relay = parts.enter_context(Relay(server.connect(), listener, ahead=ahead))
            finally:
                if request.wait_for is not None and pid is not None:
                    # Now LLDB holds it, or nobody does: it is not to stay as it was stopped.
                    self._device.shell(["kill", "-CONT", str(pid)])
            stack.enter_context(parts.pop_all())
        if pid is not None:
            # Another session of the request is one with the same process.
            self._request = dataclasses.replace(request, attach_pid=pid, wait_for=None)
        return server, relay

    def _on_platform(self, stack: contextlib.ExitStack, on_output: Callable[[bytes], None]) -> OpenSession:
        from devkit.lldb.platform_server import PlatformServer, PlatformWay, free_port

        request, launch = self._request, self._request.launch
        gdb_port = free_port(self._device)
        folder = launch.working_dir if launch is not None else request.device_dir
        server = stack.enter_context(
            PlatformServer(
                self._device, self._server, gdb_port=gdb_port, working_dir=folder, app=request.name
            )
        )
        way = PlatformWay(self._device, server, server.wait_for_port(), gdb_port)
        stack.enter_context(way)
        output.current().note(f"LLDB's platform {way.plugin} at {way.url}")
        terminal = None
        if request.stdin is not None or request.sanitizer is not None:
            terminal = stack.enter_context(self._terminal(stack, on_output))
        if request.stdin is not None and terminal is not None:
            stack.enter_context(Typing(request.stdin, terminal))
        environment = self._environment() if launch is not None else {}
        mode = PlatformMode(
            way.plugin,
            way.url,
            way.environment,
            **platform_target(request, environment),
            terminal=terminal.path if terminal is not None else None,
        )
        script = session_script(self._device, request, self._sysroot, 0)
        return OpenSession(dataclasses.replace(script, mode=mode), server, way)

    def _terminal(self, stack: contextlib.ExitStack, on_output: Callable[[bytes], None]) -> PhoneTerminal:
        stdin = self._request.stdin
        if stdin is not None and stdin != STDIN and stdin.is_char_device():
            # Another terminal: what is typed there is answered there.
            screen = stack.enter_context(stdin.open("wb", buffering=0))
            return PhoneTerminal(self._device, lambda data: _write_all(screen, data), typed=True)
        return PhoneTerminal(self._device, on_output, typed=stdin is not None)

    def _environment(self) -> dict[str, str]:
        """The phone's own variables: a program that LLDB launches has only those it is given."""
        return parse_environment(self._device.shell("env -0").stdout.decode("utf-8", "surrogateescape"))


def parse_environment(text: str) -> dict[str, str]:
    """The variables in the output of `env -0`, but the shell's own notes of where it is."""
    pairs = (line.partition("=") for line in text.split("\0"))
    return {name: value for name, found, value in pairs if found and name not in ("_", "PWD", "OLDPWD")}


def _write_all(file: IO[bytes], data: bytes) -> None:
    while data:
        data = data[file.write(data) :]


def platform_target(request: DebugRequest, environment: dict[str, str]) -> dict[str, Any]:
    """What PlatformMode has to know of the program.

    Args:
        environment: the phone's own variables.
    """
    launch = request.launch
    if launch is None:
        return {"program": request.device_program, "pid": request.attach_pid}
    return {
        "program": launch.program,
        "working_dir": launch.working_dir,
        "args": launch.args,
        "env": _environment_of(request, launch, environment),
    }


def _environment_of(request: DebugRequest, launch: Launch, phone: dict[str, str]) -> dict[str, str]:
    if request.sanitizer is not None:
        return request.sanitizer.environment(phone, launch.environment())
    return {**phone, **launch.environment()}


def session_script(device: Device, request: DebugRequest, sysroot: Path, port: int) -> recipes.SessionScript:
    """Everything that LLDB's commands depend on."""
    # gdb-remote takes a library of the right name with the wrong build-id silently: the phone's own
    # files come first, and no folder of this machine's system is searched.
    return recipes.SessionScript(
        program=request.program,
        libraries=request.libraries,
        search_paths=(sysroot, *request.search_paths),
        port=port,
        platform="remote-linux" if device.libc == "glibc" else "remote-android",
        breakpoints=request.breakpoints,
        source_map=request.source_map,
        attach=request.attaches,
        stop_at_main=request.sanitizer is None,
    )


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
        "env": [f"{key}={value}" for key, value in _environment_of(request, launch, environment).items()],
        "folder": launch.working_dir,
        "stdin": terminal if request.batch is None or request.stdin is not None else "/dev/null",
        "stdout": terminal,
        "stderr": terminal,
    }
