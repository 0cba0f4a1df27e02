"""Major versions of lldb and lldb-server: two that differ may not understand each other."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from devkit import process

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.tools import LldbTools

_VERSION = re.compile(r"lldb(?:-server)? version (\d+)")
_TIMEOUT_S = 30


def local_major(tools: LldbTools) -> int | None:
    """The major version of this machine's lldb, as it says itself; None when it does not say.

    Raises:
        ToolMissing, ToolFailed, OperationTimeout: it does not run.
    """
    return _major(process.run([tools.lldb, "--version"], timeout_s=_TIMEOUT_S).text)


def remote_major(device: Device, server: str) -> int | None:
    """The major version of an lldb-server on the phone; None when it does not run there."""
    done = device.shell([server, "version"], timeout_s=_TIMEOUT_S)
    return _major(done.text + done.stderr.decode("utf-8", "replace"))


def _major(text: str) -> int | None:
    found = _VERSION.search(text)
    return int(found.group(1)) if found else None
