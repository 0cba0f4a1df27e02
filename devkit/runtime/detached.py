"""Programs that outlive devkit and the link: started in a session of their own on the phone, with a log.

Everything is in DETACHED below the app's folder: `log` (and `log.old`, of the run before), `session`
(pid, start time, way to root), `exit` (exit code, time), `about` (working directory, command line),
`started` (an empty file: when). The phone alone keeps it: any devkit on any machine can ask.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, process
from devkit.errors import PHONE, CheckFailed, DeviceError, UsageError
from devkit.runtime import detached_scripts as scripts
from devkit.runtime.root import RootWay
from devkit.runtime.run import Launch, signal_name

if TYPE_CHECKING:
    from devkit.device import Device

DETACHED = ".devkit-detached"
_START_TIMEOUT_S = 30.0
_STOP_TIMEOUT_S = 30.0
_EVIDENCE_LINES = 15


@dataclass(frozen=True)
class DetachedRun:
    """A detached run as it stands now.

    Attributes:
        state: "running", "ended", or "lost": no exit code was written, because the phone was
            restarted or all of its processes were killed.
        pid: of the session on the phone that holds the program.
        exit_code: 128 + n when signal n ended it; None while it runs or when lost.
        seconds: how long it has run, or ran.
        log_bytes: size of its log.
    """

    app: str
    state: str
    pid: int
    exit_code: int | None
    seconds: int
    log: str
    log_bytes: int
    cwd: str
    command: str
    root: RootWay | None = None

    def as_dict(self) -> dict[str, Any]:
        """The run as `--json` prints it."""
        return {
            "app": self.app,
            "state": self.state,
            "pid": self.pid,
            "program_exit": self.exit_code,
            "signal": None if self.exit_code is None else signal_name(self.exit_code),
            "seconds": self.seconds,
            "log": self.log,
            "log_bytes": self.log_bytes,
            "command": self.command,
            "root": self.root is not None,
        }

    def as_text(self) -> str:
        """One line for people."""
        log = f"log {output.human_bytes(self.log_bytes)}"
        if self.state == "running":
            return f"{self.app} has been running for {_duration(self.seconds)} (pid {self.pid}, {log})"
        if self.exit_code is None:
            return f"{self.app} is gone without an exit code: killed, or the phone was restarted ({log})"
        name = signal_name(self.exit_code)
        how = f"exit code {self.exit_code}" + (f": {name}" if name else "")
        return f"{self.app} ended after {_duration(self.seconds)} with {how} ({log})"


class Detached:
    """The detached run of one app on one phone.

    Args:
        app: the app's name.
        folder: its folder on the phone, which need not exist.
    """

    def __init__(self, device: Device, app: str, folder: str) -> None:
        self._device = device
        self.app = app
        self.folder = folder
        self._dir = posixpath.join(folder, DETACHED)

    @property
    def marker(self) -> str:
        """The file whose age says when the run started."""
        return posixpath.join(self._dir, "started")

    def status(self) -> DetachedRun | None:
        """How it stands; None when the phone knows of none. One round trip."""
        said = self._device.shell(self._state() + scripts.STATUS, check=True)
        return _parse_status(
            said.stdout.decode("utf-8", "replace"), self.app, posixpath.join(self._dir, "log")
        )

    def known(self) -> DetachedRun:
        """As `status`.

        Raises:
            CheckFailed: the phone knows of none.
        """
        found = self.status()
        if found is None:
            raise CheckFailed(
                f"{self.app} was never started with --detach on the phone {self._device.serial}",
                where=PHONE,
                evidence=f"there is no {self._dir}",
                hints=[self._command("--detach")],
            )
        return found

    def refuse_second(self) -> None:
        """Nothing, unless it is running.

        Raises:
            UsageError: it is running.
        """
        found = self.status()
        if found is not None and found.state == "running":
            raise self._running(found.pid)

    def start(
        self, launch: Launch, *, stdin: Path | None = None, stdin_end: str | None = None
    ) -> DetachedRun:
        """Start it. It lives until it ends by itself, is stopped, or the phone restarts.

        Args:
            stdin: a file that becomes its standard input (default: none, it sees the end at once).
            stdin_end: a line behind that input.

        Raises:
            UsageError: it is running already.
            FileError: `stdin` cannot be read.
            DeviceError: it could not be started; carries the phone's words.
        """
        from devkit.device import PushItem, quote, quote_word

        input_file = quote_word(posixpath.join(self._dir, "stdin"))
        prepare = ""
        if stdin is not None:
            self._device.push([PushItem(stdin, posixpath.join(self._dir, "stdin"), 0o644, 0)])
            # The line must not continue the last one.
            prepare = f'[ -z "$(tail -c 1 {input_file})" ] || echo >> {input_file}' if stdin_end else ""
        elif stdin_end:
            prepare = f": > {input_file}"
        if stdin_end:
            prepare += f"\nprintf '%s\\n' {quote_word(stdin_end)} >> {input_file}"
        leader = scripts.LEADER.format(
            dir=quote_word(self._dir),
            way=launch.root.kind if launch.root else "",
            program=dataclasses.replace(launch, root=None).shell_text(),
            stdin=input_file if stdin is not None or stdin_end else "/dev/null",
        )
        run = quote(["setsid", "sh", "-c", leader])
        script = self._state() + scripts.START.format(
            cwd=quote_word(launch.working_dir),
            command=quote_word(quote([launch.program, *launch.args])),
            stdin=prepare,
            run=launch.root.wrap(run) if launch.root else run,
        )
        # Through stdin: with its environment and arguments in it twice a command line may be too long.
        done = self._device.shell(
            "sh", stdin=script.encode("utf-8", "surrogateescape"), timeout_s=_START_TIMEOUT_S
        )
        answer = done.text.split()
        if answer[:1] == ["running"]:
            raise self._running(int(answer[1]))
        if answer == ["starting"]:
            raise UsageError(f"{self.app} is being started by another devkit", where=PHONE)
        found = self.status() if answer == ["started"] else None
        if found is None:
            raise DeviceError(
                f"{self.app} could not be started on the phone {self._device.serial}",
                where=PHONE,
                evidence=done.stderr.decode("utf-8", "replace") or done.text,
                hints=[
                    "devkit device shell -- command -v setsid",
                    process.show(["devkit", "device", "shell", "--", "ls", "-la", self._dir]),
                ],
            )
        return found

    def show_log(
        self, *, follow: bool = False, on_output: Callable[[bytes], None] = lambda data: None
    ) -> None:
        """Write the log to stdout, byte for byte.

        Args:
            follow: go on until the program has ended. Ctrl-C ends this, not the program.
            on_output: gets it too.

        Raises:
            DeviceError: there is no log, or the link broke off.
        """
        sink = output.current()
        script = self._state() + scripts.LOGS.format(once="" if follow else "1")
        try:
            with self._device.open_shell(script, doing=f"following {self.app}'s log") as stream:
                stream.close_stdin()
                words = b""
                for name, data in stream:
                    if isinstance(data, int):
                        if data != 0:
                            raise DeviceError(
                                f"the log of {self.app} cannot be read", where=PHONE,
                                evidence=words.decode("utf-8", "replace"),
                            )  # fmt: skip
                        return
                    if name == "stderr":
                        words += data
                    else:
                        sink.raw(data)
                        on_output(data)
        except KeyboardInterrupt:
            sink.note(f"{self.app} goes on on the phone; {self._command('--stop')} ends it")
            raise

    def tail(self, lines: int = _EVIDENCE_LINES) -> str:
        """The last lines of the log."""
        from devkit.device import quote

        words = ["tail", "-n", str(lines), posixpath.join(self._dir, "log")]
        return self._device.shell(quote(words)).text

    def stop(self) -> DetachedRun:
        """End it: SIGTERM to all of its processes, SIGKILL after a second. How it stands afterwards.

        Raises:
            CheckFailed: the phone knows of none.
            DeviceError: it is still there.
        """
        found = self.known()
        script = self._state() + scripts.STOP
        self._device.shell(
            f"exec {found.root.wrap(script)}" if found.root else script, timeout_s=_STOP_TIMEOUT_S
        )
        after = self.known()
        if after.state == "running":
            raise DeviceError(
                f"{self.app} could not be ended on the phone {self._device.serial}",
                where=PHONE,
                evidence=f"pid {after.pid} is still there",
                hints=[f"devkit device shell -- kill -9 {after.pid}"],
            )
        return after

    def _state(self) -> str:
        from devkit.device import quote_word

        return scripts.STATE.format(dir=quote_word(self._dir))

    def _command(self, *options: str) -> str:
        return process.show(["devkit", "run", self.app, *options])

    def _running(self, pid: int) -> UsageError:
        return UsageError(
            f"{self.app} is running detached on the phone {self._device.serial} already (pid {pid})",
            where=PHONE,
            hints=[self._command("--logs", "--follow"), self._command("--stop")],
        )


def _parse_status(text: str, app: str, log: str) -> DetachedRun | None:
    head, _, about = text.partition("\nabout\n")
    facts = {words[0]: words[1:] for line in head.splitlines() if (words := line.split())}
    if "alive" not in facts:
        return None
    alive, ended = facts["alive"] == ["1"], facts.get("exit")
    session = facts.get("session", [])
    started, now = (int((facts.get(key) or ["0"])[0]) for key in ("started", "now"))
    until = int(ended[1]) if ended and len(ended) > 1 else now
    cwd, _, command = about.rstrip("\n").partition("\n")
    return DetachedRun(
        app=app,
        # The exit code comes first: the leader lives on for a moment.
        state="ended" if ended else "running" if alive else "lost",
        pid=int(session[0]) if session else 0,
        exit_code=int(ended[0]) if ended else None,
        seconds=max(0, until - started),
        log=log,
        log_bytes=int((facts.get("log") or ["0"])[0]),
        cwd=cwd,
        command=command,
        root=RootWay(session[1]) if len(session) > 1 else None,
    )


def _duration(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
