"""`devkit debug APP --vscode`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from devkit import output
from devkit.cli import common
from devkit.errors import UsageError


def start_in_vscode(
    name: str,
    *,
    stdin: Path | None,
    presets: list[str] | None,
    pick: bool,
    wait_for: bool,
    platform: bool,
    others: Mapping[str, object],
) -> None:
    """Start the app's configuration in the VS Code that runs.

    Args:
        others: options that a configuration cannot be given, by name.
    """
    from devkit import lldb, vscode_templates

    given = [option for option, value in others.items() if value]
    if given:
        raise UsageError(
            f"--vscode starts a configuration of launch.json; it cannot be given {' or '.join(given)}",
            hints=[
                "devkit.yaml holds arguments, profile and folder",
                "devkit device select chooses the phone",
            ],
        )
    if stdin is not None and stdin != lldb.STDIN:
        raise UsageError(
            "--vscode --stdin: what the program reads is typed into the task's terminal", hints=["--stdin -"]
        )
    kinds = {"input": stdin is not None, "preset": bool(presets), "attach": pick, "wait": wait_for}
    kinds["platform"] = platform
    chosen = [kind for kind, wanted in kinds.items() if wanted] or ["launch"]
    if len(chosen) > 1:
        raise UsageError("--vscode goes with one of --stdin -, --preset, --pick, --wait-for, --platform")
    config = common.load_config()
    if name not in config.apps:
        raise UsageError(
            f"--vscode knows apps of devkit.yaml, and {name} is none",
            evidence=f"apps: {', '.join(config.apps)}" if config.apps else "devkit.yaml has no apps",
        )
    if presets:
        output.current().note(f"VS Code asks which set of breakpoints: {', '.join(presets)}")
    started = vscode_templates.start_in_vscode(config, name, chosen[0], environ=os.environ)
    output.current().data(
        {"configuration": started.configuration, "folder": str(started.folder), "way": started.way},
        f"VS Code has started {started.configuration!r}",
    )
