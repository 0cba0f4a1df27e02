"""F5 when something is wrong: VS Code is told by the task's problem, and nothing hangs or stays."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.f5_project import ADAPTERS, config_name, launch_of, make_project, tasks_of
from tests.e2e.support import Cli, Sim, TinyApp, eventually, left_on_phone, start_sim
from tests.e2e.test_debug import OURS
from tests.tools.f5 import f5
from tests.tools.vscode_tasks import BackgroundTask, F5Failed


@pytest.fixture
def project(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(workdir / "home"))
    return make_project(workdir, tiny, devkit)


def change(project: Path, text: str) -> None:
    with (project / "devkit.yaml").open("a", encoding="utf-8") as file:
        file.write(text)


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("lldb: {server: /nowhere/lldb-server}\n", "lldb.server"),
        ("lldb: [\n", "devkit.yaml"),
        ("device: {serial: no-such-phone}\n", "no-such-phone"),
    ],
    ids=["no lldb-server", "no yaml", "no phone"],
)
def test_what_is_wrong_before_the_session_is_a_problem(project: Path, more: str, told: str) -> None:
    change(project, more)
    task = BackgroundTask(tasks_of(project)["devkit: prepare tiny_app on the phone"], [])
    task.start()
    with pytest.raises(F5Failed, match="errors exist after running the preLaunchTask"):
        task.wait_until_ready()
    assert task.exit_code not in (0, None)
    assert len(task.problems) == 1 and told in task.text and "  try: " in task.text


def test_a_build_that_fails(project: Path) -> None:
    (project / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(x CXX)\nnonsense()\n"
    )
    text = (project / "devkit.yaml").read_text("utf-8")
    (project / "devkit.yaml").write_text(
        text.replace("args: [cat]", "args: [cat]}\n  broken: {target: x"), "utf-8"
    )
    task = dict(tasks_of(project)["devkit: prepare other on the phone"])
    task["args"] = ["broken" if word == "other" else word for word in task["args"]]
    background = BackgroundTask(task, [])
    background.start()
    with pytest.raises(F5Failed, match="errors exist after running the preLaunchTask"):
        background.wait_until_ready()
    assert background.problems and "nonsense" in background.text


def runs_under_a_debugger(device: Device) -> bool:
    for pid in device.shell("pidof tiny").text.split():
        status = device.shell(["cat", f"/proc/{pid}/status"]).text
        if "State:\tS" in status and "TracerPid:\t" in status and "TracerPid:\t0" not in status:
            return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("adapter", ["codelldb-23", "lldb-dap-19"])
def test_the_phone_leaves_in_the_middle(
    tiny: TinyApp, devkit: Cli, workdir: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, adb: Path,
    adapter: str,
) -> None:  # fmt: skip
    if ADAPTERS[adapter] is None:
        pytest.skip("no lldb-dap-19")
    monkeypatch.setenv("HOME", str(workdir / "home"))
    leaving = start_sim("leaving", tmp_path / "state", adb)
    with leaving.phone:
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
        monkeypatch.setenv("ANDROID_SERIAL", "sim:leaving")
        project = make_project(workdir, tiny, devkit)
        text = (project / "devkit.yaml").read_text("utf-8").replace("args: [cat]", "args: [wait]")
        (project / "devkit.yaml").write_text(text, "utf-8")

        def leave(task: BackgroundTask) -> None:
            def run() -> None:
                assert eventually(lambda: runs_under_a_debugger(leaving.device()), 60)
                leaving.phone.stop()

            threading.Thread(target=run, daemon=True).start()

        session = f5(
            launch_of(project), config_name(adapter, "", "other"), [], stops=0, then="wait",
            adapter=ADAPTERS[adapter], after_ready=leave,
        )  # fmt: skip
    assert session.task_exit == 125 and len(session.problems) == 1
    assert "broke off in the middle of the session" in session.problems[0]
    assert "devkit device list" in session.terminal


def test_an_lldb_server_that_is_killed_is_told(project: Path, sim: Sim) -> None:
    text = (project / "devkit.yaml").read_text("utf-8").replace("args: [cat]", "args: [wait]")
    (project / "devkit.yaml").write_text(text, "utf-8")
    device = sim.device()

    def end_it(task: BackgroundTask) -> None:
        def run() -> None:
            assert eventually(lambda: runs_under_a_debugger(device), 60)
            device.shell("kill -9 $(pgrep -f 'gdbserver [u]nix')")

        threading.Thread(target=run, daemon=True).start()

    session = f5(
        launch_of(project), config_name("codelldb", "", "other"), [], stops=0, then="wait", after_ready=end_it
    )
    assert session.task_exit == 125 and len(session.problems) == 1
    assert "lldb-server ended in the middle of the session" in session.problems[0]
    assert eventually(lambda: not left_on_phone(device, *OURS))


@pytest.mark.slow
def test_a_session_that_goes_on_already(project: Path, sim: Sim) -> None:
    first = BackgroundTask(tasks_of(project)["devkit: prepare tiny_app on the phone"], [])
    first.start()
    try:
        first.wait_until_ready()
        with pytest.raises(F5Failed, match="tiny_app is being debugged already"):
            f5(launch_of(project), config_name("codelldb", ""), [])
    finally:
        first.kill()
    assert eventually(lambda: not left_on_phone(sim.device(), *OURS))
