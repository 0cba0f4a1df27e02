"""One phone behind an adb server: commands, files, sockets, properties, processes."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from devkit import output
from devkit.device import processes, survey, workdir
from devkit.device.commands import (
    SHELL_TIMEOUT_S,
    ShellResult,
    check_result,
    command_line,
    open_command,
    run_command,
)
from devkit.device.connection import CONNECT_TIMEOUT_S, ask, open_service
from devkit.device.files import open_sync, pull_file
from devkit.device.processes import ProcessEntry
from devkit.device.properties import FACTS_SCRIPT, Facts, fingerprint, parse_facts, parse_properties
from devkit.device.quoting import quote_word
from devkit.device.servers import AdbServer
from devkit.device.shell import ShellStream
from devkit.device.sync import FileStat, PushItem
from devkit.errors import PHONE, DeviceError, UsageError

# A cable takes 1 to 3 ms to open a connection, a good Wi-Fi below 8.
_FAR_S = 0.010


class Device:
    """A phone. Making one asks nothing; facts that cannot change are asked once and kept.

    Attributes:
        serial: its name at the adb server.
        server: the adb server through which it is reached.
        round_trips: how many requests have waited for the phone so far.

    Every method raises, besides what it names: DeviceNotReady (gone, offline, unauthorized),
    PhoneLost (broke off midway), OperationTimeout, ServerUnreachable.
    """

    def __init__(self, serial: str, server: AdbServer) -> None:
        self.serial = serial
        self.server = server
        self.round_trips = 0
        self._nearest_s = math.inf
        self._writable: dict[str, str] = {}
        self._trials: dict[str, tuple[str, ...]] = {}

    def __repr__(self) -> str:
        return f"Device({self.serial!r}, {self.server.name})"

    # Commands

    def shell(
        self,
        command: str | Sequence[str],
        *,
        timeout_s: float | None = SHELL_TIMEOUT_S,
        stdin: bytes = b"",
        check: bool = False,
    ) -> ShellResult:
        """Run a command to its end and collect its output.

        Args:
            command: a line for the phone's sh, or words that are quoted for it.
            stdin: its whole input; it always sees the end of it.
            check: raise when the exit code is not 0.

        Raises:
            DeviceError: the exit code is not 0 and `check` is set.
            OperationTimeout: it is not done after `timeout_s`; the phone hangs up on it then.
        """
        result = run_command(self, command_line(command), timeout_s=timeout_s, stdin=stdin)
        if check:
            check_result(self, result)
        return result

    def open_shell(
        self,
        command: str | Sequence[str],
        *,
        pty: bool = False,
        term: str | None = None,
        size: tuple[int, int] | None = None,
        doing: str | None = None,
    ) -> ShellStream:
        """Start a command and talk with it while it runs. An empty command is a login shell.

        Args:
            pty: give it a terminal (stderr then arrives as stdout).
            term: value of TERM for it.
            size: (rows, columns) of the terminal.
            doing: what it is for, for messages, as "running llm_demo" (default: the command).
        """
        stream = open_command(self, command_line(command), pty=pty, term=term, doing=doing)
        if size is not None:
            stream.resize(*size)
        return stream

    # Sockets

    def dial(self, service: str, *, doing: str | None = None) -> socket.socket:
        """Connect to a socket on the phone through the adb server: no forward, nothing to clean up.

        Args:
            service: "localabstract:NAME", "tcp:PORT", "localfilesystem:PATH", or any adb service.

        Returns:
            a blocking socket without timeout, with TCP_NODELAY. adb loses a half-close.

        Raises:
            NothingListens: nobody is at that socket.
        """
        self.round_trips += 1
        started = time.monotonic()
        sock = open_service(self.server, self.serial, service, doing=doing or f"dialling {service}")
        self._nearest_s = min(self._nearest_s, time.monotonic() - started)
        return sock

    @property
    def is_far(self) -> bool:
        """Whether a tunnel or a slow network is in between: none of the phone's answers came quickly."""
        return _FAR_S <= self._nearest_s < math.inf

    # Files

    def push(self, items: Sequence[PushItem], on_bytes: Callable[[int], None] | None = None) -> None:
        """Send files over one connection, without waiting for each. Folders must exist.

        Args:
            on_bytes: called with the number of bytes of content sent since the last call.

        Raises:
            DeviceError: the phone refused a file (disk full, …); carries its words.
            FileError: a local file cannot be read.
        """
        if not items:
            return
        with open_sync(self, f"pushing {len(items)} files") as session:
            session.push(items, on_bytes)

    def push_bytes(self, data: bytes, remote: str, *, mode: int = 0o644, mtime_s: int | None = None) -> None:
        """Make a file on the phone from bytes. Raises as `push`."""
        self.push([PushItem(data, remote, mode, int(time.time()) if mtime_s is None else mtime_s)])

    def pull(self, remote: str, local: Path, on_bytes: Callable[[int], None] | None = None) -> int:
        """Copy a file from the phone; it appears under its name when it is complete.

        Returns:
            its size in bytes.

        Raises:
            DeviceError: the phone cannot read it; carries its words.
            FileError: the local file cannot be written.
        """
        return pull_file(self, remote, local, on_bytes)

    def read_bytes(self, remote: str) -> bytes:
        """The content of a file on the phone. Raises as `pull`."""
        parts: list[bytes] = []
        with open_sync(self, f"pulling {remote}") as session:
            session.pull(remote, parts.append)
        return b"".join(parts)

    def stat(self, paths: Sequence[str], *, follow: bool = True) -> dict[str, FileStat | None]:
        """What is at each path (None: nothing), in one connection and one round trip.

        Raises:
            DeviceError: the phone may not look at a path.
        """
        if not paths:
            return {}
        with open_sync(self, f"looking at {len(paths)} files") as session:
            return session.stat(paths, follow=follow)

    def list_dir(self, remote: str) -> dict[str, FileStat]:
        """What is in a folder, by name.

        Raises:
            DeviceError: there is no such folder.
        """
        with open_sync(self, f"listing {remote}") as session:
            return session.list_dir(remote)

    def survey(self, preferred: str, more: str = "", *, proof: str | None = None) -> bytes:
        """Ask for the properties, for a folder to work in, and for more, in one round trip.

        Afterwards `properties` and `writable_dir(preferred)` cost none.

        Args:
            more: shell text that runs in the same command; `$dir` is the folder that was found.
            proof: a file below `preferred`; where it is, the folder needs no trial.

        Returns:
            what `more` printed; empty when there is no folder to work in.

        Raises:
            DeviceError: the answer is not whole.
        """
        script, mark = survey.survey_script(preferred, more, proof)
        said = survey.parse_survey(self.report(script), mark)
        self.__dict__["properties"] = parse_properties(said.properties)
        if preferred.startswith("/"):
            self._trials[preferred] = said.trial
        return said.more

    def report(self, script: str, *, timeout_s: float | None = SHELL_TIMEOUT_S) -> bytes:
        """What a script prints, in as few packets as the phone can make of it; its exit code is not known."""
        if "shell_v2" not in self.features:
            return self.shell(script, timeout_s=timeout_s).stdout
        line = survey.packed(script)
        with open_command(self, line, stdin_bytes=0, doing="looking at the phone") as stream:
            stream.close_stdin()
            return survey.read_packed(stream, timeout_s)

    def writable_dir(self, preferred: str) -> str:
        """A folder in which files can be written and run: `preferred` if the phone agrees.

        Creates it. Falls back to /data/local/tmp/devkit and $TMPDIR/devkit, and says so.

        Raises:
            UsageError: it is no absolute path.
            DeviceError: none will do; carries what the phone said of each.
        """
        if not preferred.startswith("/"):
            raise UsageError(
                f"{preferred!r} cannot be the folder on the phone: it is no absolute path",
                hints=["device.dir in devkit.yaml or --device-dir, as /data/local/tmp/devkit"],
            )
        if preferred in self._writable:
            return self._writable[preferred]
        lines = self._trials.pop(preferred, None)
        if lines is None:
            lines = tuple(self.shell(workdir.trial_script(preferred)).text.splitlines())
        folder, refused = workdir.choose(self.serial, lines)
        if folder != preferred:
            # Of a reduced virtual phone this is no surprise, and was said when it started.
            say = output.current().detail if self.is_reduced else output.current().warn
            say(f"{refused[0]}; using {folder} on the phone {self.serial}")
        self._writable[preferred] = folder
        return folder

    # What it is

    @cached_property
    def features(self) -> frozenset[str]:
        """The adb features of the phone. The adb server knows them: the phone is not asked."""
        answer = ask(
            self.server,
            f"host-serial:{self.serial}:features",
            serial=self.serial,
            doing="asking for its features",
        )
        return frozenset(answer.split(","))

    @cached_property
    def properties(self) -> Mapping[str, str]:
        """All system properties (`getprop`)."""
        return parse_properties(self.shell("getprop", check=True).text)

    @property
    def model(self) -> str:
        return self.properties.get("ro.product.model", "")

    @property
    def abi(self) -> str:
        """The preferred ABI, as "arm64-v8a"."""
        return self._required("ro.product.cpu.abi")

    @property
    def abilist(self) -> tuple[str, ...]:
        """All ABIs, preferred first."""
        listed = self.properties.get("ro.product.cpu.abilist") or self.abi
        return tuple(listed.split(","))

    @property
    def api_level(self) -> int:
        """The Android API level, as 34 for Android 14."""
        text = self._required("ro.build.version.sdk")
        if not text.isdigit():
            raise DeviceError(
                f"the API level of the phone {self.serial} is no number", where=PHONE, evidence=text
            )
        return int(text)

    @property
    def fingerprint(self) -> str:
        """What tells its system image from another's."""
        return fingerprint(self.properties)

    @property
    def is_virtual(self) -> bool:
        """Whether it is a phone of `devkit sim`."""
        return bool(self.properties.get("ro.devkit.sim"))

    @property
    def is_reduced(self) -> bool:
        """Whether it is a virtual phone on a machine that refuses namespaces."""
        return self.properties.get("ro.devkit.confinement") == "reduced"

    @property
    def libc(self) -> str:
        """The C library its programs need: "bionic", or "glibc" on a virtual phone."""
        return "glibc" if self.properties.get("ro.devkit.libc") == "glibc" else "bionic"

    def facts(self, folder: str) -> Facts:
        """Page size, and free space at `folder`, as they are now."""
        script = FACTS_SCRIPT.format(folder=quote_word(folder))
        return parse_facts(self.shell(script).text)

    def _required(self, key: str) -> str:
        value = self.properties.get(key)
        if not value:
            raise DeviceError(
                f"the phone {self.serial} does not tell its {key}",
                where=PHONE,
                evidence=f"getprop prints {len(self.properties)} properties",
                hints=["wait until the phone has booted: devkit device shell -- getprop sys.boot_completed"],
            )
        return value

    # Processes

    def list_processes(self) -> list[ProcessEntry]:
        """All processes that the shell user may see, by pid, in one round trip."""
        return processes.parse_processes(self.shell(processes.LIST_SCRIPT, check=True).stdout)

    def find_process(self, wanted: str | int) -> ProcessEntry:
        """The one process with that pid or name.

        Raises:
            DeviceError: there is none (names the nearest), or several (lists their pids).
        """
        return processes.find_process(self.list_processes(), wanted)

    # Everything else adb can do

    @property
    def adbutils(self) -> Any:
        """adbutils' AdbDevice for this phone (installing, screenshots, …); its import takes 0.2 s."""
        from devkit.device.adbutils_device import adbutils_device

        return adbutils_device(
            self.server.host, self.server.port, self.serial, connect_timeout_s=CONNECT_TIMEOUT_S
        )
