"""Which CodeLLDB is there, and how configurations are written for it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from devkit import config as configuration
from devkit.vscode_templates import plan_setup
from devkit.vscode_templates.codelldb import installed_version, quirks_of
from devkit.vscode_templates.jsonc import parse
from tests.support.json_schema import faults

CASES = Path(__file__).parents[2] / "data/cases"
SCHEMAS = Path(__file__).parents[2] / "data/vscode"
LAUNCH = json.loads((SCHEMAS / "launch.schema.json").read_text("utf-8"))["$defs"]
TASKS = json.loads((SCHEMAS / "tasks.schema.json").read_text("utf-8"))


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
    ("version", "request_", "goes_on", "notes"),
    [(None, "attach", False, 0), ("1.9.0", "custom", False, 0), ("1.9.1", "attach", True, 0),
     ("1.11.0", "attach", True, 0), ("1.11.4", "attach", True, 1), ("1.11.5", "attach", False, 0),
     ("1.12.1", "attach", False, 1), ("1.12.2", "attach", False, 0), ("2.0", "attach", False, 0)],
)  # fmt: skip
def test_each_version_gets_what_it_needs(
    version: str | None, request_: str, goes_on: bool, notes: int
) -> None:
    quirks = quirks_of(version)
    assert (quirks.request, quirks.goes_on, len(quirks.notes)) == (request_, goes_on, notes)


def test_f3_versions_that_are_known_to_break_are_told() -> None:
    right = json.loads((CASES / "F3/expected.json").read_text("utf-8"))["versions"]
    versions = re.findall(r"1\.\d+(?:\.\d+)?", right.partition("known breaks")[2])
    assert versions == ["1.11.1", "1.11.2", "1.12"]
    for version in versions:
        [note] = quirks_of(version if version.count(".") == 2 else f"{version}.0").notes
        assert note.startswith(f"CodeLLDB {version}")


def written(home: Path, debugger: str, name: str) -> dict[str, Any]:
    (home / "CMakeLists.txt").touch()
    (home / "devkit.yaml").write_text(
        f"engine: cmake\nvscode: {{debugger: {debugger}}}\napps: {{a b: {{env: {{X: '1'}}}}, c: {{}}}}\n"
        "presets: {mine: {breakpoints: [main]}}\n"
    )
    setup = plan_setup(configuration.load(home, environ={}))
    [file] = [f for f in setup.files if f.path.name == name]
    root = parse(file.after or "").root
    assert root is not None
    value: dict[str, Any] = root.value
    return value


def launch(home: Path, debugger: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = written(home, debugger, "launch.json")["configurations"]
    return found


@pytest.mark.parametrize(
    ("version", "since"), [(None, "1.11.5"), ("1.12.1", "1.11.5"), ("1.11.4", "1.9.1"), ("1.8.1", "0")]
)
@pytest.mark.parametrize("debugger", ["codelldb", "lldb-dap", "both"])
def test_configurations_hold_only_what_the_extension_knows(
    home: Path, debugger: str, version: str | None, since: str
) -> None:
    if version:
        install(home, f"vadimcn.vscode-lldb-{version}")
    configurations = launch(home, debugger)
    phone = [c for c in configurations if "on the phone" in c["name"]]
    assert {c["type"] for c in phone} == ({"lldb", "lldb-dap"} if debugger == "both" else {phone[0]["type"]})
    for config in configurations:
        known = since if config["type"] == "lldb" else "0"
        assert not faults(config, LAUNCH[f"{config['type']} {known} {config['request']}"])
    for config in phone:
        assert 'command source --stop-on-error true "${workspaceFolder}/build/devkit/debug/' in str(config)
    tasks = written(home, debugger, "tasks.json")
    assert not faults(tasks, TASKS)
    labels = [task["label"] for task in tasks["tasks"]]
    assert len(set(labels)) == len(labels) and len({c["name"] for c in configurations}) == len(configurations)
    for config in configurations:
        assert config["preLaunchTask"] in labels and config.get("postDebugTask", labels[0]) in labels


def test_the_schema_finds_what_is_wrong(home: Path) -> None:
    schema = LAUNCH["lldb 1.11.5 attach"]
    good = launch(home, "codelldb")[0]
    (unknown,) = faults({**good, "procesCreateCommands": []}, schema)
    assert "'procesCreateCommands' was unexpected" in unknown
    assert faults({**good, "initCommands": "x"}, schema) == ["$.initCommands: 'x' is not of type 'array'"]
    assert faults({k: v for k, v in good.items() if k != "targetCreateCommands"}, schema)
    assert faults(good, LAUNCH["lldb 0 custom"])


def test_an_odd_codelldb_is_told(home: Path) -> None:
    install(home, "vadimcn.vscode-lldb-1.12.0")
    launch(home, "codelldb")
    notes = plan_setup(configuration.load(home, environ={})).notes
    assert any("1.12.0 is reported to crash" in note for note in notes)


def test_the_sets_of_breakpoints_are_asked_for(home: Path) -> None:
    tasks = written(home, "codelldb", "tasks.json")
    [asked] = tasks["inputs"]
    assert [option["value"] for option in asked["options"]][:2] == ["mine", "llm-load"]
    users = [task["args"] for task in tasks["tasks"] if "${input:devkit.preset}" in task["args"]]
    assert [args[args.index("--preset") - 3] for args in users] == ["a b", "c"]
