"""`devkit tunnel script --sh` for real: a laptop, a jump host, a server, and links that break."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.e2e.support import REPO, WHEEL_ADB, eventually
from tests.support.host import Host
from tests.support.hosts import Hosts, made_hosts

TOOLS = {"PYTHONPATH": str(REPO)}


@pytest.fixture(scope="module")
def shared() -> Iterator[Hosts]:
    with made_hosts() as made:
        yield made


class Laptop:
    """A laptop with a phone and an adb on its PATH, and a script that runs on it."""

    def __init__(self, hosts: Hosts) -> None:
        self.hosts = hosts
        started = devkit(hosts.laptop, "sim", "start", "p", "--json")
        self.phone: dict[str, Any] = json.loads(started.stdout)
        self.script: subprocess.Popen[bytes] | None = None
        self.log = hosts.laptop.home / "script.log"

    def adb_environment(self) -> dict[str, str]:
        path = f"{WHEEL_ADB.parent}:/usr/bin:/bin:/usr/sbin:/sbin"
        return {"PATH": path, "ANDROID_ADB_SERVER_PORT": str(self.phone["adb_port"])}

    def run_script(self, *options: str, interpreter: str = "dash") -> None:
        text = devkit(self.hosts.laptop, "tunnel", "script", "server", "--sh", *options).stdout
        file = self.hosts.laptop.home / "tunnel.sh"
        file.write_bytes(text)
        with self.log.open("wb") as log:
            self.script = self.hosts.laptop.start(
                [interpreter, file], stdout=log.fileno(), stderr=log.fileno(), **self.adb_environment()
            )

    def end_script(self) -> int:
        """As `kill` of the script itself; its exit code."""
        assert self.script is not None
        os.kill(self.hosts.program_of(self.script), signal.SIGTERM)
        code = self.script.wait(30)
        self.script = None
        return code

    def close(self) -> None:
        if self.script is not None:
            self.script.kill()
            self.script.wait()
        devkit(self.hosts.laptop, "sim", "stop", "p")


@pytest.fixture
def laptop(shared: Hosts) -> Iterator[Laptop]:
    made = Laptop(shared)
    yield made
    made.close()
    shared.jump.restart_sshd()
    shared.server.restart_sshd()


def devkit(host: Host, *words: str, check: bool = True, **env: str) -> subprocess.CompletedProcess[bytes]:
    return host.run(sys.executable, "-m", "devkit", *words, check=check, **{**TOOLS, **env})


def listed(server: Host) -> dict[str, str]:
    """What devkit on the server lists by itself: nobody told it of a tunnel."""
    done = devkit(server, "device", "list", "--json", check=False, ADB_SERVER_SOCKET="tcp:127.0.0.1:1")
    if done.returncode != 0:
        return {}
    return {each["serial"]: each["state"] for each in json.loads(done.stdout)["devices"]}


def test_the_laptops_phone_on_the_server(laptop: Laptop) -> None:
    server, serial = laptop.hosts.server, laptop.phone["serial"]
    laptop.run_script()
    assert eventually(lambda: listed(server).get(serial) == "device", 40), laptop.log.read_text()
    said = devkit(server, "device", "shell", "-s", "laptop", "--", "echo from the server").stdout
    assert said == b"from the server\n"
    assert server.listens(15037) and not server.listens(15037, "0.0.0.0")
    registry = server.home / ".local/state/devkit/adb-servers"
    assert (registry / "tunnel-laptop.json").exists()

    # Interrupted, it leaves nothing on either side.
    assert laptop.end_script() == 130
    assert eventually(lambda: not server.listens(15037), 20)
    assert eventually(lambda: list(registry.iterdir()) == [], 20)
    assert laptop.hosts.laptop.pids_called("ssh") == []


@pytest.mark.parametrize("trouble", ["sshd", pytest.param("silence", marks=pytest.mark.slow)])
def test_it_comes_back_by_itself(laptop: Laptop, trouble: str) -> None:
    server, serial = laptop.hosts.server, laptop.phone["serial"]
    laptop.run_script()
    assert eventually(lambda: listed(server).get(serial) == "device", 40), laptop.log.read_text()
    if trouble == "sshd":
        laptop.hosts.jump.restart_sshd()
    else:
        # The laptop gives the connection up; the server still holds it, and with it the port.
        with laptop.hosts.laptop_jump.broken():
            assert eventually(lambda: "the tunnel is down" in laptop.log.read_text(), 60)
            assert server.listens(15037)
    assert eventually(lambda: laptop.log.read_text().count("the tunnel is up") >= 2, 90), (
        laptop.log.read_text()
    )
    assert eventually(lambda: listed(server).get(serial) == "device", 40), laptop.log.read_text()


@pytest.mark.slow
def test_the_phones_adbd_on_the_server(laptop: Laptop) -> None:
    """The articles' mode, and a port of the phone besides."""
    hosts, serial = laptop.hosts, laptop.phone["serial"]
    adb = {"ANDROID_ADB_SERVER_PORT": "5199"}
    laptop.run_script("--mode", "adbd", "-s", serial, "--forward", "31313", interpreter="bash")
    assert eventually(lambda: hosts.server.listens(30303), 60), laptop.log.read_text()
    assert hosts.server.listens(31313)
    try:
        connected = hosts.server.run(WHEEL_ADB, "connect", "127.0.0.1:30303", **adb).stdout
        assert connected.endswith(b"connected to 127.0.0.1:30303\n"), laptop.log.read_text()
        said = hosts.server.run(WHEEL_ADB, "-s", "127.0.0.1:30303", "shell", "getprop ro.devkit.sim", **adb)
        assert said.stdout == b"1\n"
    finally:
        hosts.server.run(WHEEL_ADB, "kill-server", check=False, **adb)
    assert laptop.end_script() == 130
    # Undone: the forwards, and TCP mode.
    environment = laptop.adb_environment()
    assert hosts.laptop.run(WHEEL_ADB, "forward", "--list", **environment).stdout.strip() == b""

    def port() -> bytes:
        shown = hosts.laptop.run(
            WHEEL_ADB, "-s", serial, "shell", "getprop service.adb.tcp.port", check=False, **environment
        )
        return shown.stdout

    assert eventually(lambda: port() == b"0\n", 30)


def test_forwards_of_others_are_used_and_stay(laptop: Laptop) -> None:
    """Case D7: one that leads to the same port of the same phone; when its owner removes it, one is made."""
    hosts, serial, environment = laptop.hosts, laptop.phone["serial"], laptop.adb_environment()

    def forwards(*words: str) -> bytes:
        return hosts.laptop.run(WHEEL_ADB, "-s", serial, "forward", *words, **environment).stdout

    nothing = forwards("--list")
    forwards("tcp:5039", "tcp:31313")
    before = forwards("--list")
    for _ in range(2):
        laptop.run_script("-s", serial, "--forward", "31313")
        assert eventually(lambda: hosts.server.listens(31313), 60), laptop.log.read_text()
        assert forwards("--list") == before
        assert laptop.end_script() == 130
        assert forwards("--list") == before
        assert eventually(lambda: not hosts.server.listens(31313), 20)
    laptop.run_script("-s", serial, "--forward", "31313")
    assert eventually(lambda: hosts.server.listens(31313), 60), laptop.log.read_text()
    forwards("--remove", "tcp:5039")
    assert eventually(lambda: b" tcp:31313" in forwards("--list"), 60), laptop.log.read_text()
    assert eventually(lambda: hosts.server.listens(31313), 60), laptop.log.read_text()
    assert "a port of the phone is gone" in laptop.log.read_text()
    assert laptop.end_script() == 130
    assert forwards("--list") == nothing


def test_a_server_that_forbids_forwarding(laptop: Laptop) -> None:
    laptop.hosts.server.restart_sshd(AllowTcpForwarding="no")
    laptop.run_script()
    assert eventually(lambda: "remote port forwarding failed" in laptop.log.read_text(), 40)
    assert eventually(lambda: "again in" in laptop.log.read_text(), 40)
