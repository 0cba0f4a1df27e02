"""Sessions that cannot be: the reason, its evidence and the next command."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path

from devkit.device import Device
from devkit.lldb import attach_refusal
from tests.e2e.support import Cli, Sim, TinyApp, eventually, left_on_phone
from tests.e2e.test_debug import nothing_left

DIR = "/data/local/tmp/devkit/tiny"


@contextlib.contextmanager
def running(device: Device, devkit: Cli, tiny: TinyApp) -> Iterator[int]:
    assert devkit("deploy", tiny.program).code == 0
    with device.open_shell(f"cd {DIR} && LD_LIBRARY_PATH={DIR} exec ./tiny wait") as stream:
        assert stream.read(timeout_s=5) == ("stdout", b"waiting\n")
        yield device.find_process("tiny").pid
    assert eventually(lambda: not left_on_phone(device, "tiny wait"))


def test_a_process_that_is_traced_already(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    with running(device, devkit, tiny) as pid:
        servers = device.shell("ls /data/local/tmp/devkit/.devkit-lldb/lldb-server-* | head -1").text.split()
        if not servers:
            assert devkit("debug", tiny.program, "--attach", str(pid), "--batch", "-").code == 0
            servers = device.shell(
                "ls /data/local/tmp/devkit/.devkit-lldb/lldb-server-* | head -1"
            ).text.split()
        first = f"exec {servers[0]} gdbserver unix-abstract://other-debugger --attach {pid}"
        with device.open_shell(first):
            assert eventually(lambda: attach_refusal.look(device, pid).status.get("TracerPid") != "0")
            ran = devkit("debug", tiny.program, "--attach", str(pid), "--batch", "-", "--json")
            tracer = attach_refusal.look(device, pid).status["TracerPid"]
            assert ran.code == 125 and ran.data["where"] == "phone"
            assert "traced already" in ran.data["error"]
            assert f"TracerPid {tracer}: " in ran.data["evidence"]
            assert "other-debugger" in ran.data["evidence"]
            assert any(f"kill {tracer}" in hint for hint in ran.data["hints"])
            device.shell(["kill", "-9", tracer])
    assert nothing_left(device)


def test_attaching_is_forbidden(sim: Sim, tiny: TinyApp, devkit: Cli, device: Device) -> None:
    device.shell("setprop debug.devkit.ptrace_scope 1", check=True)
    try:
        with running(device, devkit, tiny) as pid:
            ran = devkit("debug", tiny.program, "--attach", str(pid), "--batch", "-", "--json")
    finally:
        device.shell("setprop debug.devkit.ptrace_scope 0", check=True)
    assert ran.code == 125 and "does not let programs of its shell attach" in ran.data["error"]
    assert "same user (2000), no tracer" in ran.data["evidence"]
    assert "Operation not permitted" in ran.data["evidence"]
    assert ran.data["hints"][0] == f"devkit debug {tiny.program} starts it under the debugger"
    assert nothing_left(device)


def test_a_process_that_is_gone(sim: Sim, device: Device) -> None:
    assert attach_refusal.judge(attach_refusal.look(device, 99999), "tiny").reason == "ended"


def test_versions_that_differ_are_told(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path, tmp_path: Path
) -> None:
    lldb = shutil.which("lldb-19")
    assert lldb, "script/test installs it"
    (workdir / "go.lldb").write_text("process continue\n")
    words = ("debug", tiny.program, "-b", "inner.cpp:4", "--batch", "go.lldb", "--json")
    told = "LLDB is version 19, lldb-server is 23: they may not understand each other"
    ran = devkit(*words, DEVKIT_LLDB_PATH=lldb)
    assert told in ran.err and "lldb.path and lldb.server in devkit.yaml pin a pair" in ran.err
    assert ran.data["stops"][0]["frames"][0]["function"] == "inner(int)"
    # An LLDB that gives up: the versions are part of what was seen.
    fake = workdir / "old lldb"
    fake.write_text(
        "#!/bin/sh\n"
        '[ "$1" = --version ] && echo once >> asked && echo "lldb version 14.0.6" && exit\n'
        'echo "bad packet"; exit 3\n'
    )
    fake.chmod(0o755)
    for _ in range(2):  # the second time the versions come from the cache
        ran = devkit(*words, DEVKIT_LLDB_PATH=str(fake), XDG_CACHE_HOME=str(tmp_path))
        assert ran.code == 125 and "LLDB never connected to the phone (exit code 3)" in ran.data["error"]
        assert "LLDB is version 14, lldb-server is 23" in ran.data["evidence"]
        assert "bad packet" in ran.data["evidence"] and "pin a pair" in ran.data["hints"][0]
    assert len(json.loads((tmp_path / "devkit/lldb-versions.json").read_text())) == 1
    assert (workdir / "asked").read_text() == "once\n"
    assert nothing_left(device)


def test_a_program_that_ends_before_the_breakpoint(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    (workdir / "go.lldb").write_text("process continue\n")
    words = ("debug", tiny.program, "-b", "wait_forever", "--batch", "go.lldb")
    ran = devkit(*words)
    assert ran.code == 7 and "the program never came to a breakpoint: it ended with exit code 7" in ran.err
    assert "| total 6" in ran.err and "try: devkit run" in ran.err and "(lldb)" not in ran.err
    ran = devkit(*words, "--", "abort")
    assert (
        ran.code == 134 and "never came to a breakpoint: SIGABRT ended it" in ran.err and "0x" not in ran.err
    )
    # The phone's linker, before main.
    device.shell(["rm", f"{DIR}/libinner.so"], check=True)
    ran = devkit("debug", tiny.program, "-b", "inner", "--batch", "go.lldb", "--no-deploy")
    assert ran.code == 1 and "ended before main (exit code 1): the phone's linker refused it" in ran.err
    assert "CANNOT LINK EXECUTABLE" in ran.err and "devkit deploy" in ran.err
    assert nothing_left(device)
