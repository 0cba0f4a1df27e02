"""Scripts that a deployment runs on the phone, and what their failures mean."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devkit.device.commands import finish_command
from devkit.device.connection import Deadline
from devkit.errors import PHONE, DeployError, DeviceError

if TYPE_CHECKING:
    from devkit.device import Device, ShellResult, ShellStream

# A command line that adb surely carries; a longer script goes through stdin, a round trip later.
_LINE_BYTES = 3000
UNCHANGED = "what was there before is unchanged"


def run_script(
    device: Device, lines: Sequence[str], timeout_s: float, shell: ShellStream | None = None
) -> ShellResult:
    """Run lines on the phone; the first that fails ends them.

    Args:
        shell: one that waits there for a script; it is closed.
    """
    script = "set -e\n" if len(lines) > 1 else ""
    script += "\n".join(lines) + "\n"
    data = script.encode("utf-8", "surrogateescape")
    if shell is not None:
        with shell:
            return finish_command(device, shell, script, deadline=Deadline(timeout_s), stdin=data)
    if len(data) <= _LINE_BYTES:
        return device.shell(script, timeout_s=timeout_s)
    # A command line has a limit that thousands of files pass.
    return device.shell("sh", stdin=data, timeout_s=timeout_s)


def check_script(device: Device, result: ShellResult, what: str, folder: str) -> None:
    """Raise when a script's exit code is not 0.

    Args:
        what: what failed then, as a sentence.

    Raises:
        DeployError: it is not; carries the phone's words.
    """
    from devkit.device import quote

    if result.exit_code == 0:
        return
    words = result.stderr.decode("utf-8", "replace")
    if says_full(words):
        raise disk_full(device, folder, words)
    raise DeployError(
        what,
        where=PHONE,
        evidence=words,
        hints=[
            f"devkit device shell -- {quote(['ls', '-la', folder])}",
            "or choose another folder: device.dir in devkit.yaml, --device-dir",
        ],
    )


def says_full(words: str) -> bool:
    """Whether the phone's words are about a full disk."""
    return "No space left on device" in words


def disk_full(device: Device, folder: str, words: str) -> DeployError:
    """The error for a phone without room."""
    from devkit.device import quote, quote_word

    try:
        free = device.shell(quote(["df", "-h", folder])).text
    except DeviceError:
        free = ""
    above = quote_word(posixpath.dirname(folder))
    return DeployError(
        f"the phone's storage is full; {UNCHANGED}",
        where=PHONE,
        evidence=f"{words}\n{free}".strip(),
        hints=[f"make room: devkit device shell 'du -sh {above}/*'"],
    )
