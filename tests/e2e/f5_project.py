"""A folder as VS Code opens it, and the names of what it finds there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.device import Device
from devkit.vscode_templates.jsonc import parse
from tests.e2e.support import Cli, TinyApp, eventually, left_on_phone
from tests.e2e.test_debug import OURS

ADAPTERS = {
    "codelldb-23": str(Path(sys.executable).parent / "lldb"),
    "codelldb-19": shutil.which("lldb-19"),
    "lldb-dap-19": shutil.which("lldb-dap-19"),
}
THERE = [name for name, path in ADAPTERS.items() if path]
# What follows "on the phone" in the names of an app's configurations.
KINDS = ("", ", with input", ", breakpoint set", ", attach", ", wait for it (tiny)", ", platform mode")
APPS = ("tiny_app", "other")


def make_project(workdir: Path, tiny: TinyApp, devkit: Cli) -> Path:
    """An engine with two apps of one program, after `devkit vscode`."""
    folder = workdir / "my engine"
    folder.mkdir()
    (folder / "CMakeLists.txt").touch()
    (folder / "devkit.yaml").write_text(
        "engine: cmake\nvscode: {debugger: both}\n"
        "presets:\n  inner: {about: each round, breakpoints: [inner: one round, outer]}\napps:\n"
        f"  tiny_app: {{target: '{tiny.program}'}}\n  other: {{target: '{tiny.program}', args: [cat]}}\n",
        "utf-8",
    )
    assert devkit("vscode", cwd=folder).code == 0
    return folder


def check_nothing_is_left(device: Device, workdir: Path) -> None:
    assert eventually(lambda: not left_on_phone(device, *OURS)), left_on_phone(device, *OURS)
    assert not list((workdir / "my engine/build").rglob("debug/*/*"))
    assert not any((paths.state_dir() / "sessions").glob("*"))


def launch_of(project: Path) -> Path:
    return project / ".vscode/launch.json"


def config_name(adapter: str, kind: str, app: str = "tiny_app") -> str:
    name = f"devkit: {app} on the phone{kind}"
    return f"{name} (lldb-dap)" if adapter.startswith("lldb-dap") else name


def tasks_of(project: Path) -> dict[str, Any]:
    root = parse((project / ".vscode/tasks.json").read_text("utf-8")).root
    assert root is not None
    text = json.dumps(root.value).replace("${workspaceFolder}", str(project))
    return {task["label"]: task for task in json.loads(text)["tasks"]}
