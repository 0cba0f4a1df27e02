"""lldb-server on the phone: pushed once, started for one session, ended for certain."""

from __future__ import annotations

import contextlib
import posixpath
import re
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import PHONE, DebugError, DeviceError, DevkitError
from devkit.lldb import attach_refusal
from devkit.process import tail
from devkit.runtime.guard import Guard
from devkit.runtime.hashes import HashCache

if TYPE_CHECKING:
    from typing_extensions import Self

    from devkit.device import Device
    from devkit.lldb.tools import LldbTools
    from devkit.runtime.run import Launch

FOLDER = ".devkit-lldb"
START_TIMEOUT_S = 5.0
_RETRY_S = 0.03
# How long a phone may take to tell that it is there.
_LAST_WORD_S = 5.0
_LOG_BYTES = 64 * 1024
_PUSHED = re.compile(r"lldb-server-[0-9a-f]{16}")


def push_server(device: Device, tools: LldbTools, device_dir: str) -> str:
    """Make sure that exactly this lldb-server is on the phone; its absolute path there.

    The name holds the content's hash, so one that is there, whole and executable, is the right
    one. One round trip when nothing is to be done. One that runs for somebody is not disturbed: another
    version has another name, and a running file is replaced by its name only.
    """
    from devkit.device import PushItem, quote

    remote = _server_path(tools, device_dir)
    size = tools.server.stat().st_size
    folder = posixpath.dirname(remote)
    file = quote([remote])
    look = device.shell(f"[ -x {file} ] && stat -c %s {file} 2>/dev/null; mkdir -p {quote([folder])}")
    if look.text.strip() == str(size):
        return remote
    staging = f"{remote}.{secrets.token_hex(4)}.tmp"
    item = PushItem(local=tools.server, remote=staging, mode=0o755, mtime_s=int(tools.server.stat().st_mtime))
    try:
        with output.current().progress("pushing lldb-server", size, unit="bytes") as bar:
            device.push([item], bar.advance)
        # adbd gives group and others what the owner may: others were to write it as well.
        ready = [["chmod", "755", staging], ["mv", "-f", staging, remote]]
        device.shell(" && ".join(quote(words) for words in ready), check=True)
    except BaseException:
        with contextlib.suppress(Exception):
            device.shell(quote(["rm", "-f", staging]))
        raise
    return remote


def pushed_server(device: Device, tools: LldbTools, device_dir: str) -> str | None:
    """Where `push_server` has put this lldb-server, or None if it has not yet."""
    remote = _server_path(tools, device_dir)
    there = device.stat([remote])[remote]
    return remote if there is not None and there.size == tools.server.stat().st_size else None


def old_servers(device: Device, tools: LldbTools, device_dir: str) -> list[str]:
    """lldb-servers that devkit has pushed, of other versions than this one, that do not run now."""
    from devkit.device import quote_word

    folder = posixpath.join(device_dir, FOLDER)
    current = _server_path(tools, device_dir)
    # The whole path: a program's name need not be its file's.
    running = {entry.cmdline[0] for entry in device.list_processes() if entry.cmdline}
    names = device.shell(f"ls -1 {quote_word(folder)} 2>/dev/null").text.split()
    there = [posixpath.join(folder, name) for name in names if _PUSHED.fullmatch(name)]
    return [path for path in there if path != current and path not in running]


def _server_path(tools: LldbTools, device_dir: str) -> str:
    with HashCache() as hashes:
        digest = hashes.sha256(tools.server)
    return posixpath.join(device_dir, FOLDER, f"lldb-server-{digest[:16]}")


class LaunchRefused(DebugError):
    """lldb-server may not launch the program itself: the phone refuses to switch ASLR off."""


class LldbServer:
    """One `lldb-server gdbserver` on the phone, with its one connection. A context manager.

    It listens on an abstract socket of the phone with a name nobody can guess: no other machine
    can reach it. Leaving the context ends it and what it launched; so does the death of devkit.

    Args:
        waits: it gets no program: LLDB tells it what to launch once it is connected.
        app: for messages.

    Attributes:
        ended: set when it has ended, for whatever reason.
    """

    def __init__(
        self,
        device: Device,
        server: str,
        *,
        launch: Launch | None,
        attach_pid: int | None,
        waits: bool = False,
        app: str = "",
    ) -> None:
        self._device = device
        self._app = app
        self._server = server
        self._launch = launch
        self._attach_pid = attach_pid
        self._waits = waits
        self._name = f"devkit-{secrets.token_hex(12)}"
        self._log = bytearray()
        self._exit_code: int | None = None
        self._lost: str | None = None
        self.ended = threading.Event()

    def __enter__(self) -> Self:
        folder = posixpath.dirname(self._server)
        self._guard = Guard(self._device, folder)
        try:
            self._stream = self._device.open_shell(
                self._guard.prefix + self.shell_text(), doing="running lldb-server"
            )
        except BaseException:
            self._guard.kill()
            raise
        threading.Thread(target=self._collect, daemon=True).start()
        return self

    def __exit__(self, *_error: object) -> None:
        if self.ended.is_set() and self._attach_pid is not None:
            self._guard.release()
        else:
            self._guard.kill()
        self._stream.close()

    def shell_text(self) -> str:
        """The command for the phone's shell."""
        return server_command(self._server, self._name, self._launch, self._attach_pid, waits=self._waits)

    def connect(self) -> socket.socket:
        """The session's one connection, over the adb server's transport.

        gdbserver takes ONE connection, so nothing is probed: the first dial that succeeds is it.

        Raises:
            LaunchRefused: it cannot launch the program, LLDB may.
            DebugError: lldb-server ended, or did not listen within START_TIMEOUT_S.
        """
        from devkit.device import NothingListens

        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                return self._device.dial(f"localabstract:{self._name}")
            except NothingListens:
                if self.ended.wait(_RETRY_S):
                    # It may have printed its reason just now.
                    time.sleep(_RETRY_S)
                    raise self._failed(f"lldb-server ended at once (exit code {self._exit_code})") from None
                if time.monotonic() > deadline:
                    raise self._failed(f"lldb-server did not listen within {START_TIMEOUT_S:g} s") from None

    @property
    def log(self) -> str:
        """What lldb-server has printed."""
        return self._log.decode("utf-8", "replace")

    @property
    def lost(self) -> str | None:
        """What broke the connection to it off, if something did."""
        return self._lost

    @property
    def has_ended(self) -> bool:
        """Whether it has ended, for whatever reason."""
        return self.ended.is_set()

    @property
    def was_killed(self) -> bool:
        """Whether a signal ended it."""
        return self._exit_code is not None and self._exit_code > 128

    def broke_off(self) -> str | None:
        """What broke the connection off, when LLDB has gone; None: the phone is there.

        LLDB may see it before this does, and a phone that shuts down ends its programs first.
        """
        self.ended.wait(_LAST_WORD_S)
        if self._lost is None and self._exit_code != 0:
            try:
                self._device.shell("true", timeout_s=_LAST_WORD_S)
            except DevkitError as error:
                return error.evidence or error.what
        return self._lost

    def _collect(self) -> None:
        try:
            for _, data in self._stream:
                if isinstance(data, int):
                    self._exit_code = data
                elif len(self._log) < _LOG_BYTES:
                    self._log += data
        except (DeviceError, OSError) as error:
            self._lost = getattr(error, "evidence", None) or str(error)
        self.ended.set()

    def _failed(self, what: str) -> DebugError:
        text = tail(self.log)
        hints = ["run the program without the debugger first: devkit run"]
        if "personality" in text:
            return LaunchRefused(what, where=PHONE, evidence=text, hints=hints)
        if self._attach_pid is not None and "ttach" in text:
            return attach_refusal.explain(self._device, self._attach_pid, self._app, text)
        return DebugError(what, where=PHONE, evidence=text, hints=hints)


def server_command(
    server: str, name: str, launch: Launch | None, attach_pid: int | None, *, waits: bool = False
) -> str:
    """`cd … && exec env … lldb-server gdbserver …` for the phone's shell.

    Args:
        waits: without the program; LLDB launches it.
    """
    from devkit.device import quote

    listen = f"unix-abstract://{name}"
    if launch is None:
        assert attach_pid is not None
        return "exec " + quote([server, "gdbserver", listen, "--attach", str(attach_pid)])
    variables = [f"{key}={value}" for key, value in launch.environment().items()]
    words: Sequence[str] = [
        "env",
        *variables,
        server,
        "gdbserver",
        listen,
        *([] if waits else ["--", launch.program, *launch.args]),
    ]
    return f"cd {quote([launch.working_dir])} && exec {quote(words)}"
