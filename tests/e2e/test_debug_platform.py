"""`devkit debug --platform`: LLDB's platform mode, by both plugins and with both LLDBs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import config
from devkit.device import Device
from devkit.lldb import find_tools
from devkit.lldb.recipes import READY, adapter_commands
from devkit.tunnels.extra_ports import PhonePort
from tests.e2e.support import REPO, Cli, Sim, TinyApp, eventually, left_on_phone
from tests.e2e.test_debug import CALL_LINE, nothing_left

DIR = "/data/local/tmp/devkit/tiny"
LLDBS = {"23": str(Path(sys.executable).parent / "lldb"), "19": shutil.which("lldb-19")}
STOP = "frame variable\nbreakpoint delete --force\nprocess continue\n"


def forwards(adb: Path, sim: Sim) -> str:
    words = [adb, "-P", str(sim.phone.record.adb_port), "forward", "--list"]
    return subprocess.run(words, capture_output=True, text=True, check=True).stdout


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device, adb: Path) -> Iterator[None]:
    before = forwards(adb, sim)
    yield
    assert nothing_left(device)
    assert forwards(adb, sim) == before
    assert "devkit-" not in device.shell("ls -A /data/local/tmp/devkit/.devkit-lldb").text


@pytest.fixture(params=["remote-android", "remote-linux"])
def plugin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, sim: Sim) -> Iterator[str]:
    if request.param == "remote-android":
        yield str(request.param)
        return
    # An adb server on another machine, whose forwards are of no use here.
    record = sim.phone.record
    assert record.adb_host and record.adb_port
    there = (record.adb_host, record.adb_port)
    elsewhere = PhonePort("127.0.0.2", 0, lambda: socket.create_connection(there))
    monkeypatch.setenv("ADB_SERVER_SOCKET", f"tcp:127.0.0.2:{elsewhere.port}")
    monkeypatch.setenv("ANDROID_SERIAL", record.serial)
    yield str(request.param)
    elsewhere.close()


def test_launch(sim: Sim, tiny: TinyApp, devkit: Cli, plugin: str, device: Device) -> None:
    words = ("debug", tiny.program, "--platform", "-b", "inner.cpp:4", "--batch", "-", "--json")
    ran = devkit(*words, stdin=STOP)
    assert f"LLDB's platform {plugin} at connect://" in ran.err
    [stop] = ran.data["stops"]
    assert stop["is_breakpoint"] and ran.code == ran.data["program_exit"] == 7
    top, below = stop["frames"][:2]
    assert (top["function"], top["module"], top["line"]) == ("inner(int)", "libinner.so", 4)
    assert (below["function"], below["line"]) == ("main", CALL_LINE)
    assert "total 6" in ran.data["transcript"]
    # The stripped program stayed as it was deployed.
    assert device.stat([f"{DIR}/tiny"])[f"{DIR}/tiny"].size < tiny.program.stat().st_size


@pytest.fixture(params=[name for name, path in LLDBS.items() if path])
def lldb(request: pytest.FixtureRequest, sim: Sim, monkeypatch: pytest.MonkeyPatch) -> str:
    """LLDB 23 and 19 with the wheel's lldb-server: Debian's needs libraries that no phone has."""
    path = str(LLDBS[request.param])
    monkeypatch.setenv("DEVKIT_LLDB_PATH", path)
    monkeypatch.setenv("DEVKIT_LLDB_SERVER", str(find_tools(config.load(), sim.device()).server))
    return path


@pytest.mark.slow
def test_arguments_arrive(sim: Sim, tiny: TinyApp, devkit: Cli, plugin: str, lldb: str) -> None:
    words = ("debug", tiny.program, "--platform", "--batch", "-", "--json")
    ran = devkit(*words, "--", "exit", "5", stdin="process continue\n")
    assert ran.code == 5, ran.err
    assert ran.data["stops"][0]["frames"][0]["function"] == "main"


@pytest.mark.slow
def test_an_editors_adapter_and_its_restarts(
    sim: Sim, tiny: TinyApp, plugin: str, lldb: str, workdir: Path
) -> None:
    folder, plan, report = workdir / "serve d", workdir / "plan.json", workdir / "report.json"
    words = ["debug", str(tiny.program), "--platform", "--serve", str(folder)]
    served = subprocess.Popen(
        [sys.executable, "-m", "devkit", *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert served.stdout is not None
    for line in served.stdout:
        if line.startswith(READY.encode()):
            break
    names = {"init": "initCommands", "target": "targetCreateCommands", "process": "processCreateCommands"}
    commands: dict[str, object] = {"request": "attach"}
    commands |= {names[kind]: lines for kind, lines in adapter_commands(str(folder)).items()}
    points = [[str(tiny.folder / "inner.cpp"), 4]]
    steps = {"config": commands, "breakpoints": points, "stops": 2, "then": "continue", "restarts": 2,
             "goes_on": True, "before_restart": None}  # fmt: skip
    plan.write_text(json.dumps(steps), "utf-8")
    script = REPO / "tests/tools/codelldb_like.py"
    done = subprocess.run(
        [lldb, "--no-lldbinit", "--batch", "-o", f'command script import "{script}"'],
        env={**os.environ, "F5_PLAN": str(plan), "F5_REPORT": str(report)},
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=90, check=False,
    )  # fmt: skip
    found = json.loads(report.read_text("utf-8"))
    assert found["error"] is None, found
    assert [stop["frames"][0][1:] for stop in found["stops"]] == points * 6 and found["exit"] == 7
    told = "this LLDB is version 19, the phone's lldb-server is 23" in done.stdout.decode()
    assert told == lldb.endswith("lldb-19")
    assert served.wait(15) == 0
    served.stdout.close()
    assert not folder.exists()


@pytest.mark.slow
def test_attach_and_the_program_lives_on(
    sim: Sim, tiny: TinyApp, devkit: Cli, plugin: str, device: Device
) -> None:
    assert devkit("deploy", tiny.program).code == 0
    with device.open_shell(f"cd {DIR} && LD_LIBRARY_PATH={DIR} exec ./tiny wait") as stream:
        assert stream.read(timeout_s=5) == ("stdout", b"waiting\n")
        pid = device.find_process("tiny").pid
        words = ("debug", tiny.program, "--platform", "--attach", "tiny", "--batch", "-", "--json")
        ran = devkit(*words, stdin="thread backtrace\n")
        assert ran.code == 0, ran.err
        assert ran.data["stops"][0]["pid"] == pid
        assert "wait_forever()" in [frame["function"] for frame in ran.data["stops"][0]["frames"]]
        status = device.shell(["cat", f"/proc/{pid}/status"]).text
        assert "TracerPid:\t0" in status and "State:\tT" not in status
    assert eventually(lambda: not left_on_phone(device, "tiny wait"))


@pytest.mark.slow
def test_input_through_the_platform(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    typed = workdir / "typed.txt"
    typed.write_text("one\nzwei 二\n", "utf-8")
    words = ("debug", tiny.program, "--platform", "--stdin", typed, "--batch", "-", "--json")
    ran = devkit(*words, "--", "cat", stdin="process continue\n")
    assert ran.code == 0, ran.err
    for line in ("one", "zwei 二", "eof"):
        assert line in ran.data["transcript"]


@pytest.mark.slow
def test_printed_commands_stop_too(sim: Sim, tiny: TinyApp, devkit: Cli, plugin: str, device: Device) -> None:
    assert devkit("deploy", tiny.program).code == 0
    ran = devkit("debug", tiny.program, "--platform", "-b", "inner.cpp:4", "--print-commands")
    assert ran.code == 0, ran.err
    lines = [line for line in ran.out.splitlines() if not line.startswith("#")]
    make, push, start, *forward, lldb = lines[: 4 if plugin == "remote-android" else 6]
    tidy = lines[len(forward) + 4 :]
    ports = re.findall(r"--listen 127.0.0.1:(\d+) --gdbserver-port (\d+)", start)
    assert ports == [("5039", "5040")] and "platform --server" in start
    if plugin == "remote-linux":
        assert [re.findall(r"tcp:\d+", line) for line in forward] == [["tcp:5039"] * 2, ["tcp:5040"] * 2]
        assert "connect://127.0.0.1:5039" in lldb
    else:
        for name, value in {
            "ANDROID_PLATFORM_LOCAL_PORT": "5039",
            "ANDROID_PLATFORM_LOCAL_GDB_PORT": "5040",
            "ANDROID_SERIAL": sim.phone.record.serial,
        }.items():
            assert re.search(rf"{name}\W+{re.escape(value)}\W", lldb), lldb
    subprocess.run(["sh", "-ec", f"{make}; {push}"], check=True, capture_output=True)
    server = subprocess.Popen(
        ["sh", "-c", f"exec {start}"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    try:
        assert eventually(lambda: ":13AF 00000000:0000 0A" in device.shell("cat /proc/net/tcp").text)
        for line in forward:
            subprocess.run(["sh", "-ec", line], check=True, capture_output=True)
        done = subprocess.run(
            ["sh", "-c", f"{lldb} --batch -o 'process continue' -o 'process kill'"],
            capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        assert "inner(value=0) at inner.cpp:4" in done.stdout, done.stdout + done.stderr
    finally:
        device.shell("kill $(pidof lldb-server)")
        server.wait(10)
        for line in tidy:
            subprocess.run(["sh", "-ec", line], check=False, capture_output=True)


def test_the_platform_with_what_it_cannot(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("debug", tiny.program, "--platform", "--wait-for", "--batch", "-")
    assert ran.code == 2 and "--platform cannot wait for a program" in ran.err and "try: " in ran.err


@pytest.mark.slow
def test_killed_in_the_middle_it_leaves_nothing(sim: Sim, tiny: TinyApp, device: Device, adb: Path) -> None:
    devkit = subprocess.Popen(
        [sys.executable, "-m", "devkit", "debug", tiny.program, "--platform", "--batch", "-", "--", "deaf"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    assert devkit.stdin is not None and devkit.stdout is not None
    devkit.stdin.write(b"process continue\n")
    devkit.stdin.close()
    for line in devkit.stdout:
        if b"waiting" in line:
            break
    devkit.send_signal(signal.SIGTERM)
    devkit.wait(20)
    devkit.stdout.close()
