"""Three real hosts with devkit: server S, jump host J, laptop L with a virtual phone called p."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.support import REPO
from tests.support.hosts import Host, Hosts, made_hosts

PYTHON = sys.executable


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def data(self) -> Any:
        return json.loads(self.out)


def devkit(host: Host, *words: str | Path, timeout_s: float = 120, **env: str) -> Ran:
    """Run devkit on a host, as its user would."""
    done = host.run(
        PYTHON, "-m", "devkit", *words, check=False, timeout_s=timeout_s, PYTHONPATH=str(REPO), **env
    )
    return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())


@dataclass(frozen=True)
class Net:
    hosts: Hosts
    phone: dict[str, Any]

    @property
    def laptop(self) -> Host:
        return self.hosts.laptop

    @property
    def server(self) -> Host:
        return self.hosts.server

    def up(self, *words: str, host: str = "server") -> Ran:
        return devkit(self.laptop, "tunnel", "up", host, "-s", "sim:p", "--detach", *words)

    def status(self) -> dict[str, Any]:
        tunnels: list[dict[str, Any]] = devkit(self.laptop, "tunnel", "status", "--json").data["tunnels"]
        return tunnels[0] if tunnels else {"state": "none", "links": []}

    def phones_on_server(self) -> list[str]:
        """What devkit on the server lists, without any variable set there."""
        listed = devkit(self.server, "device", "list", "--json")
        return [each["serial"] for each in listed.data["devices"] if each["state"] == "device"]


@contextlib.contextmanager
def ssh_to_laptop(net: Net, host: Host) -> Iterator[None]:
    """The laptop has an sshd, and that host's user may log in there."""
    ssh, folder = host.home / ".ssh", net.laptop.home.parent
    if not (ssh / "id_ed25519").exists():
        net.laptop.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", ssh / "id_ed25519")
    (net.laptop.home / ".ssh/authorized_keys").write_text((ssh / "id_ed25519.pub").read_text())
    if not (folder / "host_ed25519").exists():
        net.laptop.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / "host_ed25519")
    net.laptop.start_sshd()
    try:
        yield
    finally:
        net.laptop.kill_sshd()


@pytest.fixture(scope="module")
def world() -> Iterator[Net]:
    with made_hosts() as hosts:
        started = devkit(hosts.laptop, "sim", "start", "p", "--json")
        assert started.code == 0, started.err
        try:
            yield Net(hosts, started.data)
        finally:
            devkit(hosts.laptop, "sim", "stop", "p")


@pytest.fixture
def net(world: Net) -> Iterator[Net]:
    yield world
    devkit(world.laptop, "tunnel", "down")
    for link in world.hosts.links:
        link.heal()
        link.shape()
    for host in (world.hosts.jump, world.server):
        if not host.listens(22, "0.0.0.0"):
            host.restart_sshd()
    devkit(world.laptop, "sim", "heal", "--name", "p")
