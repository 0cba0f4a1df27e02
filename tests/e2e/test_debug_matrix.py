"""What a debugger is for, with LLDB 19 (Debian) and 23 (PyPI), as users type it; nothing is left after."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import config
from devkit.device import Device
from devkit.lldb import find_tools
from tests.e2e.support import Cli, Sim, TinyApp, eventually, left_on_phone
from tests.e2e.terminal import Terminal
from tests.e2e.test_debug import MAIN, nothing_left
from tests.e2e.test_debug_symbols import GO_ON, late

__all__ = ["late"]

pytestmark = pytest.mark.slow

DIR = "/data/local/tmp/devkit/tiny"
RUN = f"cd {DIR} && LD_LIBRARY_PATH={DIR} exec ./tiny wait"
LLDBS = {"23": str(Path(sys.executable).parent / "lldb"), "19": shutil.which("lldb-19")}
RESTARTS, FIRST = 20, 10


@pytest.fixture(params=[name for name, path in LLDBS.items() if path], autouse=True)
def lldb(request: pytest.FixtureRequest, sim: Sim, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both with the wheel's lldb-server: Debian's needs libraries that no phone has."""
    path = str(LLDBS[request.param])
    monkeypatch.setenv("DEVKIT_LLDB_SERVER", str(find_tools(config.load(), sim.device()).server))
    monkeypatch.setenv("DEVKIT_LLDB_PATH", path)
    return path


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device) -> Iterator[None]:
    yield
    assert nothing_left(device)


def test_a_conditional_breakpoint(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    commands = 'breakpoint set --file inner.cpp --line 4 --condition "value == 2"\nprocess continue\n'
    ran = devkit("debug", tiny.program, "--batch", "-", "--json", stdin=commands + "frame variable value\n")
    main, inner = ran.data["stops"]
    assert main["frames"][0]["function"] == "main"
    assert {v["name"]: v["value"] for v in inner["locals"]}["value"] == "2"


def test_a_watched_variable(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    line = next(n for n, text in enumerate(MAIN, start=1) if "for (int i = 0" in text)
    commands = "watchpoint set variable total\nprocess continue\nprocess continue\nframe variable total\n"
    words = ("debug", tiny.program, "-b", f"main.cpp:{line}", "--batch", "-", "--json")
    ran = devkit(*words, stdin=commands)
    reasons = [stop["reason"] for stop in ran.data["stops"]]
    assert "watchpoint" in reasons[1], ran.data["transcript"]


def test_stripped_on_the_phone_and_lines_here(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    ran = devkit("debug", tiny.program, "-b", "inner.cpp:4", "--batch", "-", "--json", stdin="bt\n")
    there = device.stat([f"{DIR}/libinner.so"])[f"{DIR}/libinner.so"]
    assert there is not None and there.size < tiny.library.stat().st_size
    assert [frame["line"] for frame in ran.data["stops"][0]["frames"][:1]] == [4]


def test_a_breakpoint_in_a_library_that_is_opened_later(sim: Sim, late: Path, devkit: Cli) -> None:
    ran = devkit("debug", "late", "-b", "plug.c:2", "--batch", "-", "--json", cwd=late, stdin=GO_ON)
    assert ran.code == 41, ran.err
    [stop] = ran.data["stops"]
    assert [(f["module"], f["function"]) for f in stop["frames"][:2]] == [
        ("libplug.so", "plug_work"),
        ("late", "main"),
    ]
    assert (stop["frames"][0]["line"], stop["locals"][0]["value"]) == (2, "20")


def test_pause_and_continue_twice(sim: Sim, tiny: TinyApp) -> None:
    with Terminal("debug", str(tiny.program), "--", "wait") as prompt:
        prompt.wait_for(b"stop reason = one-shot breakpoint")
        prompt.wait_for(b"(lldb)")
        for number in range(2):
            prompt.type(b"process continue\n")
            if number == 0:
                prompt.wait_for_all(b"resuming", b"waiting")
            else:
                prompt.wait_for(b"resuming")
            prompt.wait_for(b"(lldb)")
            prompt.type(b"\x03")
            prompt.wait_for(b"stop reason = signal")
            prompt.wait_for(b"(lldb)")
        prompt.type(b"process kill\nquit\n")
        assert prompt.end() in (0, 137)


def test_detached_it_lives_on(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    assert devkit("deploy", tiny.program).code == 0
    with device.open_shell(RUN) as stream:
        assert stream.read(timeout_s=5) == ("stdout", b"waiting\n")
        pid = device.find_process("tiny").pid
        ran = devkit("debug", tiny.program, "--attach", "tiny", "--batch", "-", stdin="bt\ndetach\n")
        assert ran.code == 0, ran.err
        status = device.shell(["cat", f"/proc/{pid}/status"]).text
        assert "TracerPid:\t0" in status and "State:\tT" not in status
    assert eventually(lambda: not left_on_phone(device, "tiny wait"))


def test_waited_for(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    streams = []

    def start_later() -> None:
        if eventually(lambda: any("kill -STOP" in " ".join(p.cmdline) for p in device.list_processes())):
            streams.append(sim.device().open_shell(RUN))

    assert devkit("deploy", tiny.program).code == 0
    starter = threading.Thread(target=start_later)
    starter.start()
    ran = devkit("debug", tiny.program, "--wait-for", "--batch", "-", "--json", stdin="bt\n")
    starter.join()
    with streams[0]:
        assert ran.code == 0 and ran.data["stops"], ran.err


def test_input(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    (workdir / "typed.txt").write_text("hello 你好\n", "utf-8")
    line = next(n for n, text in enumerate(MAIN, start=1) if "std::string mode" in text)
    words = (
        "debug",
        tiny.program,
        "--stdin",
        "typed.txt",
        "-b",
        f"main.cpp:{line}",
        "--batch",
        "-",
        "--json",
    )
    ran = devkit(*words, "--", "cat", stdin="process continue\n")
    assert ran.code == 0 and ran.data["stops"][0]["frames"][0]["line"] == line
    assert "hello 你好" in ran.data["transcript"] and "eof" in ran.data["transcript"]


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def test_an_editor_that_restarts_twenty_times_leaks_nothing(
    sim: Sim, tiny: TinyApp, device: Device, workdir: Path, lldb: str
) -> None:
    """One `--serve` with as many debuggers one after the other: neither files, threads nor processes grow."""
    from devkit.lldb.recipes import READY, adapter_commands

    folder = workdir / "serve d"
    words = [sys.executable, "-m", "devkit", "debug", str(tiny.program), "--serve", str(folder)]
    served = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert served.stdout is not None
    for line in served.stdout:
        if line.startswith(READY.encode()):
            break
    commands = adapter_commands(str(folder))
    lines = [*commands["init"], *commands["target"], "breakpoint set --file inner.cpp --line 4"]
    lines += [*commands["process"], "process continue", "thread backtrace", "process kill"]
    files: list[int] = []
    threads: list[int] = []
    for _ in range(RESTARTS):
        options = [word for command in lines for word in ("-o", command)]
        ran = subprocess.run(
            [lldb, "--no-lldbinit", "--batch", *options],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            timeout=60, check=False,
        )  # fmt: skip
        assert "inner(value=0) at inner.cpp:4" in ran.stdout.decode(), ran.stdout.decode()
        files.append(open_files(served.pid))
        threads.append(len(os.listdir(f"/proc/{served.pid}/task")))
        assert len(left_on_phone(device, "lldb-server")) <= 2
    # The first rounds open what stays; afterwards a session takes back what it took.
    assert (
        max(files[FIRST:]) <= max(files[:FIRST]) + 2 and max(threads[FIRST:]) <= max(threads[:FIRST]) + 2
    ), (
        files,
        threads,
    )
    assert served.wait(30) == 0
    served.stdout.close()
    assert not folder.exists()
