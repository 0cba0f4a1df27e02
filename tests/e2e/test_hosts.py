"""The three hosts that tests of tunnels use: what reaches what, and that links and sshds break as told."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import process
from tests.e2e.support import REPO, WHEEL_ADB, eventually
from tests.support.host import Host
from tests.support.hosts import Hosts, made_hosts

SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5")


@pytest.fixture(scope="module")
def shared() -> Iterator[Hosts]:
    with made_hosts() as made:
        yield made


@pytest.fixture
def hosts(shared: Hosts) -> Iterator[Hosts]:
    """All links whole and fast again, both sshds at their defaults, whatever a test did."""
    yield shared
    for link in shared.links:
        link.heal()
        link.shape()
    for host in (shared.jump, shared.server):
        host.restart_sshd()


def reaches(host: Host, address: str, port: int = 22) -> bool:
    code = f"import socket; socket.create_connection(({address!r}, {port}), 2)"
    return host.run(sys.executable, "-c", code, check=False).returncode == 0


def ssh(hosts: Hosts, *words: str, check: bool = True) -> subprocess.CompletedProcess[bytes]:
    return hosts.laptop.run(*SSH, *words, check=check)


def test_who_reaches_whom(hosts: Hosts) -> None:
    jump_to_laptop, jump_to_server = (hosts.jump.address(link) for link in hosts.links)
    laptop, server = hosts.laptop.address(hosts.laptop_jump), hosts.server.address(hosts.jump_server)
    assert reaches(hosts.laptop, jump_to_laptop)
    assert reaches(hosts.jump, server) and reaches(hosts.server, jump_to_server)
    assert not reaches(hosts.laptop, server)
    assert not reaches(hosts.server, laptop, 1) and not reaches(hosts.server, jump_to_laptop)
    # Not only closed: there is no way.
    ping = "import socket; socket.create_connection(('%s', 1), 2)"
    said = hosts.server.run(sys.executable, "-c", ping % laptop, check=False).stderr
    assert b"unreachable" in said


def test_the_hosts_have_loopbacks_and_names_of_their_own(hosts: Hosts) -> None:
    for host in hosts.all:
        assert host.run("hostname").stdout.decode().strip() == host.name
        assert host.run("sh", "-c", "cd; pwd").stdout.decode().strip() == str(host.home)
    listen = (
        "import socket,sys; s=socket.create_server(('127.0.0.1', 5037)); print('up', flush=True); s.accept()"
    )
    with hosts.laptop.start([sys.executable, "-c", listen]) as listener:
        assert listener.stdout is not None and listener.stdout.readline() == b"up\n"
        assert hosts.laptop.listens(5037)
        assert not hosts.server.listens(5037) and not reaches(hosts.server, "127.0.0.1", 5037)
        listener.kill()
    # Killing what was started here ends it there.
    assert eventually(lambda: not hosts.laptop.listens(5037), 10)


def test_ssh_through_the_jump_host(hosts: Hosts) -> None:
    done = ssh(hosts, "server", "hostname; id -un; cd; pwd; echo $SSH_CONNECTION")
    name, user, home, connection = done.stdout.decode().splitlines()
    assert (name, user, home) == ("server", hosts.user, str(hosts.server.home))
    assert connection.split()[0] == hosts.jump.address(hosts.jump_server)
    assert ssh(hosts, "jump", "exit 7", check=False).returncode == 7
    # Only the laptop has a key.
    denied = hosts.jump.run(
        *SSH, "-o", "StrictHostKeyChecking=no", hosts.server.address(hosts.jump_server), check=False
    )
    assert denied.returncode == 255 and b"Permission denied" in denied.stderr


def test_each_host_has_a_key_of_its_own(hosts: Hosts) -> None:
    known = hosts.laptop.home / ".ssh/known_hosts"
    before = known.read_text()
    try:
        lines = [line.split() for line in before.splitlines()]
        keys = {line[0]: line[2] for line in lines}
        assert len(set(keys.values())) == 2
        swapped = keys[hosts.jump.address(hosts.laptop_jump)]
        server = hosts.server.address(hosts.jump_server)
        known.write_text(before.replace(keys[server], swapped))
        refused = ssh(hosts, "server", "true", check=False)
        assert refused.returncode == 255 and b"IDENTIFICATION HAS CHANGED" in refused.stderr
    finally:
        known.write_text(before)


@pytest.mark.slow
def test_a_cut_link_is_silent_and_heals(hosts: Hosts) -> None:
    talk = hosts.laptop.start([*SSH, "server", "cat"], stdin=subprocess.PIPE)
    assert talk.stdin is not None and talk.stdout is not None
    talk.stdin.write(b"before\n")
    talk.stdin.flush()
    assert talk.stdout.readline() == b"before\n"
    for link in hosts.links:
        with link.broken():
            failed = ssh(hosts, "server", "true", check=False)
            assert failed.returncode == 255 and b"timed out" in failed.stderr.lower(), failed.stderr
            # Neither end sees it: what is connected stays so, and waits.
            assert "state UP" in hosts.laptop.ip("-o", "link", "show", "to-jump")
            assert talk.poll() is None
        assert eventually(lambda: ssh(hosts, "server", "true", check=False).returncode == 0, 30)
    talk.stdin.write(b"after\n")
    talk.stdin.flush()
    assert talk.stdout.readline() == b"after\n"
    talk.stdin.close()
    assert talk.wait(30) == 0


def round_trip_s(hosts: Hosts) -> float:
    """Until a connection is refused: one round trip and nothing else."""
    code = """
        import socket, time
        times = []
        for _ in range(5):
            begun = time.monotonic()
            try:
                socket.create_connection(("%s", 9), 5)
            except ConnectionRefusedError:
                times.append(time.monotonic() - begun)
        print(min(times))
    """
    script = textwrap.dedent(code) % hosts.jump.address(hosts.laptop_jump)
    return float(hosts.laptop.run(sys.executable, "-c", script).stdout)


def test_a_link_with_a_delay(hosts: Hosts) -> None:
    fast = round_trip_s(hosts)
    hosts.laptop_jump.shape(delay_s=0.1)
    assert round_trip_s(hosts) >= 0.2
    hosts.laptop_jump.shape()
    assert round_trip_s(hosts) < 0.2 and fast < 0.2


@pytest.mark.slow
def test_a_link_with_a_rate_loses_and_changes_nothing(hosts: Hosts) -> None:
    data = os.urandom(4_000_000)
    expected = hashlib.sha256(data).hexdigest()
    hosts.laptop_jump.shape(rate_bits_s=40e6, delay_s=0.005)
    begun = time.monotonic()
    done = hosts.laptop.run(*SSH, "server", "sha256sum", stdin=data)
    assert done.stdout.decode().split()[0] == expected
    # 32 Mbit at 40 Mbit/s; the headers of a million packets more or less are not the point.
    assert time.monotonic() - begun >= 0.8
    with hosts.laptop_jump.broken():
        assert ssh(hosts, "jump", "true", check=False).returncode == 255
    assert eventually(lambda: ssh(hosts, "jump", "true", check=False).returncode == 0, 30)


def test_an_sshd_that_is_killed_takes_its_sessions_along(hosts: Hosts) -> None:
    talk = hosts.laptop.start([*SSH, "server", "echo up; cat"], stdin=subprocess.PIPE)
    assert talk.stdout is not None and talk.stdout.readline() == b"up\n"
    hosts.server.stop_sshd()
    refused = ssh(hosts, "server", "true", check=False)
    assert refused.returncode == 255
    assert talk.poll() is None
    hosts.server.kill_sshd()
    assert talk.wait(30) == 255
    hosts.server.start_sshd()
    assert ssh(hosts, "server", "echo again").stdout == b"again\n"


def test_an_sshd_with_other_options(hosts: Hosts) -> None:
    hosts.jump.restart_sshd(AllowTcpForwarding="no")
    refused = ssh(hosts, "server", "true", check=False)
    assert refused.returncode == 255 and b"administratively prohibited" in refused.stderr


def test_the_phone_of_the_laptop_on_the_server(hosts: Hosts) -> None:
    """The articles' way, by hand: `ssh -R` of the laptop's adb server, through the jump host."""
    laptop, server = hosts.laptop, hosts.server
    started = laptop.run(sys.executable, "-m", "devkit", "sim", "start", "p", "--json", PYTHONPATH=str(REPO))
    try:
        phone = json.loads(started.stdout)
        reverse = f"127.0.0.1:5038:127.0.0.1:{phone['adb_port']}"
        with laptop.start([*SSH, "-N", "-o", "ExitOnForwardFailure=yes", "-R", reverse, "server"]) as tunnel:
            assert eventually(lambda: server.listens(5038), 30)
            socket = {"ADB_SERVER_SOCKET": "tcp:127.0.0.1:5038"}
            listed = server.run(WHEEL_ADB, "devices", **socket).stdout.decode()
            assert f"{phone['serial']}\tdevice" in listed
            said = server.run(WHEEL_ADB, "shell", "getprop ro.devkit.sim", **socket).stdout
            assert said == b"1\n"
            tunnel.kill()
        assert eventually(lambda: not server.listens(5038), 30)
    finally:
        laptop.run(sys.executable, "-m", "devkit", "sim", "stop", "p", PYTHONPATH=str(REPO))


LEAVING = """
    import os, sys, time
    from pathlib import Path
    from tests.support.hosts import Hosts
    hosts = Hosts(Path(sys.argv[1]))
    ssh = hosts.laptop.start(["ssh", "-o", "BatchMode=yes", "server", "hostname; sleep 1000"])
    assert ssh.stdout.readline() == b"server\\n"
    print(*[pid for host in hosts.all for pid in host.pids()], flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize("user", ["same", "ordinary"])
def test_a_test_that_is_killed_leaves_nothing(tmp_path: Path, user: str) -> None:
    """Also as a user without any right: the one way of the two that CI, which is root, does not go."""
    base = tmp_path / "hosts"
    base.mkdir()
    ordinary = (
        ["unshare", "--user", "--map-user=1234", "--map-group=1234", "--"] if user == "ordinary" else []
    )
    maker = subprocess.Popen(
        [*ordinary, sys.executable, "-c", textwrap.dedent(LEAVING), base],
        env={**os.environ, "PYTHONPATH": str(REPO)},
        stdout=subprocess.PIPE,
    )
    assert maker.stdout is not None
    pids = [int(word) for word in maker.stdout.readline().split()]
    try:
        # Holders of three networks, two sshds, a client and its sessions. What found them is gone already.
        assert len([pid for pid in pids if process.is_alive(pid)]) >= 8
    finally:
        maker.kill()
        maker.wait()
        maker.stdout.close()
    assert eventually(lambda: not any(process.is_alive(pid) for pid in pids), 20)
