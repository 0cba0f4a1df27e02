"""Cases D3, D7 and F1 between real hosts: versions of adb, ports that are taken, ports of the phone."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import REPO, WHEEL_ADB, eventually
from tests.e2e.tunnel_world import PYTHON, Net, devkit, net, ssh_to_laptop, world
from tests.support.host import Host

__all__ = ["net", "world"]

CASES = REPO / "tests/data/cases"
PLAN = json.loads((CASES / "F1/plan_input.json").read_text())
PLATFORM, GDBSERVER = PLAN["platform_port"], PLAN["gdbserver_port"]
TMP = "/data/local/tmp"


def adb(net: Net, *words: str | Path) -> str:
    """The laptop's adb with the laptop's phone."""
    port, serial = net.phone["adb_port"], net.phone["serial"]
    done = net.laptop.run(WHEEL_ADB, "-s", serial, *words, ANDROID_ADB_SERVER_PORT=str(port))
    return done.stdout.decode()


@contextlib.contextmanager
def platform(net: Net, gdbserver: int = GDBSERVER) -> Iterator[None]:
    """lldb-server in platform mode on the phone, as F1 starts it."""
    import lldb_for_pwndbg

    adb(net, "push", Path(lldb_for_pwndbg.__file__).parent / "_vendor/bin/lldb-server", f"{TMP}/lldb-server")
    command = json.loads((CASES / "F1/expected.json").read_text())["lldb_server_command"].partition(" (")[0]
    command = command.replace(str(GDBSERVER), str(gdbserver))
    words = [WHEEL_ADB, "-s", net.phone["serial"], "shell", "-T", f"exec {TMP}/{command}"]
    with net.laptop.start(words, ANDROID_ADB_SERVER_PORT=str(net.phone["adb_port"])) as running:
        try:
            assert eventually(lambda: f":{PLATFORM:04X} " in adb(net, "shell", "cat /proc/net/tcp"), 30)
            yield
        finally:
            running.terminate()
            adb(net, "shell", "pkill lldb-server; true")


def links(net: Net) -> dict[str, Any]:
    return {link["id"]: link for link in net.status()["links"]}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that needs nothing but the C library."""
    folder = tmp_path_factory.mktemp("prog") / "mein programm 程序"
    folder.mkdir()
    (folder / "prog.c").write_text("int inner(int n) { return n; }\nint main() { return inner(7); }\n")
    subprocess.run(["gcc", "-g", "-O0", "-o", "prog", "prog.c"], cwd=folder, check=True)
    return folder / "prog"


@pytest.fixture(autouse=True)
def no_adb_left(net: Net) -> Iterator[None]:
    """In adbd mode the server's own adb is run, and its server stays, as by hand."""
    yield
    devkit(net.laptop, "tunnel", "down")
    net.server.run("adb", "kill-server", check=False)


def debug_on_server(host: Host, program: Path) -> str:
    """LLDB in platform mode on the server: no adb, the phone's own port numbers on 127.0.0.1."""
    lldb = Path(sys.executable).parent / "lldb"
    commands = [
        "settings clear plugin.symbol-locator.debuginfod.server-urls",
        "platform select remote-linux",
        f"platform connect connect://127.0.0.1:{PLATFORM}",
        f"platform settings -w {TMP}",
        f'target create "{program}"',
        "breakpoint set -n inner",
        "run",
        "bt",
        "process kill",
    ]
    words = [word for command in commands for word in ("-o", command)]
    done = host.run(lldb, "--no-lldbinit", "-b", *words, check=False, DEBUGINFOD_URLS="", timeout_s=240)
    return (done.stdout + done.stderr).decode("utf-8", "replace")


@pytest.mark.parametrize("mode", ["adb-server", pytest.param("adbd", marks=pytest.mark.slow)])
def test_platform_mode_through_two_ports(net: Net, program: Path, mode: str) -> None:
    """F1: the same numbers on every leg; bytes travel; what nobody listens at is said before."""
    up = net.up("--mode", mode, "--forward", str(PLATFORM), "--forward", str(GDBSERVER))
    assert up.code == 0, up.err
    assert net.server.listens(PLATFORM) and net.server.listens(GDBSERVER)
    silent = f"nothing listens on the phone's port {PLATFORM}"
    assert eventually(lambda: links(net)[f"forward:{PLATFORM}"]["state"] == "waiting", 30)
    assert silent in devkit(net.laptop, "tunnel", "status").out
    assert net.status()["state"] == "up"
    checked = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed")
    assert checked.code == 0 and silent in checked.out, checked.out + checked.err

    with platform(net, gdbserver=GDBSERVER + 1):
        assert eventually(lambda: links(net)[f"forward:{PLATFORM}"]["state"] == "up", 30)
        half = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed", "--json").data
        found = {link["id"]: link for link in half["links"]}
        assert found[f"listener:{PLATFORM}"]["state"] == "ok"
        assert "failed to get reply to handshake packet" in found[f"listener:{GDBSERVER}"]["evidence"]
        assert links(net)[f"forward:{GDBSERVER}"]["state"] == "waiting"
    with platform(net):
        text = debug_on_server(net.server, program)
        assert "stop reason = breakpoint" in text and "inner" in text, text
        # Counted as of a second ago.
        assert eventually(lambda: links(net)[f"forward:{GDBSERVER}"]["bytes_in"] > 0, 20)
    assert devkit(net.laptop, "tunnel", "down").code == 0
    assert not net.server.listens(PLATFORM)


@pytest.fixture
def default_adb(net: Net) -> Iterator[str]:
    """The laptop's adb server is at the usual address, with the phone; its serial there."""
    net.laptop.run(WHEEL_ADB, "start-server")
    net.laptop.run(WHEEL_ADB, "connect", net.phone["serial"])
    yield net.phone["serial"]
    net.laptop.run(WHEEL_ADB, "kill-server", check=False)


def test_platform_mode_from_the_server(net: Net, program: Path, default_adb: str) -> None:
    """F1's other leg: the server logs in to the laptop, and the ports are local to it."""
    jump = net.hosts.jump
    with ssh_to_laptop(net, jump), platform(net):
        address = net.laptop.address(net.hosts.laptop_jump)
        words = ["up", f"{net.laptop.user}@{address}", "--from", "server", "--accept-new", "--detach"]
        ports = ["--forward", str(PLATFORM), "--forward", str(GDBSERVER), "-s", default_adb]
        up = devkit(jump, "tunnel", *words, "--name", "lap", *ports)
        assert up.code == 0, up.err
        try:
            assert jump.listens(PLATFORM) and jump.listens(GDBSERVER)
            text = debug_on_server(jump, program)
            assert "stop reason = breakpoint" in text, text
        finally:
            assert devkit(jump, "tunnel", "down").code == 0
        assert not jump.listens(PLATFORM)


@pytest.mark.slow
def test_ten_rounds_leave_nothing(net: Net) -> None:
    """D7: forwards of others stay, ours are none; the server's processes are as before."""
    others = [line.split()[1:] for line in (CASES / "D7/forward_list.txt").read_text().splitlines()]
    for local, remote in others[:2]:
        adb(net, "forward", local, remote)
    before = adb(net, "forward", "--list")
    names = sorted(_names(net.server))
    for _ in range(10):
        up = net.up("--forward", "31313")
        assert up.code == 0, up.err
        assert devkit(net.laptop, "tunnel", "down").code == 0
    assert adb(net, "forward", "--list") == before and before.count("tcp:") >= 3
    assert eventually(lambda: sorted(_names(net.server)) == names, 20), _names(net.server)
    assert not list((net.server.home / ".local/state/devkit/adb-servers").glob("*"))
    adb(net, "forward", "--remove-all")


def _names(host: Host) -> list[str]:
    found = []
    for pid in host.pids():
        with contextlib.suppress(OSError):
            found.append(Path(f"/proc/{pid}/comm").read_text().strip())
    # The command that looked, on its way out.
    return [name for name in found if name not in ("readlink", "nsenter", "setpriv", "env")]


@contextlib.contextmanager
def listener(host: Host, port: int, body: str = "") -> Iterator[subprocess.Popen[bytes]]:
    """Somebody else's program at a port of a host; `body` is run for each connection `c`."""
    code = (
        f"import socket\ns = socket.create_server(('127.0.0.1', {port}))\nprint('up', flush=True)\n"
        f"while True:\n    c, _ = s.accept()\n{body or '    c.close()'}\n"
    )
    with host.start([PYTHON, "-c", code]) as running:
        assert running.stdout is not None and running.stdout.readline() == b"up\n"
        try:
            yield running
        finally:
            running.kill()


def test_a_port_that_somebody_else_has(net: Net) -> None:
    """D7: said with its number, and another one that is free is named."""
    with listener(net.server, 16000):
        for words, hint in (
            (("--port", "16000"), "--port "),
            (("--forward", "16000:31313"), "--forward "),
        ):
            up = net.up(*words, "--json")
            assert up.code == 125
            error = json.loads(up.out)
            assert error["reason"] == "address-in-use" and "16000" in error["error"], error
            offered = next(text for text in error["hints"] if "is free" in text)
            assert hint in offered, error
        option = offered.split(", ")[1].removesuffix(" is free").split()
        assert net.up(*option).code == 0


OLD_SERVER = """
    head = c.recv(4)
    request = c.recv(int(head, 16)).decode()
    print(request, flush=True)
    c.sendall(b'OKAY00040028' if request == 'host:version' else b'OKAY')
    c.close()
"""


@pytest.mark.parametrize("how", ["devkit", "script"])
def test_a_foreign_adb_server_at_5037_of_the_server(net: Net, how: str) -> None:
    """D3: an older laptop's adb server that is forwarded to the server is not ended, nor is one started."""
    with listener(net.server, 5037, OLD_SERVER) as old:
        if how == "devkit":
            up = net.up("--mode", "adbd")
            assert up.code == 125, up.err
            said = up.err
            assert "version 40" in said and "version 41" in said and "same platform-tools" in said, said
            checked = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed").out
            assert "speaks version 40" in checked and "/adb" in checked, checked
        else:
            said = script_says(net, "is not of its version")
            assert "adb is not run" in said
            # It tidies up behind itself there, without adb.
            assert eventually(lambda: "sh" not in _names(net.server), 20)
        old.kill()
        assert old.stdout is not None
        asked = old.stdout.read().decode().split()
        assert set(asked) == {"host:version"}, asked
    assert "adb" not in _names(net.server)


def script_says(net: Net, wanted: str) -> str:
    words = ("tunnel", "script", "server", "--sh", "--mode", "adbd", "-s", net.phone["serial"])
    file = net.laptop.home / "foreign.sh"
    file.write_text(devkit(net.laptop, *words).out)
    log = net.laptop.home / "foreign.log"
    environment = {
        "PATH": f"{WHEEL_ADB.parent}:/usr/bin:/bin:/usr/sbin:/sbin",
        "ANDROID_ADB_SERVER_PORT": str(net.phone["adb_port"]),
    }
    with log.open("wb") as sink:
        running = net.laptop.start(["sh", file], stdout=sink.fileno(), stderr=sink.fileno(), **environment)
    try:
        assert eventually(lambda: wanted in log.read_text(), 60), log.read_text()
    finally:
        os.kill(net.hosts.program_of(running), 15)
        running.wait(30)
    return log.read_text()


def test_the_laptops_own_clash_is_said(net: Net, tmp_path: Path) -> None:
    """D3: which adb program, and both versions; nothing is ended."""
    old = tmp_path / "old tools/adb"
    old.parent.mkdir()
    old.write_text("#!/bin/sh\necho Android Debug Bridge version 1.0.40\necho Version 28.0.1-4986621\n")
    old.chmod(0o755)
    path = f"{old.parent}:{os.environ['PATH']}"
    up = devkit(net.laptop, "tunnel", "up", "server", "-s", "sim:p", "--detach", PATH=path)
    assert up.code == 0, up.err
    checked = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed", PATH=path).out
    for text in (up.err, checked):
        assert str(old) in text and "version 41" in text and "version 40" in text, text
        assert "the same platform-tools" in text
    assert net.phones_on_server() == [net.phone["serial"]]


def test_check_says_where_ports_listen(net: Net) -> None:
    before = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed", "--json").data
    assert "none from here is up" in json.dumps(before)
    assert net.up("--forward", "31400:31313").code == 0
    port, pid = net.status()["port"], net.status()["pid"]
    found = devkit(net.laptop, "tunnel", "check", "server", "-s", "sim:p", "--no-speed", "--json").data
    by_id = {link["id"]: link for link in found["links"]}
    assert by_id[f"port:{port}"]["machine"] == "server"
    assert f"the tunnel server provides it (pid {pid})" in by_id[f"port:{port}"]["evidence"]
    assert "version 41 answers there" in by_id[f"port:{port}"]["evidence"]
    assert "leads to the phone's port 31313" in by_id["port:31400"]["evidence"]
    assert f"127.0.0.1:{net.phone['adb_port']} of the laptop" in by_id["adb"]["evidence"]
    assert by_id["server-adb-server"]["state"] == "ok" and by_id["server-adb"]["state"] == "ok"
    # Nothing was started by looking.
    assert not net.server.listens(5037)
    assert shutil.which("adb") is None or "platform-tools" in by_id["server-adb"]["evidence"]
