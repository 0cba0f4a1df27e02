"""lldb-server on the phone (case F3): pushed when it has to be, executable, ended by its pid."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from devkit import config as configuration
from devkit import lldb
from devkit.device import Device
from devkit.lldb.server import LldbServer, push_server
from tests.e2e.support import REPO, Cli, Sim, TinyApp, eventually

FOLDER = "/data/local/tmp/devkit"
RIGHT = json.loads((REPO / "tests/data/cases/F3/expected.json").read_text("utf-8"))["on_device"]


def test_f3_pushed_only_when_size_or_hash_differs(sim: Sim, device: Device, workdir: Path) -> None:
    assert "pushed only when size or hash differs; chmod 755" in RIGHT
    tools = lldb.find_tools(configuration.load(), device)

    def state(file: str) -> list[str]:
        return device.shell(["stat", "-c", "%i %a %s", file], check=True).text.split()

    server = push_server(device, tools, FOLDER)
    inode, mode, size = state(server)
    assert (mode, int(size)) == ("755", tools.server.stat().st_size)
    before = device.round_trips
    assert push_server(device, tools, FOLDER) == server
    assert state(server)[0] == inode and device.round_trips == before + 2
    for damage in (f"chmod 644 {server}", f"cp {server} {server}.x; head -c 1000 {server}.x > {server}"):
        device.shell(damage, check=True)
        assert push_server(device, tools, FOLDER) == server
        assert state(server)[1:] == ["755", size]
    device.shell(["rm", f"{server}.x"], check=True)
    # Of the same size with other bytes: another hash, and so another name; the first one stays.
    other = workdir / "lldb-server"
    content = bytearray(tools.server.read_bytes())
    content[-1] ^= 1
    other.write_bytes(content)
    new = push_server(device, replace(tools, server=other), FOLDER)
    assert new != server and state(new)[1:] == ["755", size] and state(server)[1:] == ["755", size]
    device.shell(["rm", new], check=True)


def test_f3_ours_is_stopped_by_pid_not_by_name(sim: Sim, device: Device, tiny: TinyApp, devkit: Cli) -> None:
    assert "stopped by pid, not by name" in RIGHT
    tools = lldb.find_tools(configuration.load(), device)
    server = push_server(device, tools, FOLDER)
    theirs = "/data/local/tmp/lldb-server"

    def running(path: str) -> list[int]:
        return [entry.pid for entry in device.list_processes() if entry.cmdline[:1] == (path,)]

    device.shell(["cp", server, theirs], check=True)
    with (
        device.open_shell(f"exec {theirs} gdbserver unix-abstract://theirs"),
        device.open_shell("exec sleep 1000"),
    ):
        assert eventually(lambda: len(running(theirs)) == 1)
        foreign = running(theirs)
        pid = device.find_process("sleep").pid
        # Two of ours at once: the end of one is not the end of the other.
        with LldbServer(device, server, launch=None, attach_pid=pid):
            assert eventually(lambda: len(running(server)) == 1)
            ours = running(server)
            ran = devkit("debug", tiny.program, "-b", "inner", "--batch", "-", stdin="quit\n")
            assert ran.code == 0, ran.err
            assert running(server) == ours and running(theirs) == foreign
        assert eventually(lambda: running(server) == []) and running(theirs) == foreign
        assert device.find_process("sleep").pid == pid
        device.shell(["kill", "-9", str(foreign[0])], check=True)
    device.shell(["rm", theirs], check=True)
