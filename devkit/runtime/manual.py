"""`--print-commands` for run and deploy: the adb lines a person would type, never run by devkit."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from devkit.device import find_adb, quote
from devkit.process import show

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.runtime.apps import PreparedApp
    from devkit.runtime.run import Launch


def adb_words(config: Config, device: Device) -> list[str]:
    """`adb -H … -P … -s …`, as far as the defaults do not say it already."""
    server = device.server
    where = (
        []
        if (server.host, server.port) == ("127.0.0.1", 5037)
        else ["-H", server.host, "-P", str(server.port)]
    )
    return [str(find_adb(config.adb.path).path), *where, "-s", device.serial]


def render_run_commands(
    config: Config, device: Device, prepared: PreparedApp, launch: Launch
) -> tuple[dict[str, Any], str]:
    """The commands as (value for --json, text)."""
    adb = adb_words(config, device)
    commands = list(prepared.local.build_lines)
    plan = prepared.plan
    folders = sorted({posixpath.dirname(posixpath.join(plan.folder, f.remote)) for f in plan.files})
    commands.append(show([*adb, "shell", quote(["mkdir", "-p", *folders])]))
    for file in plan.files:
        commands.append(show([*adb, "push", str(file.local), posixpath.join(plan.folder, file.remote)]))
    commands.append(show([*adb, "shell", quote(["chmod", "755", plan.program_path])]))
    commands.append(show([*adb, "shell", launch.shell_text()]))
    return {"commands": commands}, "\n".join(commands)
