"""`devkit tunnel`: the laptop's own adb server, sleep, passphrases, the other direction, the doctor."""

from __future__ import annotations

import json
import os
import pty
import select
import time
from pathlib import Path

import pytest

from tests.e2e.support import REPO, WHEEL_ADB, eventually
from tests.e2e.tunnel_world import PYTHON, Net, devkit, net, ssh_to_laptop, world

__all__ = ["net", "world"]


def link_states(net: Net) -> dict[str, str]:
    return {link["id"]: link["state"] for link in net.status()["links"]}


@pytest.fixture
def own_adb(net: Net) -> Net:
    """The laptop's user has an adb server at the usual address, or none yet."""
    yield net
    net.laptop.run(WHEEL_ADB, "kill-server", check=False)


@pytest.mark.slow
def test_the_default_adb_server_is_started_and_started_again(own_adb: Net) -> None:
    net = own_adb
    path = f"{WHEEL_ADB.parent}:{os.environ['PATH']}"
    assert not net.laptop.listens(5037)
    up = devkit(net.laptop, "tunnel", "up", "server", "--detach", PATH=path)
    assert up.code == 0, up.err
    assert net.laptop.listens(5037)
    log = net.laptop.home / ".local/state/devkit/tunnels/server.log"
    assert "starting" in log.read_text()
    assert eventually(lambda: link_states(net)["adb"] == "up", 30)
    # Somebody ends it: said, and started again.
    net.laptop.run(WHEEL_ADB, "kill-server")
    assert eventually(lambda: "went away" in log.read_text(), 20), log.read_text()
    assert eventually(lambda: net.laptop.listens(5037) and link_states(net)["adb"] == "up", 30)
    assert devkit(net.server, "device", "list", "--json").code == 0


def test_a_process_that_slept(net: Net) -> None:
    """Stopped for longer than anybody waits, as by closing the lid; nothing has to be done by hand."""
    assert net.up().code == 0
    pid = str(net.status()["pid"])
    net.laptop.run("kill", "-STOP", pid)
    net.hosts.laptop_jump.cut()
    time.sleep(3)
    net.hosts.laptop_jump.heal()
    net.laptop.run("kill", "-CONT", pid)
    assert eventually(lambda: net.status()["state"] == "up" and net.phones_on_server() != [], 30)


def test_a_passphrase_asked_at_the_terminal_for_a_detached_tunnel(net: Net, tmp_path: Path) -> None:
    secret = "Gehe1m 密"
    key = net.laptop.home / ".ssh/locked"
    net.laptop.run("ssh-keygen", "-q", "-t", "ed25519", "-N", secret, "-f", key)
    for host in (net.hosts.jump, net.server):
        with (host.home / ".ssh/authorized_keys").open("a") as file:
            file.write(key.with_suffix(".pub").read_text())
    config = net.laptop.home / ".ssh/config"
    other = tmp_path / "ssh config"
    other.write_text(config.read_text().replace("id_ed25519", "locked"))
    words = [PYTHON, "-m", "devkit", "tunnel", "up", "server", "-s", "sim:p", "--detach", "-F", other]
    master, slave = pty.openpty()
    with net.laptop.start(words, stdin=slave, stdout=slave, stderr=slave, PYTHONPATH=str(REPO)) as child:
        os.close(slave)
        said = b""
        asked = 0
        deadline = time.monotonic() + 60
        while child.poll() is None and time.monotonic() < deadline:
            if not select.select([master], [], [], 0.2)[0]:
                continue
            try:
                said += os.read(master, 4096)
            except OSError:
                break
            if said.count(b"passphrase for") > asked:
                asked += 1
                os.write(master, f"{secret}\n".encode())
        assert child.wait(30) == 0, said
    os.close(master)
    assert asked >= 1
    # The link breaks in the night: the answer is still known, and nobody is asked.
    port = net.status()["port"]
    net.server.restart_sshd()
    assert eventually(lambda: net.status()["reconnects"] >= 1 and net.status()["state"] == "up", 40)
    assert net.status()["port"] == port
    # It stands nowhere.
    pid = net.status()["pid"]
    seen = said + net.laptop.run("cat", f"/proc/{pid}/cmdline", f"/proc/{pid}/environ").stdout
    for file in (net.laptop.home / ".local/state/devkit").rglob("*"):
        if file.is_file() and file.stat().st_size < 1_000_000:
            seen += file.read_bytes()
    seen += devkit(net.laptop, "tunnel", "status", "--json").out.encode()
    assert secret.encode() not in seen and b"Gehe1m" not in seen


def test_without_a_terminal_a_locked_key_is_an_error_that_says_so(net: Net, tmp_path: Path) -> None:
    key = net.laptop.home / ".ssh/locked2"
    net.laptop.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "secret", "-f", key)
    other = tmp_path / "config"
    other.write_text((net.laptop.home / ".ssh/config").read_text().replace("id_ed25519", "locked2"))
    up = net.up("-F", str(other), "--json")
    assert up.code == 125
    error = json.loads(up.out)
    assert error["reason"] == "auth" and "locked2" in json.dumps(error)


def test_from_the_server(own_adb: Net) -> None:
    """The server logs in to the laptop: here J, which reaches L directly, as in one network or a VPN."""
    net = own_adb
    net.laptop.run(WHEEL_ADB, "start-server")
    with ssh_to_laptop(net, net.hosts.jump):
        address = net.laptop.address(net.hosts.laptop_jump)
        up = devkit(
            net.hosts.jump, "tunnel", "up", f"{net.laptop.user}@{address}", "--from", "server",
            "--accept-new", "--detach", "--name", "lap",
        )  # fmt: skip
        assert up.code == 0, up.err
        known = net.hosts.jump.home / ".ssh/known_hosts"
        assert net.hosts.jump.run("ssh-keygen", "-F", address, "-f", known).stdout
        listed = devkit(net.hosts.jump, "device", "list", "--json").data
        assert [each["origin"] for each in listed["servers"]] == ["tunnel"]
        assert devkit(net.hosts.jump, "tunnel", "down").code == 0
        listed = devkit(net.hosts.jump, "device", "list", "--json")
        assert "tunnel" not in listed.out


@pytest.mark.slow
def test_the_doctor_on_both_sides(net: Net) -> None:
    assert net.up().code == 0
    report = json.loads(devkit(net.server, "doctor", "--json").out)
    there = {link["id"]: link for link in report["links"]}
    assert (
        there["tunnel:laptop"]["state"] == "ok" and net.phone["serial"] in there["tunnel:laptop"]["evidence"]
    )
    assert report["this_machine"] == ["server"]
    # The laptop's adb server, reached through the tunnel; the program that is compared with it is here.
    of_server = {name: there[name]["section"] for name in ("python", "cmake", "adb", "adb-server", "phone")}
    assert of_server == {
        "python": "server", "cmake": "server", "adb": "server", "adb-server": "laptop", "phone": "phone",
    }  # fmt: skip
    assert there["tunnel:laptop"]["section"] == "laptop"
    report = json.loads(devkit(net.laptop, "doctor", "--json").out)
    here = {link["id"]: link for link in report["links"]}
    assert here["tunnel:server:ssh:server"]["state"] == "ok"
    assert here["tunnel:server:port"]["state"] == "ok"
    assert report["this_machine"] == ["laptop"]
    of_laptop = {
        name: here[name]["section"]
        for name in ("python", "adb-server", "tunnel:server:ssh:jump", "tunnel:server:port", "phone")
    }
    assert of_laptop == {
        "python": "laptop", "adb-server": "laptop", "tunnel:server:ssh:jump": "server",
        "tunnel:server:port": "server", "phone": "phone",
    }  # fmt: skip
    order = [link["section"] for link in report["links"]]
    assert order == sorted(order, key=("laptop", "server", "phone").index)
    net.server.kill_sshd()
    assert eventually(lambda: net.status()["state"] == "down", 30)
    broken = json.loads(devkit(net.laptop, "doctor", "--json").out)
    states = {link["id"]: link["state"] for link in broken["links"]}
    assert states["tunnel:server:ssh:jump"] == "ok" and states["tunnel:server:ssh:server"] == "broken"
    assert broken["first_broken"] == "tunnel:server:ssh:server"
    net.laptop.run("kill", "-KILL", str(net.status()["pid"]))
    fixed = devkit(net.laptop, "doctor", "--fix")
    assert "forgot the ended tunnel server" in fixed.out + fixed.err
    assert devkit(net.laptop, "doctor", "--json").data["this_machine"] == ["server", "laptop"]
    assert devkit(net.laptop, "tunnel", "status").code == 0


def test_exposing_the_port_is_said(net: Net) -> None:
    up = net.up("--bind", "0.0.0.0", "--dry-run")
    assert up.code == 0 and "has a shell on the phone" in up.err
    net.server.restart_sshd(GatewayPorts="clientspecified")
    up = net.up("--bind", "0.0.0.0")
    assert up.code == 0 and "has a shell on the phone" in up.err
    assert net.server.listens(net.status()["port"], "0.0.0.0")
    net.server.restart_sshd()
