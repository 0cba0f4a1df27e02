"""Sessions that cannot be: the reason, its evidence and the next command."""

from __future__ import annotations

import contextlib
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
