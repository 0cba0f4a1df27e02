"""`--print-commands`: a session as lines that a person can paste."""

from __future__ import annotations

import contextlib
import dataclasses
import posixpath
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING

from devkit import process
from devkit.lldb import recipes
from devkit.lldb.opening import parse_environment, platform_target, session_script
from devkit.lldb.platform_commands import ANDROID, LINUX, PlatformMode
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
    push = [
        "# on the phone, in a terminal of its own:",
        process.show([*adb, "shell", quote(["mkdir", "-p", posixpath.dirname(server)])]),
        process.show([*adb, "push", str(tools.server), server]),
    ]
    if request.platform:
        return "\n".join([*push, *_platform_lines(device, tools, request, script, server, adb)])
    command = server_command(server, name, request.launch, request.attach_pid)
    return "\n".join(
        [
            *push,
            process.show([*adb, "shell", f"chmod 755 {quote([server])}; {command}"]),
            "# here:",
            process.show([*adb, "forward", f"tcp:{port}", f"localabstract:{name}"]),
            _lldb_line(tools, script),
            "# afterwards:",
            process.show([*adb, "forward", "--remove", f"tcp:{port}"]),
        ]
    )


def _platform_lines(
    device: Device,
    tools: LldbTools,
    request: DebugRequest,
    script: recipes.SessionScript,
    server: str,
    adb: Sequence[str],
) -> list[str]:
    """The platform's start, its two forwards with the phone's numbers, LLDB."""
    from devkit.device import quote
    from devkit.device.forwards import forwards_land_here
    from devkit.lldb.platform_server import platform_command

    port, gdb_port = MANUAL_PORT, MANUAL_PORT + 1
    ports = [f"tcp:{port}", f"tcp:{gdb_port}"]
    plugin, url, environment, forwards = LINUX, f"connect://127.0.0.1:{port}", {}, ports
    if forwards_land_here(device):
        # The plugin makes its forwards itself, at these ports, and leaves one.
        plugin, url, forwards = ANDROID, f"connect://[{device.serial}]:{port}", []
        environment = {
            "ANDROID_SERIAL": device.serial,
            "ANDROID_ADB_SERVER_PORT": str(device.server.port),
            "ANDROID_PLATFORM_LOCAL_PORT": str(port),
            "ANDROID_PLATFORM_LOCAL_GDB_PORT": str(gdb_port),
        }
    variables = device.shell("env -0").stdout.decode("utf-8", "surrogateescape") if request.launch else ""
    mode = PlatformMode(plugin, url, environment, **platform_target(request, parse_environment(variables)))
    command = platform_command(server, port, gdb_port, stays=True)
    return [
        process.show([*adb, "shell", f"chmod 755 {quote([server])}; exec {command}"]),
        "# here:",
        *(process.show([*adb, "forward", each, each]) for each in forwards),
        _lldb_line(tools, dataclasses.replace(script, mode=mode)),
        "# afterwards:",
        *(process.show([*adb, "forward", "--remove", each]) for each in forwards or ports[:1]),
    ]


def _lldb_line(tools: LldbTools, script: recipes.SessionScript) -> str:
    words = [str(tools.lldb)]
    for line in recipes.setup_commands(script) + recipes.connect_commands(script):
        words += ["-o", line]
    return process.show(words)


def _manual_port() -> int:
    """The local port of the shown forward: the usual one, or a free one. devkit itself needs none."""
    for port in (MANUAL_PORT, 0):
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            free: int = probe.getsockname()[1]
            return free
    return MANUAL_PORT
