"""`devkit debug` on the virtual phone: real LLDB, real lldb-server, and nothing left afterwards."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from devkit import paths, process
from devkit.device import Device
from devkit.symbols import read_elf
from tests.e2e.support import REPO, Cli, Ran, Sim, TinyApp, eventually, left_on_phone, start_sim

MAIN = (REPO / "tests/data/tiny/main.cpp").read_text().splitlines()
CALL_LINE = next(n for n, line in enumerate(MAIN, start=1) if "total += inner" in line)
OURS = ("lldb-server", "tiny", ".devkit-guard")


@pytest.fixture
def batch(workdir: Path) -> Path:
    file = workdir / "check it.lldb"
    file.write_text("frame variable\nthread backtrace\nbreakpoint delete --force\nprocess continue\n")
    return file


def nothing_left(device: Device) -> bool:
    gone = eventually(lambda: not left_on_phone(device, *OURS))
    assert gone, left_on_phone(device, *OURS)
    return not session_folders()


def session_folders() -> list[Path]:
    folder = paths.state_dir() / "sessions"
    return list(folder.iterdir()) if folder.is_dir() else []


def phone_build_id(device: Device, remote: str, folder: Path) -> str:
    local = folder / "pulled.so"
    device.pull(remote, local)
    build_id = read_elf(local).build_id
    assert build_id is not None
    return build_id


def children_of(pid: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.append(int(stat.parent.name))
    return found


def test_it_stops_at_file_and_line(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, batch: Path) -> None:
    ran = devkit("debug", tiny.program, "--break", "inner.cpp:4", "--batch", batch, "--json")
    assert ran.code == 7, ran.out
    result = ran.data
    [stop] = result["stops"]
    assert stop["is_breakpoint"]
    top, below = stop["frames"][:2]
    assert (top["function"], top["module"], top["line"]) == ("inner(int)", "libinner.so", 4)
    assert (below["function"], below["module"], below["line"]) == ("main", "tiny", CALL_LINE)
    assert {v["name"]: v["value"] for v in stop["locals"]} == {"value": "0", "doubled": "0"}
    assert stop["frames"][0]["file"] == str(tiny.folder / "inner.cpp")
    # Below main: the phone's own C library (its build-id is not the host's), from the mini sysroot.
    [libc_id] = {f["build_id"] for f in stop["frames"] if f["module"] == "libc.so.6"}
    assert libc_id in phone_build_id(device, "/system/lib64/libc.so.6", tiny.folder)
    assert result["program_exit"] == 7
    assert "total 6" in result["transcript"]
    assert nothing_left(device)


def test_text_output_is_lldbs(sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path) -> None:
    ran = devkit("debug", tiny.program, "--break", "inner", "--batch", batch)
    assert ran.code == 7
    assert "libinner.so`inner(value=0) at inner.cpp:" in ran.out
    assert "(int) value = 0" in ran.out and "total 6" in ran.out


def test_without_a_breakpoint_it_stops_in_main(sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path) -> None:
    ran = devkit("debug", tiny.program, "--batch", batch, "--json", "--", "exit", "5")
    [stop] = ran.data["stops"]
    assert stop["frames"][0]["function"] == "main"
    assert ran.code == 5


def test_several_breakpoints_and_every_stop(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    script = workdir / "many.lldb"
    script.write_text("process continue\n" * 5)
    ran = devkit("debug", tiny.program, "-b", "main", "-b", "inner.cpp:5", "--batch", script, "--json")
    stops = [(s["frames"][0]["function"], s["frames"][0]["line"]) for s in ran.data["stops"]]
    assert stops == [("main", stops[0][1]), *[("inner(int)", 5)] * 3]
    assert ran.code == 7


def test_a_batch_that_ends_early_ends_the_program(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    script = workdir / "peek.lldb"
    script.write_text("frame variable\n")
    ran = devkit("debug", tiny.program, "-b", "inner", "--batch", script, "--json")
    assert ran.code == 0 and ran.data["program_exit"] is None
    assert nothing_left(device)


def test_a_crash_is_reported_with_its_signal(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    script = workdir / "crash.lldb"
    # Left where it crashed, or continued to its end (Android's own handler raises the signal again).
    for commands in ("process continue\n", "process continue\n" * 4):
        script.write_text(commands + "thread backtrace\n")
        ran = devkit("debug", tiny.program, "--batch", script, "--json", "--", "abort")
        assert any("SIGABRT" in stop["reason"] for stop in ran.data["stops"])
        assert ran.code == ran.data["program_exit"] == 128 + signal.SIGABRT
        assert nothing_left(device)


def test_attach_by_pid_and_by_name_and_the_program_lives_on(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    assert devkit("deploy", tiny.program).code == 0
    folder = "/data/local/tmp/devkit/tiny"
    with device.open_shell(f"cd {folder} && LD_LIBRARY_PATH={folder} exec ./tiny wait") as stream:
        assert stream.read(timeout_s=5) == ("stdout", b"waiting\n")
        pid = device.find_process("tiny").pid
        script = workdir / "attach.lldb"
        script.write_text("thread backtrace\n")
        for wanted in (str(pid), "tiny"):
            ran = devkit("debug", tiny.program, "--attach", wanted, "--batch", script, "--json")
            assert ran.code == 0, ran.err
            functions = [f["function"] for f in ran.data["stops"][0]["frames"]]
            assert "wait_forever()" in functions and "main" in functions
            assert ran.data["stops"][0]["pid"] == pid
            status = device.shell(["cat", f"/proc/{pid}/status"]).text
            assert "TracerPid:\t0" in status and "State:\tT" not in status
        assert eventually(lambda: not left_on_phone(device, "lldb-server", ".devkit-guard"))
    assert eventually(lambda: not left_on_phone(device, "tiny wait"))


@pytest.mark.parametrize("wanted", ["99999", "no_such_process"])
def test_attach_to_nothing(sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path, wanted: str) -> None:
    ran = devkit("debug", tiny.program, "--attach", wanted, "--batch", batch)
    assert ran.code == 125 and wanted in ran.err and "try: " in ran.err


def test_a_process_of_this_machine_with_the_same_id_is_another(
    sim: Sim, tiny: TinyApp, adb: Path, batch: Path
) -> None:
    """LLDB asks its platform who a process id is. On this machine all low numbers are taken here."""
    with start_sim("young", sim.state_home, adb).phone as phone:
        crowd = "i=0; while [ $i -lt 500 ]; do sleep 100 & i=$((i+1)); done; "
        debug = 'exec "$0" -m devkit debug "$1" -b inner.cpp:4 --batch "$2" --json'
        user = [] if os.geteuid() == 0 else ["--map-root-user"]
        done = subprocess.run(
            ["unshare", *user, "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "sh", "-c",
             crowd + debug, sys.executable, tiny.program, batch],
            env={
                **os.environ,
                "ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{phone.record.adb_port}",
                "ANDROID_SERIAL": phone.record.serial,
            },
            capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 7, done.stderr
        stops = json.loads(done.stdout)["stops"]
        assert 1 < stops[0]["pid"] <= 500
        assert stops[0]["frames"][0]["function"] == "inner(int)"


def test_two_phones_at_once_each_stops_in_its_own_process(
    sim: Sim, tiny: TinyApp, devkit: Cli, adb: Path, tmp_path: Path, batch: Path
) -> None:
    other = start_sim("other", sim.state_home, adb)
    with other.phone:
        # Their pid namespaces are apart: make the pids differ.
        other.device().shell("i=0; while [ $i -lt 50 ]; do true & i=$((i+1)); done; wait")
        ran: dict[str, Ran] = {}

        def session(name: str, exit_code: str) -> None:
            ran[name] = devkit(
                "debug", tiny.program, "-s", f"sim:{name}", "-b", "main", "--batch", batch, "--json",
                "--", "exit", exit_code,
            )  # fmt: skip

        threads = [
            threading.Thread(target=session, args=args) for args in ((sim.name, "11"), ("other", "22"))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert {name: r.code for name, r in ran.items()} == {sim.name: 11, "other": 22}
        pids = {r.data["stops"][0]["pid"] for r in ran.values()}
        assert len(pids) == 2
        assert nothing_left(sim.device()) and nothing_left(other.device())
        # With two phones and no choice, both are listed.
        refused = devkit("debug", tiny.program, "--batch", batch)
        assert refused.code == 125
        assert all(f"-s sim:{s.name}" in refused.err or f"sim:{s.name} " in refused.err for s in (sim, other))


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_survives_devkit(
    sim: Sim, tiny: TinyApp, device: Device, workdir: Path, how: signal.Signals
) -> None:
    script = workdir / "hang.lldb"
    script.write_text("process continue\n")
    devkit = subprocess.Popen(
        [sys.executable, "-m", "devkit", "debug", str(tiny.program), "--batch", str(script), "--", "deaf"],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert devkit.stdout is not None
    for line in devkit.stdout:
        if b"waiting" in line:
            break
    assert left_on_phone(device, "tiny deaf")
    lldb = children_of(devkit.pid)
    assert lldb
    port = relay_port(devkit.pid)
    devkit.send_signal(how)
    devkit.wait(15)
    devkit.stdout.close()
    assert eventually(lambda: not any(process.is_alive(pid) for pid in lldb))
    assert eventually(lambda: not left_on_phone(device, *OURS))
    if port is not None:
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), timeout=1)
    if how == signal.SIGKILL:
        # Its folder is swept by the next session.
        assert session_folders()
        peek = workdir / "peek.lldb"
        peek.write_text("frame variable\n")
        next_one = [sys.executable, "-m", "devkit", "debug", str(tiny.program), "--batch", str(peek)]
        subprocess.run(next_one, capture_output=True, check=True)
    assert not session_folders()


def relay_port(pid: int) -> int | None:
    """The port the relay listens on, if it still does."""
    inodes = set()
    for link in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(link)
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[9] in inodes and fields[3] == "0A":
            return int(fields[1].split(":")[1], 16)
    return None


def test_printed_commands_stop_too(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    assert devkit("deploy", tiny.program).code == 0
    ran = devkit("debug", tiny.program, "-b", "inner.cpp:4", "--print-commands")
    assert ran.code == 0
    assert not left_on_phone(device, "lldb-server")
    lines = [line for line in ran.out.splitlines() if not line.startswith("#")]
    make, push, start, forward, lldb, tidy = lines
    subprocess.run(["sh", "-ec", f"{make}; {push}"], check=True, capture_output=True)
    server = subprocess.Popen(
        ["sh", "-c", f"exec {start}"], stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL
    )
    assert eventually(lambda: bool(left_on_phone(device, "unix-abstract://devkit-manual")))
    subprocess.run(["sh", "-ec", forward], check=True, capture_output=True)
    done = subprocess.run(
        ["sh", "-c", f"{lldb} --batch -o 'process continue' -o 'process kill'"],
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "inner(value=0) at inner.cpp:4" in done.stdout, done.stdout + done.stderr
    server.wait(10)
    subprocess.run(["sh", "-ec", tidy], check=True)
    listed = subprocess.run(
        ["sh", "-c", forward.rpartition(" forward ")[0] + " forward --list"], capture_output=True
    )
    assert b"devkit-manual" not in listed.stdout


@pytest.mark.parametrize("bad", ["inner.cpp:0", "12", "a;b"])
def test_a_wrong_breakpoint_is_a_usage_error(sim: Sim, tiny: TinyApp, devkit: Cli, bad: str) -> None:
    ran = devkit("debug", tiny.program, "--break", bad)
    assert ran.code == 2 and bad in ran.err and "try: " in ran.err


def test_a_missing_batch_file_is_a_usage_error(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("debug", tiny.program, "--batch", "none.lldb")
    assert ran.code == 2 and "none.lldb does not exist" in ran.err
    ran = devkit("debug", tiny.program, "--batch", tiny.folder)
    assert ran.code == 2 and "is a folder" in ran.err


@pytest.mark.parametrize("how", ["stdin", "pipe"])
def test_a_batch_through_a_pipe(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path, how: str) -> None:
    commands = "frame variable argc\nprocess continue\n"
    if how == "stdin":
        ran = devkit("debug", tiny.program, "--batch", "-", "--", "exit", "5", stdin=commands)
    else:
        pipe = workdir / "pipe"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_text, args=(commands,))
        writer.start()
        ran = devkit("debug", tiny.program, "--batch", pipe, "--", "exit", "5")
        writer.join()
    assert ran.code == 5, ran.err
    assert "(int) argc = 3" in ran.out


def test_a_prompt_needs_a_terminal(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("debug", tiny.program)
    assert ran.code == 2 and "needs a terminal" in ran.err and "try: --batch" in ran.err
    ran = devkit("debug", tiny.program, "--json")
    assert ran.code == 2 and "--json needs --batch" in ran.data["error"]


def test_a_breakpoint_without_code_is_said(sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path) -> None:
    ran = devkit("debug", tiny.program, "-b", "no_such", "-b", "main.cpp:9999", "--batch", batch)
    assert ran.code == 7
    assert "warning: no code was ever at the breakpoint name = 'no_such'" in ran.err
    assert "file = 'main.cpp', line = 9999" in ran.err
    data = devkit("debug", tiny.program, "-b", "no_such", "-b", "inner", "--batch", batch, "--json").data
    assert [(b["locations"], b["hits"]) for b in data["breakpoints"]] == [(0, 0), (1, 1)]
    # One that has code, but is not on the program's way.
    ran = devkit("debug", tiny.program, "-b", "wait_forever", "--batch", batch)
    assert ran.code == 7 and "the program never came to a breakpoint" in ran.err
    assert "warning" not in devkit("debug", tiny.program, "-b", "inner", "--batch", batch).err


@pytest.mark.parametrize("what", ["phone", "lldb-server", "lldb"])
def test_what_ends_in_the_middle_is_named(
    tmp_path: Path, adb: Path, tiny: TinyApp, workdir: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    leaving = start_sim("leaving", tmp_path / "state", adb)
    with leaving.phone:
        monkeypatch.setenv("XDG_STATE_HOME", str(leaving.state_home))
        script = workdir / "hang.lldb"
        script.write_text("process continue\n")
        ran = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "devkit",
                "debug",
                str(tiny.program),
                "--batch",
                str(script),
                "--",
                "wait",
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert ran.stdout is not None
        for line in ran.stdout:
            if b"waiting" in line:
                break
        if what == "phone":
            leaving.phone.stop()
        elif what == "lldb-server":
            leaving.device().shell("kill -9 $(pgrep -f 'gdbserver [u]nix')")
        else:
            for pid in children_of(ran.pid):
                os.kill(pid, signal.SIGKILL)
        _, errors = ran.communicate(timeout=20)
        if what != "phone":
            assert nothing_left(leaving.device())
    expected = {
        "phone": "the connection to the phone broke off in the middle of the session",
        "lldb-server": "lldb-server ended in the middle of the session",
        "lldb": "LLDB was ended in the middle of the session (signal 9)",
    }
    assert ran.returncode == 125
    assert expected[what] in errors.decode() and "try: " in errors.decode()


def test_a_program_that_cannot_start_is_explained(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, batch: Path, workdir: Path
) -> None:
    broken = workdir / "broken"
    data = bytearray(tiny.program.read_bytes())
    # An interpreter that the phone does not have.
    data = data.replace(b"/lib64/ld-linux-x86-64.so.2", b"/lib64/ld-linux-none-64.so.2"[:27])
    broken.write_bytes(data)
    (workdir / "libinner.so").write_bytes(tiny.library.read_bytes())
    ran = devkit("debug", broken, "--batch", batch)
    assert ran.code == 125
    assert "lldb-server" in ran.err and "phone" in ran.err
    assert nothing_left(device)
