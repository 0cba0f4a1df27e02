"""F5: every configuration that `devkit vscode` writes is played, for the versions of CodeLLDB, too.

Launch, input, attach and wait-for have their tests in test_f5.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.f5_project import (
    ADAPTERS,
    APPS,
    KINDS,
    THERE,
    check_nothing_is_left,
    config_name,
    launch_of,
    make_project,
)
from tests.e2e.support import REPO, Cli, Sim, TinyApp
from tests.tools.f5 import f5
from tests.tools.vscode_tasks import F5Failed, load

CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(tiny CXX)
add_library(inner SHARED inner.cpp)
add_executable(tiny main.cpp)
target_link_libraries(tiny inner)
"""


@pytest.fixture
def project(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(workdir / "home"))
    return make_project(workdir, tiny, devkit)


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device, workdir: Path) -> Iterator[None]:
    yield
    check_nothing_is_left(device, workdir)


def test_there_is_no_configuration_that_is_not_played(project: Path) -> None:
    names = {config["name"] for config in load(launch_of(project), project)["configurations"]}
    played = {
        config_name(adapter, kind, app)
        for adapter in ("codelldb", "lldb-dap")
        for kind in KINDS
        for app in APPS
    }
    assert names == played


# LLDB 19 has the same flow in the slow set.
ADAPTER = pytest.mark.parametrize(
    "adapter", [pytest.param(n, marks=pytest.mark.slow) if n == "codelldb-19" else n for n in THERE]
)


@ADAPTER
def test_platform_mode(project: Path, tiny: TinyApp, adapter: str) -> None:
    point = (str(tiny.folder / "inner.cpp"), 4)
    session = f5(
        launch_of(project), config_name(adapter, ", platform mode"), [point], stops=2,
        adapter=ADAPTERS[adapter],
    )  # fmt: skip
    assert [stop["frames"][0][1:] for stop in session.stops] == [list(point)] * 2
    assert session.exit == 7 and session.task_exit == 0


@ADAPTER
def test_a_set_of_breakpoints_is_picked(project: Path, tiny: TinyApp, adapter: str) -> None:
    session = f5(
        launch_of(project), config_name(adapter, ", breakpoint set"), [], stops=2, then="disconnect",
        inputs={"devkit.preset": "inner"}, adapter=ADAPTERS[adapter],
    )  # fmt: skip
    assert [stop["frames"][0][1:] for stop in session.stops] == [[str(tiny.folder / "inner.cpp"), 3]] * 2
    assert "preset inner: each round" in session.terminal and "one round" in session.terminal
    assert "outer is not there" in session.terminal and session.task_exit == 0


def test_a_set_that_the_program_does_not_have(project: Path) -> None:
    with pytest.raises(F5Failed, match="errors exist after running the preLaunchTask") as caught:
        f5(
            launch_of(project), config_name("codelldb", ", breakpoint set"), [],
            inputs={"devkit.preset": "eagle"},
        )  # fmt: skip
    assert "none of the functions of the preset eagle is in the program" in str(caught.value)


@pytest.mark.parametrize(
    "version", [*(pytest.param(v, marks=pytest.mark.slow) for v in ("1.8.1", "1.9.2")), "1.11.4"]
)
def test_older_versions_of_codelldb(project: Path, tiny: TinyApp, devkit: Cli, version: str) -> None:
    """Written for what is installed, it stops at the breakpoint; written for another, it does not."""
    point = (str(tiny.folder / "inner.cpp"), 4)
    (project.parent / f"home/.vscode/extensions/vadimcn.vscode-lldb-{version}").mkdir(parents=True)
    assert devkit("vscode", "--check", cwd=project).code == 1
    assert devkit("vscode", cwd=project).code == 0
    session = f5(launch_of(project), config_name("codelldb", ""), [point], stops=2, codelldb=version,
                 adapter=ADAPTERS["codelldb-23"])  # fmt: skip
    assert [stop["values"]["value"] for stop in session.stops] == ["0", "1"] and session.exit == 7


@pytest.mark.slow
def test_what_was_written_for_an_older_version_is_not_for_this_one(
    project: Path, tiny: TinyApp, devkit: Cli
) -> None:
    (project.parent / "home/.vscode/extensions/vadimcn.vscode-lldb-1.11.4").mkdir(parents=True)
    assert devkit("vscode", cwd=project).code == 0
    point = (str(tiny.folder / "inner.cpp"), 4)
    with pytest.raises(F5Failed, match="nobody lets the process go on"):
        f5(launch_of(project), config_name("codelldb", ""), [point], adapter=ADAPTERS["codelldb-23"])


@pytest.mark.slow
def test_built_by_f5_for_the_phone_and_for_this_machine(
    sim: Sim, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(workdir / "home"))
    folder = workdir / "my engine"
    folder.mkdir()
    for name in ("inner.cpp", "main.cpp"):
        shutil.copy(REPO / "tests/data/tiny" / name, folder)
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "devkit.yaml").write_text("engine: cmake\napps: {tiny: {env: {X: '1'}}}\n")
    assert devkit("vscode", cwd=folder).code == 0
    inner = folder / "inner.cpp"
    lldb = ADAPTERS["codelldb-23"]
    for name in ("devkit: tiny on the phone", "devkit: tiny on this machine"):
        session = f5(launch_of(folder), name, [(str(inner), 4)], stops=2, adapter=lldb)
        assert [stop["frames"][0][1:] for stop in session.stops] == [[str(inner), 4]] * 2
        assert session.exit == 7
    # Edited, F5 again: the new program runs.
    inner.write_text(inner.read_text().replace("value * 2", "value * 3"))
    session = f5(launch_of(folder), "devkit: tiny on the phone", [(str(inner), 5)], stops=2, adapter=lldb)
    assert session.stops[1]["values"]["doubled"] == "3"
