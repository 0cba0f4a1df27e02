"""`devkit debug --self-test`: the chain of a debug session, link by link, with a program of devkit's own.

Everything goes through the same modules as a session of an app; only the program is another.
"""

from __future__ import annotations

import contextlib
import posixpath
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.engine.small_programs import toolchain_for
from devkit.errors import PHONE, CheckFailed, DevkitError
from devkit.lldb import self_test_program, version
from devkit.lldb.request import DebugRequest
from devkit.lldb.self_test_report import FAILED, OK, SKIPPED, TITLES, WARNING, TestedLink, say
from devkit.lldb.server import push_server
from devkit.lldb.session import DebugResult, debug
from devkit.lldb.tools import LldbTools, find_tools
from devkit.process import tail
from devkit.runtime.guard import Guard
from devkit.runtime.run import launch_for

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device

_TOTAL = 42  # what the program computes, prints and returns
_TYPED = "hello phone"
_START_TIMEOUT_S = 20.0
SESSION_TIMEOUT_S = 60.0


class _Warn(Exception):
    """A link that works, but not as it should."""


@dataclass
class _Test:
    config: Config
    find_phone: Callable[[], Device]
    timeout_s: float
    links: list[TestedLink] = field(default_factory=list)

    def link(self, link_id: str, check: Callable[[], str], needs: tuple[str, ...] = ()) -> None:
        """Try one link, unless one that it needs is broken; say how it went."""
        broken = [link.id for link in self.links if link.id in needs and link.state in (FAILED, SKIPPED)]
        started = time.monotonic()
        if broken:
            done = TestedLink(link_id, SKIPPED, f"needs: {TITLES[broken[0]]}")
        else:
            try:
                with output.current().progress(TITLES[link_id], None):
                    done = TestedLink(link_id, OK, check())
            except _Warn as warning:
                done = TestedLink(link_id, WARNING, str(warning), hints=warning.args[1:])
            except DevkitError as error:
                evidence = "\n".join(filter(None, [error.what, error.evidence]))
                done = TestedLink(link_id, FAILED, evidence, error.where, error.hints)
        done = TestedLink(**{**done.__dict__, "seconds": round(time.monotonic() - started, 2)})
        self.links.append(done)
        say(done)

    def run(self) -> None:
        self.link("phone", self._phone)
        self.link("debugger", self._debugger, ("phone",))
        self.link("compile", self._compile, ("phone",))
        if any(link.id == "phone" and link.state == OK for link in self.links):
            self.folder = posixpath.join(self.dir, f".devkit-self-test-{secrets.token_hex(4)}")
        try:
            self.link("push", self._push, ("phone", "compile"))
            self.link("server", self._server, ("phone", "debugger"))
            self.link("launch", self._launch, ("push", "server"))
            self.link("input", self._input, ("push", "server"))
            self.link("attach", self._attach, ("push", "server"))
        finally:
            # Whatever happened: what was pushed goes away again.
            self.link("clean", self._clean, ("phone",))

    def _phone(self) -> str:
        self.device = self.find_phone()
        self.dir = self.device.writable_dir(self.config.device.dir)
        release = self.device.properties.get("ro.build.version.release", "?")
        return f"{self.device.serial}: {self.device.model}, Android {release}, {self.device.abi}; {self.dir}"

    def _debugger(self) -> str:
        self.tools: LldbTools = find_tools(self.config, self.device)
        self.major = version.local_major(self.tools)
        return f"LLDB {self.major or '?'}: {self.tools.lldb} ({self.tools.origin})"

    def _compile(self) -> str:
        toolchain = toolchain_for(self.config, self.device)
        self.program: Path = self_test_program.compile_program(toolchain)
        return toolchain.description

    def _push(self) -> str:
        from devkit.device import PushItem, quote

        self.device.shell(quote(["mkdir", "-p", self.folder]), check=True)
        self.device.push([PushItem(self.program, self._remote, mode=0o755, mtime_s=int(time.time()))])
        done = self.device.shell(launch_for(self.folder, PROGRAM, (), {}).shell_text(), timeout_s=30)
        if done.exit_code != _TOTAL or f"total {_TOTAL}" not in done.text:
            said = done.text + done.stderr.decode("utf-8", "replace")
            raise CheckFailed(
                f"the program ended with exit code {done.exit_code} instead of {_TOTAL}",
                where=PHONE,
                evidence=tail(said) or "it printed nothing",
                hints=[
                    f"devkit device shell -- ls -lZ {self.dir}",
                    "device.dir in devkit.yaml: another folder",
                ],
            )
        return f"{self.program.stat().st_size} bytes, exit code {_TOTAL} as meant"

    def _server(self) -> str:
        remote = push_server(self.device, self.tools, self.dir)
        theirs = version.remote_major(self.device, remote)
        if theirs is None:
            raise CheckFailed(
                f"{remote} does not run on the phone",
                where=PHONE,
                hints=[
                    f"devkit device shell -- {remote} version",
                    "lldb.server in devkit.yaml names another",
                ],
            )
        if self.major is not None and theirs != self.major:
            raise _Warn(
                f"LLDB is {self.major}, lldb-server is {theirs}: they may not understand each other",
                "lldb.path and lldb.server in devkit.yaml pin a pair",
            )
        return f"version {theirs}, as LLDB"

    def _launch(self) -> str:
        result = self._session("process continue\n", launched=())
        self._check_stop(result)
        if result.exit_code != _TOTAL:
            raise _contradiction(f"the program ended with {result.exit_code}, not {_TOTAL}", result)
        return f"stopped at {self._place}, result = {_TOTAL}, main below it, exit code {_TOTAL}"

    def _input(self) -> str:
        with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as typed:
            typed.write(_TYPED + "\n")
            typed.flush()
            result = self._session("process continue\n", launched=("read",), stdin=Path(typed.name))
        if f"heard {_TYPED}" not in result.transcript:
            raise _contradiction("the program did not read what was sent to it", result)
        return "one line there, and its answer back"

    def _attach(self) -> str:
        launch = launch_for(self.folder, PROGRAM, ("wait",), {})
        with _guarded(self.device, self.dir) as prefix:
            stream = self.device.open_shell(prefix + launch.shell_text(), doing="the self-test's program")
            with stream:
                said = b""
                deadline = time.monotonic() + _START_TIMEOUT_S
                while b"waiting" not in said and time.monotonic() < deadline:
                    _, data = stream.read(timeout_s=_START_TIMEOUT_S)
                    said += data if isinstance(data, bytes) else b""
                    if isinstance(data, int):
                        break
                pid = self._pid()
                result = self._session("thread backtrace\n", attach_pid=pid)
                functions = [f["function"] for stop in result.stops[:1] for f in stop["frames"]]
                if "main" not in functions:
                    raise _contradiction(f"main is not on the stack of process {pid}", result)
                status = self.device.shell(["cat", f"/proc/{pid}/status"]).text
                if "TracerPid:\t0" not in status:
                    raise CheckFailed(
                        f"process {pid} did not outlive its debugger", where=PHONE, evidence=tail(status)
                    )
        return f"process {pid}: {len(functions)} frames; it ran on afterwards"

    def _pid(self) -> int:
        found = [e.pid for e in self.device.list_processes() if e.cmdline[:1] == (self._remote,)]
        if not found:
            raise CheckFailed(
                "the program that was to be attached to is not there", where=PHONE, evidence=self._remote
            )
        return found[0]

    def _clean(self) -> str:
        from devkit.device import quote

        self.device.shell(quote(["rm", "-rf", self.folder]))
        deadline = time.monotonic() + 5
        while left := [
            " ".join(entry.cmdline)
            for entry in self.device.list_processes()
            if entry.cmdline and entry.cmdline[0].startswith(self.folder)
        ]:
            if time.monotonic() > deadline:
                raise CheckFailed(
                    "programs of the self-test still run", where=PHONE, evidence="\n".join(left)
                )
            time.sleep(0.2)
        if self.device.stat([self.folder])[self.folder] is not None:
            raise CheckFailed(f"{self.folder} could not be removed", where=PHONE)
        return "no process, no folder"

    def _session(
        self,
        commands: str,
        *,
        launched: tuple[str, ...] | None = None,
        attach_pid: int | None = None,
        stdin: Path | None = None,
    ) -> DebugResult:
        with tempfile.TemporaryDirectory(prefix="devkit-self-test-") as folder:
            batch = Path(folder) / "commands.lldb"
            batch.write_text(commands, "utf-8")
            request = DebugRequest(
                program=self.program,
                libraries=(),
                search_paths=(self.program.parent,),
                device_dir=self.dir,
                launch=None if launched is None else launch_for(self.folder, PROGRAM, launched, {}),
                attach_pid=attach_pid,
                breakpoints=() if launched is None else (self._place,),
                batch=batch,
                stdin=stdin,
                name=PROGRAM,
                timeout_s=self.timeout_s,
            )
            return debug(self.device, self.tools, request, show=False)

    def _check_stop(self, result: DebugResult) -> None:
        stop = next((stop for stop in result.stops if stop["is_breakpoint"]), None)
        if stop is None:
            raise _contradiction(f"the program never stopped at {self._place}", result)
        frames = [(frame["function"], frame["line"]) for frame in stop["frames"]]
        if not frames or frames[0] != ("doubled", self_test_program.breakpoint_line()):
            raise _contradiction(f"it stopped in {frames[:1]}, not at {self._place}", result)
        if "main" not in [function for function, _ in frames]:
            raise _contradiction("main is not on the stack", result)
        values = {value["name"]: value["value"] for value in stop["locals"]}
        if values.get("result") != str(_TOTAL):
            raise _contradiction(f"the variable result is {values.get('result')}, not {_TOTAL}", result)

    @property
    def _remote(self) -> str:
        return posixpath.join(self.folder, PROGRAM)

    @property
    def _place(self) -> str:
        return f"{self_test_program.SOURCE}:{self_test_program.breakpoint_line()}"


PROGRAM = self_test_program.PROGRAM


def self_test(
    config: Config, find_phone: Callable[[], Device], timeout_s: float | None = None
) -> list[TestedLink]:
    """Try every link of a debug session and say how it went; what it makes, it removes.

    Only lldb-server stays on the phone, as after any session, and the program in the cache here.

    Args:
        find_phone: picks the phone; that it cannot is the first link's failure.
        timeout_s: how long a session of the test may take (default: SESSION_TIMEOUT_S).
    """
    test = _Test(config, find_phone, timeout_s or SESSION_TIMEOUT_S)
    test.run()
    return test.links


@contextlib.contextmanager
def _guarded(device: Device, folder: str) -> Iterator[str]:
    guard = Guard(device, folder)
    try:
        yield guard.prefix
    finally:
        guard.kill()


def _contradiction(what: str, result: DebugResult) -> CheckFailed:
    return CheckFailed(
        what,
        where=PHONE,
        evidence=tail(result.transcript) or "LLDB printed nothing",
        hints=["devkit debug --self-test -v shows the programs it runs"],
    )
