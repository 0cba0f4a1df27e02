"""`--print-commands`: a session as lines that a person can paste."""

from __future__ import annotations

import contextlib
import posixpath
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devkit import process
from devkit.lldb import recipes
from devkit.lldb.opening import session_script
from devkit.lldb.server import FOLDER, server_command
from devkit.lldb.sysroot import mini_sysroot
from devkit.symbols import read_elf

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb.request import DebugRequest
    from devkit.lldb.tools import LldbTools

MANUAL_PORT = 5039


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
    script = session_script(device, request, sysroot, port)
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


def _manual_port() -> int:
    """The local port of the shown forward: the usual one, or a free one. devkit itself needs none."""
    for port in (MANUAL_PORT, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free: int = probe.getsockname()[1]
            return free
    return MANUAL_PORT
