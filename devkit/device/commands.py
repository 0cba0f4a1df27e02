"""Commands on a phone: run to their end and collected, or open while they run."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.device.connection import Deadline
from devkit.device.quoting import quote, quote_word
from devkit.device.shell import ShellStream, ShellV1Stream, ShellV2Stream, shell_service, wrap_for_v1
from devkit.errors import PHONE, DeviceError, OperationTimeout

if TYPE_CHECKING:
    from devkit.device.phone import Device

SHELL_TIMEOUT_S = 30.0
EVIDENCE_BYTES = 4096
# A command travels in one packet: phones take 4 KiB before Android 7 (no shell_v2) and 256 KiB
# since, and the four hexadecimal digits of its length say 65535 at most.
COMMAND_BYTES_V2, COMMAND_BYTES_V1 = 64_000, 4_000


@dataclass(frozen=True)
class ShellResult:
    """A command that has ended on the phone. A signal n ended it when `exit_code` is 128 + n."""

    command: str
    exit_code: int
    stdout: bytes
    stderr: bytes

    @property
    def text(self) -> str:
        """stdout, decoded; bytes that are not UTF-8 become U+FFFD."""
        return self.stdout.decode("utf-8", "replace")


def command_line(command: str | Sequence[str]) -> str:
    """A line as it is, or words quoted for the phone's sh.

    Raises:
        UsageError: it holds a NUL.
    """
    line = command if isinstance(command, str) else quote(command)
    if "\0" in line:
        quote_word(line)  # raises: the one message about NUL
    return line


def run_command(device: Device, line: str, *, timeout_s: float | None, stdin: bytes) -> ShellResult:
    """Run a command to its end. Raises as `Device.shell`."""
    deadline = Deadline(timeout_s)
    with open_command(device, line, stdin_bytes=len(stdin)) as stream:
        return finish_command(device, stream, line, deadline=deadline, stdin=stdin)


def finish_command(
    device: Device, stream: ShellStream, line: str, *, deadline: Deadline, stdin: bytes
) -> ShellResult:
    """Give a command that runs its whole input and collect its output to the end.

    Raises:
        OperationTimeout: it is not done at the deadline.
    """
    parts: dict[str, list[bytes]] = {"stdout": [], "stderr": []}
    if len(stdin) > 0:
        # Beside the reading: the command may fill its output before it reads all input.
        threading.Thread(target=_feed, args=(stream, stdin), daemon=True).start()
    else:
        stream.close_stdin()
    while True:
        try:
            name, data = stream.read(deadline.left_s())
            # A command that never stops talking never lets `read` time out.
            late = deadline.passed() and name != "exit"
        except OperationTimeout:
            late = True
        if late:
            raise OperationTimeout(
                f"`{_short(line)}` was not done on the phone {device.serial} after {deadline.timeout_s:g} s",
                where=PHONE,
                evidence=_tail(b"".join((parts["stderr"] or parts["stdout"])[-8:])),
            )
        if isinstance(data, int):
            return ShellResult(line, data, b"".join(parts["stdout"]), b"".join(parts["stderr"]))
        parts[name].append(data)


def check_result(device: Device, result: ShellResult) -> None:
    """Raise when a command's exit code is not 0.

    Raises:
        DeviceError: carries the end of what it said.
    """
    if result.exit_code != 0:
        raise DeviceError(
            f"`{_short(result.command)}` failed on the phone {device.serial} (exit code {result.exit_code})",
            where=PHONE,
            evidence=_tail(result.stderr or result.stdout),
        )


def open_command(
    device: Device,
    line: str,
    *,
    pty: bool = False,
    term: str | None = None,
    stdin_bytes: int | None = None,
    doing: str | None = None,
) -> ShellStream:
    """Start a command; an empty one is a login shell. The other arguments are those of `Device.open_shell`.

    Args:
        stdin_bytes: how much input it will get, if known: without shell v2 nothing else tells its end.

    Raises:
        DeviceError: the line is longer than adb carries.
    """
    doing = doing or (f"running `{_short(line)}`" if line else "opening a shell")
    v2 = "shell_v2" in device.features
    marker = None
    sent = line
    if not v2 and line:
        sent, marker = wrap_for_v1(line, stdin_bytes=stdin_bytes)
    limit = COMMAND_BYTES_V2 if v2 else COMMAND_BYTES_V1
    if len(sent.encode("utf-8", "surrogateescape")) > limit:
        raise DeviceError(
            f"a command line is too long for the phone {device.serial}",
            evidence=f"{len(sent)} characters; adb carries {limit} bytes: {_short(line)}",
            hints=["put long arguments into a file, push it and name the file"],
        )
    sock = device.dial(shell_service(sent, v2=v2, pty=pty, term=term), doing=doing)
    if v2:
        return ShellV2Stream(sock, server=device.server, serial=device.serial, doing=doing)
    return ShellV1Stream(sock, marker, server=device.server, serial=device.serial, doing=doing)


def _feed(stream: ShellStream, data: bytes) -> None:
    stream.write_stdin(data)
    stream.close_stdin()


def _short(line: str) -> str:
    first = line.strip().partition("\n")[0]
    return first if len(first) <= 80 and first == line.strip() else first[:77] + "..."


def _tail(data: bytes, lines: int = 15) -> str:
    return "\n".join(data[-EVIDENCE_BYTES:].decode("utf-8", "replace").strip().splitlines()[-lines:])
