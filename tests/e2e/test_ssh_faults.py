"""What goes wrong on the way to a machine, for real, and what is said about it."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.errors import TunnelError
from devkit.tunnels import Link
from tests.e2e.ssh_support import Echo, Lab, ask, lab_in, wait_for
from tests.support.sshd import fingerprint, make_key, public


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with lab_in(tmp_path) as lab:
        yield lab


def refused(lab: Lab, name: str, **options: object) -> TunnelError:
    with pytest.raises(TunnelError) as caught:
        lab.connect(name, **options)
    assert name in caught.value.what
    return caught.value


def test_a_name_without_an_address(lab: Lab) -> None:
    lab.add_host("s", 22, "dev", " HostName no-such-host.invalid")
    error = refused(lab, "s")
    assert error.reason == "dns" and "no-such-host.invalid" in str(error)


def test_nothing_listens(lab: Lab) -> None:
    probe = socket.create_server(("127.0.0.1", 0))
    port = probe.getsockname()[1]
    probe.close()
    lab.add_host("s", port, "dev")
    error = refused(lab, "s")
    assert error.reason == "refused" and f"127.0.0.1:{port}" in str(error)


def test_a_connect_that_is_never_answered(lab: Lab) -> None:
    """A full backlog drops the SYN, as a firewall does."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    address = listener.getsockname()
    waiting = []
    for _ in range(4):
        sock = socket.socket()
        sock.setblocking(False)
        sock.connect_ex(address)
        waiting.append(sock)
    lab.add_host("s", address[1], "dev", " ConnectTimeout 1")
    error = refused(lab, "s")
    for sock in [listener, *waiting]:
        sock.close()
    assert error.reason == "timeout" and "1 s" in str(error)


def test_a_server_that_accepts_and_says_nothing(lab: Lab) -> None:
    over = threading.Event()
    with Echo(lambda sock: over.wait(60)) as silent:  # type: ignore[arg-type,return-value]
        lab.add_host("s", silent.port, "dev", " ConnectTimeout 1")
        error = refused(lab, "s")
        over.set()
    assert error.reason == "timeout" and "said nothing" in str(error)


def test_a_server_that_closes_at_once(lab: Lab) -> None:
    with Echo(lambda sock: None) as rude:
        lab.add_host("s", rude.port, "dev")
        error = refused(lab, "s")
    assert error.reason == "closed" and "without a word" in str(error)


def test_what_listens_is_no_ssh_server(lab: Lab) -> None:
    with Echo(lambda sock: sock.sendall(b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n")) as web:
        lab.add_host("s", web.port, "dev")
        error = refused(lab, "s")
    assert error.reason == "not-ssh" and "HTTP/1.1 400" in str(error.evidence)


def test_a_server_that_hangs_up_after_its_banner(lab: Lab) -> None:
    with Echo(lambda sock: sock.sendall(b"SSH-2.0-Odd_1.0\r\n")) as odd:
        lab.add_host("s", odd.port, "dev")
        error = refused(lab, "s")
    assert error.reason in ("closed", "protocol") and "SSH-2.0-Odd_1.0" in str(error.evidence)


def test_no_common_cipher(lab: Lab) -> None:
    lab.server("s", ["Ciphers chacha20-poly1305@openssh.com"])
    error = refused(lab, "s")
    assert error.reason == "protocol" and "OpenSSH" in str(error.evidence)


# Host keys.


def test_an_unknown_host_key_is_refused_when_nobody_can_be_asked(lab: Lab) -> None:
    server = lab.server("s", known=False)
    error = refused(lab, "s")
    assert error.reason == "host-key-unknown"
    assert fingerprint(server.host_key("ed25519")) in str(error.evidence)
    assert any("--accept-new" in hint for hint in error.hints)
    assert lab.known_hosts.read_text("utf-8") == ""


def test_accept_new_stores_the_key_and_keeps_what_was_there(lab: Lab) -> None:
    server = lab.server("s", known=False)
    lab.known_hosts.write_text("# mine\nother ssh-ed25519 AAAA\n|1|broken", "utf-8")
    lab.connect("s", accept_new=True).close()
    assert lab.known_hosts.read_text("utf-8") == (
        "# mine\nother ssh-ed25519 AAAA\n|1|broken\n" + server.known_hosts_line()
    )
    lab.connect("s").close()


def test_a_changed_host_key_is_refused_with_both_fingerprints(lab: Lab) -> None:
    server = lab.server("s", known=False)
    other = make_key(lab.folder / "other")
    lab.known_hosts.write_text(f"# one\n[127.0.0.1]:{server.port} {public(other)}\n", "utf-8")
    error = refused(lab, "s", accept_new=True)
    assert error.reason == "host-key-changed"
    for text in (
        fingerprint(other),
        fingerprint(server.host_key("ed25519")),
        f"{lab.known_hosts}:2",
    ):
        assert text in str(error.evidence)
    assert any("ssh-keygen -f" in hint and f"'[127.0.0.1]:{server.port}'" in hint for hint in error.hints)
    assert not any("StrictHostKeyChecking" in hint for hint in error.hints)


@pytest.mark.parametrize("kind", ["ed25519", "ecdsa", "rsa"])
def test_the_server_is_asked_for_the_key_type_that_is_known(lab: Lab, kind: str) -> None:
    server = lab.server("s", known=False, host_keys=("ed25519", "ecdsa", "rsa"))
    lab.known_hosts.write_text(server.known_hosts_line(kind), "utf-8")
    link = lab.connect("s")
    assert fingerprint(server.host_key(kind)) in link.status().hops[0].host_key


def test_a_revoked_host_key(lab: Lab) -> None:
    server = lab.server("s")
    with lab.known_hosts.open("a", encoding="utf-8") as file:
        file.write(f"@revoked * {public(server.host_key('ed25519'))}\n")
    assert refused(lab, "s").reason == "host-key-revoked"


# Forwards that the server does not grant.


def denied(link: Link, port: int = 0, bind: str = "127.0.0.1") -> TunnelError:
    with pytest.raises(TunnelError) as caught:
        link.remote_forward(("127.0.0.1", 9), port=port, bind=bind)
    assert link.alive
    return caught.value


@pytest.mark.parametrize("value", ["no", "local"])
def test_allow_tcp_forwarding(lab: Lab, value: str) -> None:
    lab.server("s", [f"AllowTcpForwarding {value}"])
    link = lab.connect("s")
    error = denied(link)
    assert error.reason == "forward-denied" and f"AllowTcpForwarding {value}" in str(error.evidence)


def test_permit_listen(lab: Lab) -> None:
    probe = socket.create_server(("127.0.0.1", 0))
    allowed = probe.getsockname()[1]
    probe.close()
    lab.server("s", [f"PermitListen 127.0.0.1:{allowed}"])
    link = lab.connect("s")
    error = denied(link, allowed + 1 if allowed < 65535 else allowed - 1)
    assert error.reason == "forward-denied" and "PermitListen" in str(error.evidence)
    with Echo() as target:
        link.remote_forward(target.address, port=allowed)
        assert ask(allowed) == b"hello"


def _outer_address() -> str:
    done = subprocess.run(["hostname", "-I"], capture_output=True, text=True, check=True)
    return next((word for word in done.stdout.split() if "." in word), "")


@pytest.mark.skipif(not _outer_address(), reason="this machine has no address but loopback")
def test_gateway_ports(lab: Lab, capsys: pytest.CaptureFixture[str]) -> None:
    """sshd grants a port on all addresses, and opens it on loopback."""
    lab.server("s")
    error = denied(lab.connect("s"), bind="0.0.0.0")
    assert error.reason == "forward-denied" and "GatewayPorts no" in str(error.evidence)
    lab.server("open", ["GatewayPorts clientspecified"])
    with Echo() as target:
        forward = lab.connect("open").remote_forward(target.address, bind="0.0.0.0")
        assert forward.status().total_connections == 0
        with socket.create_connection((_outer_address(), forward.port), timeout=30) as sock:
            sock.sendall(b"from outside")
            sock.shutdown(socket.SHUT_WR)
            assert sock.recv(100) == b"from outside"
    assert "a shell on the phone" in capsys.readouterr().err


def test_a_remote_port_in_use(lab: Lab) -> None:
    lab.server("s")
    with Echo() as holder:
        error = denied(lab.connect("s"), holder.port)
    assert error.reason == "address-in-use" and str(holder.port) in str(error)


def test_permit_open_closes_the_client_and_says_why(lab: Lab) -> None:
    lab.server("s", ["PermitOpen 127.0.0.1:1"])
    forward = lab.connect("s").local_forward(("127.0.0.1", 9))
    assert ask(forward.port) == b""
    wait_for(lambda: forward.status().last_error, "the reason")
    assert "PermitOpen" in str(forward.status().last_error)


# Links that break.


def test_a_killed_server_is_noticed_and_its_listeners_are_closed(lab: Lab) -> None:
    server = lab.server("s")
    link = lab.connect("s")
    with Echo() as target:
        local = link.local_forward(target.address)
        remote = link.remote_forward(target.address)
        assert ask(local.port) == ask(remote.port) == b"hello"
        server.signal_sessions(signal.SIGKILL)
        assert link.wait(30)
        assert link.failure is not None and link.failure.reason == "lost" and not link.alive
        wait_for(lambda: not _accepts(local.port), "the local listener's end")
        wait_for(lambda: not _accepts(remote.port), "the remote listener's end")
        with pytest.raises(TunnelError) as caught:
            link.remote_forward(target.address)
        assert caught.value.reason == "lost"
        assert link.status().failure == link.failure.what


def test_a_silent_server_is_noticed_by_the_keepalive(lab: Lab) -> None:
    server = lab.server("s")
    link = lab.connect("s", keepalive_s=0.3, keepalive_count=2)
    with Echo() as target:
        forward = link.local_forward(target.address)
        client = socket.create_connection(("127.0.0.1", forward.port))
        server.signal_sessions(signal.SIGSTOP)
        # More than every buffer on the way takes, so that a writer is stuck as well.
        flood = threading.Thread(target=_pour, args=(client,), daemon=True)
        flood.start()
        assert link.wait(60)
        assert link.failure is not None and "not even answers" in link.failure.what
        flood.join(30)
        assert not flood.is_alive() and not _accepts(forward.port)
        client.close()
    started = time.monotonic()
    link.close()
    assert time.monotonic() - started < 5


def test_latency_is_reported(lab: Lab) -> None:
    lab.server("s")
    link = lab.connect("s", keepalive_s=0.1)
    wait_for(lambda: link.status().hops[0].latency_ms, "a first ping")
    assert 0 < link.ping()[0] < 30_000


def test_nothing_is_left_of_a_link_that_could_not_be_made(lab: Lab) -> None:
    lab.server("s", known=False)
    refused(lab, "s")
    threads = threading.active_count()
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(5):
        refused(lab, "s")
    wait_for(lambda: threading.active_count() <= threads, "threads as before")
    assert len(os.listdir("/proc/self/fd")) <= descriptors


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=10).close()
    except OSError:
        return False
    return True


def _pour(sock: socket.socket) -> None:
    try:
        while True:
            sock.sendall(b"x" * 65536)
    except OSError:
        pass
