"""Chains of machines: each hop with its own login and host key, and failures that name their link."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.errors import TunnelError
from tests.e2e.ssh_support import Echo, Lab, ask, lab_in, wait_for
from tests.support.sshd import make_key, public


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with lab_in(tmp_path) as lab:
        yield lab


def refused(lab: Lab, name: str) -> TunnelError:
    with pytest.raises(TunnelError) as caught:
        lab.connect(name)
    return caught.value


def test_two_jumps_with_a_key_each(lab: Lab) -> None:
    keys = {}
    for name, through in (("j1", ""), ("j2", ""), ("s", " ProxyJump j1,j2\n")):
        keys[name] = make_key(lab.folder / f"key of {name}")
        server = lab.server(name, config=f'{through} IdentityFile "{keys[name]}"')
        server.authorized_keys.write_text(public(keys[name]) + "\n", "utf-8")
    link = lab.connect("s")
    assert link.route == ("this machine", "j1", "j2", "s")
    assert [Path(hop.auth).name for hop in link.status().hops] == [f"key of {n}" for n in ("j1", "j2", "s")]
    assert len(link.ping()) == 3
    data = os.urandom(3_000_000)
    with Echo() as target:
        assert ask(link.remote_forward(target.address).port, data) == data
        assert ask(link.local_forward(target.address).port, data) == data
    threads = threading.active_count()
    link.close()
    wait_for(lambda: threading.active_count() <= threads - 5, "its threads' end")


@pytest.mark.parametrize("which", ["j", "s"])
def test_the_hop_whose_server_is_killed_is_named(lab: Lab, which: str) -> None:
    servers = {"j": lab.server("j"), "s": lab.server("s", config=" ProxyJump j")}
    link = lab.connect("s")
    servers[which].signal_sessions(signal.SIGKILL)
    assert link.wait(30) and link.failure is not None
    assert link.failure.link == ("j", "s").index(which) and link.failure.what.startswith(f"{which}: ")
    assert f"this machine → j → s (broken: {'this machine → j' if which == 'j' else 'j → s'})" in str(
        link.failure.evidence
    )


@pytest.mark.parametrize("which", ["j", "s"])
def test_the_hop_that_goes_silent_is_named(lab: Lab, which: str) -> None:
    servers = {"j": lab.server("j"), "s": lab.server("s", config=" ProxyJump j")}
    link = lab.connect("s", keepalive_s=0.3, keepalive_count=3)
    assert min(link.ping()) > 0
    servers[which].signal_sessions(signal.SIGSTOP)
    assert link.wait(60) and link.failure is not None
    assert link.failure.link == ("j", "s").index(which)


def test_what_the_jump_host_cannot_reach(lab: Lab) -> None:
    lab.server("j")
    probe = socket.create_server(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    lab.add_host("s", port, "dev", " ProxyJump j")
    error = refused(lab, "s")
    assert (error.reason, error.link) == ("refused", 1) and error.what.startswith("s: ")
    lab.add_host("t", 22, "dev", " ProxyJump j\n HostName no-such-host.invalid")
    error = refused(lab, "t")
    assert (error.reason, error.link) == ("dns", 1)


def test_a_jump_host_that_forbids_it(lab: Lab) -> None:
    lab.server("j", ["AllowTcpForwarding remote"])
    lab.server("s", config=" ProxyJump j")
    error = refused(lab, "s")
    assert (error.reason, error.link) == ("forward-denied", 1)
    assert "AllowTcpForwarding" in str(error.evidence)


def test_the_login_and_the_host_key_of_each_hop_are_checked(lab: Lab) -> None:
    jump = lab.server("j")
    server = lab.server("s", config=" ProxyJump j")
    server.authorized_keys.write_text("", "utf-8")
    error = refused(lab, "s")
    assert (error.reason, error.link) == ("auth", 1)
    jump.authorized_keys.write_text("", "utf-8")
    error = refused(lab, "s")
    assert (error.reason, error.link) == ("auth", 0)
    lab.known_hosts.write_text(jump.known_hosts_line(), "utf-8")
    jump.authorize(lab.key)
    error = refused(lab, "s")
    assert (error.reason, error.link) == ("host-key-unknown", 1)
    lab.known_hosts.write_text(server.known_hosts_line(), "utf-8")
    error = refused(lab, "s")
    assert (error.reason, error.link) == ("host-key-unknown", 0)


def test_a_jump_host_whose_account_has_no_session(lab: Lab) -> None:
    lab.server("j", ["MaxSessions 0"])
    lab.server("s", config=" ProxyJump j")
    link = lab.connect("s")
    with Echo() as target:
        assert ask(link.remote_forward(target.address).port) == b"hello"


# ProxyCommand.


def test_a_proxy_command_carries_the_connection(lab: Lab) -> None:
    server = lab.server("s")
    lab.add_host("p", server.port, server.user, f" ProxyCommand ssh -F '{lab.config}' -W %h:%p s")
    before = _children()
    link = lab.connect("p")
    with Echo() as target:
        assert ask(link.remote_forward(target.address).port, b"x" * 500_000) == b"x" * 500_000
    children = _children() - before
    assert children
    link.close()
    wait_for(lambda: not _children() & children, "the program's end")


@pytest.mark.parametrize(
    ("command", "seen"),
    [("no-such-program-here", "not found"), ("sh -c 'echo broken >&2; exit 7'", "broken")],
)
def test_a_proxy_command_that_fails(lab: Lab, command: str, seen: str) -> None:
    lab.add_host("p", 22, "dev", f" ProxyCommand {command}")
    error = refused(lab, "p")
    assert error.reason == "proxy-command" and seen in str(error.evidence)


def test_a_proxy_command_that_says_nothing(lab: Lab) -> None:
    lab.add_host("p", 22, "dev", " ProxyCommand sleep 600\n ConnectTimeout 1")
    before = _children()
    error = refused(lab, "p")
    assert error.reason == "proxy-command" and "said nothing" in error.what
    wait_for(lambda: not _children() - before, "the program's end")


def _children() -> set[int]:
    found: set[int] = set()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):  # a thread that has just ended
            found |= {int(pid) for pid in (task / "children").read_text("ascii").split()}
    return {pid for pid in found if not _name(pid).startswith(("sshd", "gone"))}


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8").strip()
    except FileNotFoundError:
        return "gone"
