"""`devkit demo`: the whole job, honest numbers, and nothing left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import process
from devkit.device import AdbServer, Device
from tests.e2e.support import REPO, Cli, eventually


def test_demo_shows_the_main_job(devkit: Cli) -> None:
    ran = devkit("demo", "--json", timeout=300)
    assert ran.code == 0, ran.err
    data = ran.data
    stop = data["stop"]
    source = Path(stop["file"])
    assert source.is_relative_to(REPO / "examples/mini-engine")
    assert "devkit demo: breakpoint" in source.read_text().splitlines()[stop["line"] - 1]
    modules = [frame["module"] for frame in data["backtrace"]]
    assert modules[0] == "libMNN.so" and {"libMNN_Express.so", "libllm.so", "llm_demo"} <= set(modules)
    assert any(value["value"] for value in data["locals"])
    assert data["exit_code"] == data["debugged_exit_code"] == 0
    assert "decode tokens num" in data["output"]
    assert data["pushed_bytes"] > 1_000_000
    assert len(data["steps"]) == 6


def test_the_transcript_says_what_happened(devkit: Cli) -> None:
    ran = devkit("demo", timeout=300)
    assert ran.code == 0, ran.err
    for text in (
        "start a virtual phone",
        "stopped at CPUMatMul.cpp:",
        "backtrace:",
        "#0",
        "bytes",
        "exit code 0",
    ):
        assert text in ran.err


def test_nothing_of_a_killed_demo_is_left() -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "devkit", "demo"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    assert demo.stderr is not None
    mark = f"demo-{demo.pid}"
    for line in demo.stderr:
        if b"API" in line:
            break
    assert sim_processes(mark)
    demo.send_signal(signal.SIGKILL)
    demo.wait()
    demo.stderr.close()
    assert eventually(lambda: not sim_processes(mark), within_s=5), sim_processes(mark)


def sim_processes(mark: str) -> list[str]:
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            words = (entry / "cmdline").read_bytes() + (entry / "environ").read_bytes()
        except OSError:
            continue
        if mark.encode() in words and process.is_alive(int(entry.name)):
            found.append(words.replace(b"\0", b" ").decode(errors="replace")[:200])
    return found


@pytest.mark.slow
def test_keep_leaves_the_phone_and_says_how_to_go_on(devkit: Cli) -> None:
    path = "/usr/bin:/bin"  # of a shell that knows nothing of devkit
    ran = devkit("demo", "--keep", "--json", timeout=300, PATH=path)
    assert ran.code == 0, ran.err
    phone = ran.data["phone"]
    try:
        device = Device(phone["serial"], AdbServer(phone["adb_host"], phone["adb_port"], "sim", "demo"))
        assert device.shell("echo here").text == "here\n"
        assert "devkit debug llm_demo -s sim:demo" in ran.err
        again = devkit("demo", "--keep")
        assert again.code == 2 and "devkit sim stop demo" in again.err
        # What the closing lines promise is true when they are typed as they stand.
        lines = ran.err.partition("Try:\n")[2].splitlines()
        typed = "\n".join(lines[: next(i for i, line in enumerate(lines) if "devkit run" in line) + 1])
        env = {**os.environ, "PATH": path}
        used = subprocess.run(["sh", "-e"], input=typed, env=env, capture_output=True, text=True)
        assert used.returncode == 0 and "decode speed" in used.stdout, used.stderr
    finally:
        stopped = devkit("sim", "stop", "demo")
    assert stopped.code == 0
    assert not process.is_alive(phone["pid"])
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", phone["adb_port"]), timeout=1)


def test_a_foreign_adb_server_is_left_alone(devkit: Cli, adb: Path, tmp_path: Path) -> None:
    """One that listens where adb's default is, with another user's phones: same pid, same version."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", 5037))
    except OSError:
        # Somebody's own adb server is there: the better test.
        listener.close()
        before = version(5037)
        assert devkit("demo", timeout=300).code == 0
        assert version(5037) == before
        return
    listener.listen(16)
    server = subprocess.Popen(
        [adb, "-L", f"acceptfd:{listener.fileno()}", "server", "nodaemon"],
        pass_fds=[listener.fileno()],
        env={"HOME": str(tmp_path), "ADB_USB": "0", "ADB_EMU": "0", "ADB_MDNS": "0", "PATH": "/usr/bin:/bin"},
        stderr=subprocess.DEVNULL,
    )
    listener.close()
    try:
        assert eventually(lambda: version(5037) is not None)
        before = version(5037)
        assert devkit("demo", timeout=300).code == 0
        assert server.poll() is None and version(5037) == before
    finally:
        server.terminate()
        server.wait(10)


def version(port: int) -> bytes | None:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as sock:
            sock.sendall(b"000chost:version")
            with sock.makefile("rb") as answer:
                return answer.read(len("OKAY00040029")) or None
    except OSError:
        return None
