"""A program that waits for its debugger before its first line: where LLDB cannot launch it onto a terminal.

It is started in a terminal of the phone with a small library preloaded (native/wait.c), and attached to.
"""

from __future__ import annotations

import json
import posixpath
import re
import secrets
import time
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import paths
from devkit.errors import PHONE, DebugError, DeviceError
from devkit.lldb.native.build import prebuilt
from devkit.lldb.server import FOLDER
from devkit.runtime.guard import Guard
from devkit.symbols import ElfInfo

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.device.phone_terminal import PhoneTerminal
    from devkit.runtime.run import Launch

_START_TIMEOUT_S = 10.0
_PID = re.compile(rb"^devkit-pid (\d+)\s*$", re.MULTILINE)
_MOST_PHONES = 50
# The program is there, and not the shell or `env` before it, when the library is mapped.
_WAIT = (
    "while kill -0 {pid} 2>/dev/null; do grep -q {name} /proc/{pid}/maps && exit 0; sleep 0.02; done; exit 1"
)


class WaitingProgram:
    """The program, until the context ends, which kills it. A context manager.

    Args:
        terminal: takes its output, and gives its input if it `reads`.

    Attributes:
        pid: its process id on the phone.

    Raises:
        DebugError: it cannot be made to wait, or ended before it did.
    """

    def __init__(
        self,
        device: Device,
        launch: Launch,
        elf: ElfInfo,
        device_dir: str,
        terminal: PhoneTerminal,
        *,
        reads: bool,
    ) -> None:
        self.pid = 0
        self._device = device
        self._launch = launch
        self._output = terminal.path
        self._input = terminal.path if reads else "/dev/null"
        self._folder = posixpath.join(device_dir, FOLDER)
        self._library = prebuilt(elf.machine)
        if reason := cannot_wait(elf):
            raise DebugError(reason, hints=["leave --stdin out, or give the program its input in a file"])

    def __enter__(self) -> WaitingProgram:
        from devkit.device import quote, quote_word

        library = self._push()
        launch = self._launch
        variables = launch.environment()
        # Only for the program: what starts it would wait as well. Its own libraries come after.
        own = variables.pop("LD_PRELOAD", "")
        variables["LD_PRELOAD"] = f"{library}:{own}" if own else library
        words = [
            "env",
            *(f"{name}={value}" for name, value in variables.items()),
            launch.program,
            *launch.args,
        ]
        streams = f"< {quote_word(self._input)} > {quote_word(self._output)} 2>&1"
        self._guard = Guard(self._device, self._folder)
        try:
            self._stream = self._device.open_shell(
                f"{self._guard.prefix}cd {quote([launch.working_dir])} && echo devkit-pid $$ && "
                f"exec {quote(words)} {streams}",
                doing=f"starting {posixpath.basename(launch.program)}",
            )
            self.pid = self._read_pid()
            wait = _WAIT.format(pid=self.pid, name=posixpath.basename(library))
            done = self._device.shell(wait, timeout_s=_START_TIMEOUT_S)
            if done.exit_code != 0:
                raise DebugError(
                    "the program ended before its debugger could come: the phone's linker refused it, or it",
                    where=PHONE,
                    hints=["devkit run shows whether the program starts at all"],
                )
        except BaseException:
            self._guard.kill()
            raise
        return self

    def __exit__(self, *_error: object) -> None:
        self._guard.kill()
        self._stream.close()

    def _push(self) -> str:
        """Where the library is on the phone; its name holds its content's hash."""
        import hashlib

        data = self._library.read_bytes()
        remote = posixpath.join(self._folder, f"devkit-wait-{hashlib.sha256(data).hexdigest()[:16]}.so")
        there = self._device.stat([remote])[remote]
        if there is None or there.size != len(data):
            staging = f"{remote}.{secrets.token_hex(4)}.tmp"
            self._device.push_bytes(data, staging, mode=0o755)
            self._device.shell(["mv", "-f", staging, remote], check=True)
        return remote

    def _read_pid(self) -> int:
        said = b""
        deadline = time.monotonic() + _START_TIMEOUT_S
        while (found := _PID.search(said)) is None:
            _, data = self._stream.read(max(0.0, deadline - time.monotonic()))
            if isinstance(data, int):
                raise DeviceError(
                    f"the program was not started (exit code {data})",
                    where=PHONE,
                    evidence=said.decode("utf-8", "replace").strip() or None,
                )
            said += data
        return int(found[1])


def cannot_wait(elf: ElfInfo) -> str | None:
    """Why a program cannot be made to wait for its debugger; None when it can."""
    if elf.interpreter is None:
        return f"{elf.path.name} is a static program: nothing can be preloaded into it"
    if not prebuilt(elf.machine).exists():
        return f"there is no library that waits for {elf.machine} programs"
    return None


def remember_refusal(device: Device, reason: str) -> None:
    """Note that this phone's build does not launch programs onto terminals."""
    known = {**_refusals(), device.fingerprint: reason}
    kept = dict(list(known.items())[-_MOST_PHONES:])
    paths.write_atomically(_file(), json.dumps(kept, indent=1))


def known_refusal(device: Device) -> str | None:
    """What this phone's build said when it did not launch a program onto a terminal; None: it has not."""
    reason = _refusals().get(device.fingerprint)
    return reason if isinstance(reason, str) else None


def _refusals() -> dict[str, object]:
    try:
        loaded = json.loads(_file().read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _file() -> Path:
    return paths.cache_dir() / "launch-refused.json"
