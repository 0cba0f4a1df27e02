"""Which CodeLLDB is there, and how configurations are written for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devkit import config as configuration
from devkit.vscode_templates import plan_setup
from devkit.vscode_templates.codelldb import installed_version, quirks_of
from devkit.vscode_templates.jsonc import parse

# What the extensions' package.json declare for "attach"; VS Code's own are above them.
GENERAL = {"name", "type", "request", "preLaunchTask", "postDebugTask"}
KNOWN = {
    "lldb": {"initCommands", "targetCreateCommands", "processCreateCommands"},
    "lldb-dap": {"initCommands", "attachCommands"},
}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("VSCODE_EXTENSIONS", raising=False)
    return tmp_path


def install(home: Path, name: str) -> None:
    (home / ".vscode-server/extensions" / name).mkdir(parents=True)


def test_the_newest_version_counts(home: Path) -> None:
    assert installed_version() is None
    install(home, "vadimcn.vscode-lldb-1.9.2")
    install(home, "vadimcn.vscode-lldb-1.11.4-linux-x64")
    install(home, "vadimcn.vscode-lldb-next")
    assert installed_version() == "1.11.4"


@pytest.mark.parametrize(
    ("version", "request_", "notes"),
    [(None, "attach", 0), ("1.9.0", "custom", 0), ("1.9.1", "attach", 0), ("1.11.2", "attach", 0),
     ("1.12.1", "attach", 1), ("1.12.2", "attach", 0)],
)  # fmt: skip
def test_each_version_gets_what_it_needs(version: str | None, request_: str, notes: int) -> None:
    quirks = quirks_of(version)
    assert (quirks.request, len(quirks.notes)) == (request_, notes)


def launch(home: Path, debugger: str) -> tuple[list[dict[str, Any]], tuple[str, ...]]:
    (home / "CMakeLists.txt").touch()
    (home / "devkit.yaml").write_text(
        f"engine: cmake\nvscode: {{debugger: {debugger}}}\napps: {{a b: {{}}}}\n"
    )
    setup = plan_setup(configuration.load(home, environ={}))
    [file] = [f for f in setup.files if f.path.name == "launch.json"]
    root = parse(file.after or "").root
    assert root is not None
    return [c for c in root.value["configurations"] if "phone" in c["name"]], setup.notes


@pytest.mark.parametrize(
    ("debugger", "types"), [("codelldb", {"lldb"}), ("lldb-dap", {"lldb-dap"}), ("both", set(KNOWN))]
)
def test_configurations_hold_only_what_the_extension_knows(
    home: Path, debugger: str, types: set[str]
) -> None:
    configurations, _ = launch(home, debugger)
    assert {c["type"] for c in configurations} == types
    for config in configurations:
        assert set(config) == GENERAL | KNOWN[config["type"]]
        assert config["request"] == "attach"
        commands = json.dumps([config[key] for key in KNOWN[config["type"]]])
        assert 'command source --stop-on-error true \\"${workspaceFolder}/build/devkit/debug/a b-' in commands


def test_an_old_and_an_odd_codelldb(home: Path) -> None:
    install(home, "vadimcn.vscode-lldb-1.8.1")
    assert {c["request"] for c in launch(home, "codelldb")[0]} == {"custom"}
    install(home, "vadimcn.vscode-lldb-1.12.0")
    assert any("1.12.0 is reported to crash" in note for note in launch(home, "codelldb")[1])
