"""F5 in VS Code on the virtual phone: every configuration that `devkit vscode` writes, as VS Code runs it.

The adapters are LLDB's API in CodeLLDB's order (LLDB 23 of the wheel, Debian's 19) and the real lldb-dap-19.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.f5_project import (
    ADAPTERS,
    THERE,
    check_nothing_is_left,
    config_name,
    launch_of,
    make_project,
    tasks_of,
)
from tests.e2e.support import Cli, Sim, TinyApp, eventually, left_on_phone
from tests.e2e.test_debug import CALL_LINE, MAIN, OURS
from tests.tools.f5 import f5
from tests.tools.vscode_tasks import BackgroundTask, F5Failed

DIR = "/data/local/tmp/devkit/tiny_app"


@pytest.fixture(params=THERE)
def adapter(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def project(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(workdir / "home"))  # no extension of whoever runs the tests
    return make_project(workdir, tiny, devkit)


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device, workdir: Path) -> Iterator[None]:
    yield
    check_nothing_is_left(device, workdir)


def test_launch(project: Path, tiny: TinyApp, adapter: str) -> None:
    inner = str(tiny.folder / "inner.cpp")
    session = f5(
        launch_of(project), config_name(adapter, ""), [(inner, 4)], stops=2, adapter=ADAPTERS[adapter]
    )
    first, second = session.stops
    assert first["breakpoint"] and second["breakpoint"]
    assert first["frames"][0][0].removeprefix("::").startswith("inner") and first["frames"][0][1:] == [
        inner,
        4,
    ]
    assert first["frames"][1][1:] == [str(tiny.folder / "main.cpp"), CALL_LINE]
    assert (first["values"]["value"], second["values"]["value"]) == ("0", "1")
    assert session.exit == 7 and "total 6" in session.program
    assert session.task_exit == 0 and "ready for the debugger: tiny_app on " in session.terminal


def test_the_stop_button_ends_the_program(project: Path, tiny: TinyApp, adapter: str) -> None:
    point, empty = (str(tiny.folder / "inner.cpp"), 4), (str(tiny.folder / "inner.cpp"), 999)
    session = f5(
        launch_of(project), config_name(adapter, ""), [point, empty], then="disconnect",
        adapter=ADAPTERS[adapter],
    )  # fmt: skip
    assert session.stops[0]["breakpoint"] and session.exit is None and session.task_exit == 0
    # lldb-dap 19 sets breakpoints when the process is there, and only then: devkit does not see them.
    why = (
        f"{empty[0]}:999: warning: no code is at this breakpoint: inner.cpp is compiled into libinner.so, but"
    )
    assert (why in session.terminal) is adapter.startswith("codelldb")


def test_launch_with_input_from_the_first_line_on(project: Path, tiny: TinyApp, adapter: str) -> None:
    def type_into(task: BackgroundTask) -> None:
        task.type("hello 你好\n")
        task.type("\x04")

    first_line = next(n for n, line in enumerate(MAIN, start=1) if "std::string mode" in line)
    session = f5(
        launch_of(project),
        config_name(adapter, ", with input", app="other"),
        [(str(tiny.folder / "main.cpp"), first_line)],
        adapter=ADAPTERS[adapter],
        after_ready=type_into,
    )
    assert session.stops[0]["frames"][0][2] == first_line
    assert session.exit == 0 and session.task_exit == 0
    # Once as typed, once as the program's answer.
    assert session.terminal.count("hello 你好") == 2 and session.terminal.count("eof") == 1


def test_attach_to_a_process_picked_from_the_list(
    project: Path, tiny: TinyApp, devkit: Cli, device: Device, adapter: str
) -> None:
    assert devkit("deploy", "tiny_app", cwd=project).code == 0
    line = next(n for n, line in enumerate(MAIN, start=1) if "sleep(1)" in line)
    with device.open_shell(f"cd {DIR} && LD_LIBRARY_PATH={DIR} exec ./tiny wait") as stream:
        assert stream.read(timeout_s=5) == ("stdout", b"waiting\n")
        pid = device.find_process("tiny").pid
        session = f5(
            launch_of(project),
            config_name(adapter, ", attach"),
            [(str(tiny.folder / "main.cpp"), line)],
            then="disconnect",
            answers=[(r"which process\? .*\[tiny, \d+\]: ", "\n")],
            adapter=ADAPTERS[adapter],
        )
        assert session.stops[0]["frames"][0][2] == line and session.task_exit == 0
        assert f"{pid} " in session.terminal
        assert runs_freely(device, pid)


def test_wait_for_a_program_that_somebody_else_starts(
    project: Path, tiny: TinyApp, devkit: Cli, device: Device, adapter: str
) -> None:
    assert devkit("deploy", "tiny_app", cwd=project).code == 0
    line = next(n for n, line in enumerate(MAIN, start=1) if "sleep(1)" in line)
    started = []

    def start() -> None:
        started.append(device.open_shell(f"cd {DIR} && LD_LIBRARY_PATH={DIR} exec ./tiny wait"))

    session = f5(
        launch_of(project),
        config_name(adapter, ", wait for it (tiny)"),
        [(str(tiny.folder / "main.cpp"), line)],
        then="disconnect",
        answers=[("waiting for tiny to start", start)],
        adapter=ADAPTERS[adapter],
    )
    with started[0]:
        assert session.stops[0]["frames"][0][2] == line and session.task_exit == 0
        assert runs_freely(device, device.find_process("tiny").pid)


def runs_freely(device: Device, pid: int) -> bool:
    def free() -> bool:
        status = device.shell(["cat", f"/proc/{pid}/status"]).text
        return "TracerPid:\t0" in status and "State:\tT" not in status and "State:\tt" not in status

    return eventually(free)


@pytest.mark.parametrize(
    ("kind", "restarts"), [("", 2), pytest.param("", 20, marks=pytest.mark.slow), (", with input", 2)]
)
def test_the_restart_button(project: Path, tiny: TinyApp, kind: str, restarts: int) -> None:
    """CodeLLDB restarts inside its session; VS Code runs postDebugTask before, while it is connected."""
    point = (str(tiny.folder / "inner.cpp"), 4)
    session = f5(
        launch_of(project),
        config_name("codelldb", kind),
        [point],
        restarts=restarts,
        adapter=ADAPTERS["codelldb-23"],
    )
    assert [stop["frames"][0][2] for stop in session.stops] == [4] * (restarts + 1)
    assert len({stop["pid"] for stop in session.stops}) == restarts + 1
    assert session.exit == 7 and session.task_exit == 0


@pytest.mark.parametrize("adapter", ["codelldb-23", pytest.param("lldb-dap-19", marks=pytest.mark.slow)])
def test_one_after_the_other_without_a_pause(project: Path, tiny: TinyApp, adapter: str) -> None:
    """What the restart button is with lldb-dap, which knows no restart: VS Code starts another session."""
    point = (str(tiny.folder / "inner.cpp"), 4)
    for _ in range(3):
        session = f5(launch_of(project), config_name(adapter, ""), [point], adapter=ADAPTERS[adapter])
        assert session.exit == 7


def test_what_fails_is_told_to_vs_code(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANDROID_SERIAL", "no-such-phone")
    with pytest.raises(F5Failed) as caught:
        f5(launch_of(project), config_name("codelldb", ""), [])
    text = str(caught.value)
    assert text.startswith("errors exist after running the preLaunchTask") and "no-such-phone" in text


def test_a_closed_task_ends_everything(project: Path, tiny: TinyApp, device: Device, devkit: Cli) -> None:
    """Also the task that ends it, when no debugger ever came."""
    tasks = tasks_of(project)
    for how in ("trash", "end task"):
        task = BackgroundTask(tasks["devkit: prepare tiny_app on the phone"], [])
        task.start()
        task.wait_until_ready()
        assert left_on_phone(device, "lldb-server")
        if how == "trash":
            task.kill()
            assert task.exit_code == 128 + 1
        else:
            end = tasks["devkit: end tiny_app on the phone"]
            ran = devkit(*end["args"], cwd=project)
            assert (ran.code, ran.out) == (0, "ended\n")
            task.wait_for_end()
            assert task.exit_code == 0
        assert eventually(lambda: not left_on_phone(device, *OURS))


def test_a_session_of_another_kind_is_not_disturbed(
    project: Path, tiny: TinyApp, device: Device, devkit: Cli
) -> None:
    tasks = tasks_of(project)
    task = BackgroundTask(tasks["devkit: prepare tiny_app on the phone"], [])
    task.start()
    task.wait_until_ready()
    ran = devkit(*tasks["devkit: end other on the phone"]["args"], cwd=project)
    assert (ran.code, ran.out) == (0, "there is no such session\n")
    # Nor is the other disturbed by it.
    line = next(n for n, text in enumerate(MAIN, start=1) if "std::string mode" in text)
    session = f5(
        launch_of(project), config_name("codelldb", "", "other"), [(str(tiny.folder / "main.cpp"), line)],
        then="disconnect", adapter=ADAPTERS["codelldb-23"],
    )  # fmt: skip
    assert session.stops[0]["frames"][0][2] == line and session.task_exit == 0
    assert task.exit_code is None
    task.kill()
