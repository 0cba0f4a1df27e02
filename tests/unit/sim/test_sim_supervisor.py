from __future__ import annotations

import contextlib
import errno
import socket
import threading
from collections.abc import Iterator

import pytest

from devkit.errors import SimError
from devkit.sim import adbserver, refusals, supervisor
from devkit.sim.init import SetupFailed


def settings(monkeypatch: pytest.MonkeyPatch, *, container: bool = False, **values: str) -> None:
    monkeypatch.setattr(refusals, "_in_container", lambda: container)
    monkeypatch.setattr(refusals, "_setting", lambda path: values.get(path.rpartition("/")[2], ""))


def explain(step: str, number: int) -> SimError:
    return refusals.explain(SetupFailed(step, number, "evidence"))


def test_each_refusal_names_its_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    settings(monkeypatch)
    error = explain("user namespace", errno.EPERM)
    assert "namespaces are refused" in error.what
    assert "seccomp=unconfined" in error.hints[0]
    settings(monkeypatch, unprivileged_userns_clone="0")
    error = explain("user namespace", errno.EPERM)
    assert error.hints == ("sudo sysctl kernel.unprivileged_userns_clone=1",)
    assert "max_user_namespaces" in explain("user namespace", errno.ENOSPC).hints[0]
    # Ubuntu 24.04: the namespace is made, but without the rights to use it.
    settings(monkeypatch, apparmor_restrict_unprivileged_userns="1", unprivileged_userns_clone="1")
    for step in ("user namespace", "uid map", "file tree"):
        error = explain(step, errno.EACCES)
        assert error.hints == ("sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",)
        assert "kernel.apparmor_restrict_unprivileged_userns = 1" in (error.evidence or "")
    settings(monkeypatch, container=True, apparmor_restrict_unprivileged_userns="1")
    assert len(explain("user namespace", errno.EPERM).hints) == 2
    settings(monkeypatch)
    error = explain("file tree", errno.EPERM)
    assert "mounts are refused" in error.what
    assert "systempaths=unconfined" in error.hints[0]
    assert explain("first program", errno.ENOEXEC).evidence == "first program: evidence"


def test_ports_of_emulators_are_never_used(monkeypatch: pytest.MonkeyPatch) -> None:
    for port in (5555, 5585):
        with pytest.raises(SimError, match="cannot be a virtual phone's"):
            supervisor._bind(port)
    # Also not if the kernel hands one out.
    offered = [5557, 0]

    def create_server(address: tuple[str, int]) -> socket.socket:
        return real((address[0], offered.pop(0)))

    real = socket.create_server
    monkeypatch.setattr(socket, "create_server", create_server)
    try:
        listener = supervisor._bind(0)
    except SimError:
        pytest.fail("port 5557 is taken on this machine")
    with listener:
        assert listener.getsockname()[1] not in supervisor.EMULATOR_PORTS
        assert listener.getsockname()[0] == "127.0.0.1"


@pytest.fixture
def fake_server() -> Iterator[tuple[tuple[str, int], list[bytes], list[bytes]]]:
    """Answers each connection with the next answer and notes what was asked; those too many get none."""
    answers: list[bytes] = []
    asked: list[bytes] = []
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except OSError:
                return
            with sock:
                length = sock.recv(4)
                if not length or not answers:
                    continue
                asked.append(sock.recv(int(length, 16)))
                sock.sendall(answers.pop(0))

    server = threading.Thread(target=serve)
    server.start()
    yield listener.getsockname(), answers, asked
    # A thread in accept() is woken by a shutdown, not by closing the number below it.
    listener.shutdown(socket.SHUT_RDWR)
    server.join()
    listener.close()


def test_the_small_adb_client(fake_server: tuple[tuple[str, int], list[bytes], list[bytes]]) -> None:
    address, answers, asked = fake_server
    answers += [b"OKAY00040029", b"FAIL0005nope!", b"HTTP/1.1 400", b"OKAY", b"OKAYzzzz"]
    assert adbserver.request(address, "host:version") == "0029"
    with pytest.raises(adbserver.AdbRefused, match="nope!"):
        adbserver.request(address, "host:x")
    with pytest.raises(adbserver.AdbRefused, match="HTTP"):
        adbserver.request(address, "host:x")
    with pytest.raises(OSError, match="closed the connection"):
        adbserver.request(address, "host:x")
    with pytest.raises(OSError, match="not an adb server"):
        adbserver.request(address, "host:x")
    assert asked[0] == b"host:version"


def test_connect_disconnects_first_and_tells_failures(
    fake_server: tuple[tuple[str, int], list[bytes], list[bytes]],
) -> None:
    address, answers, asked = fake_server
    answers += [b"FAIL0002no", b"OKAY0016connected to 127.0.0.1", b"OKAY0000", b"OKAY0011failed to connect"]
    assert adbserver.connect_device(address, "127.0.0.1:4") is None
    assert asked == [b"host:disconnect:127.0.0.1:4", b"host:connect:127.0.0.1:4"]
    assert adbserver.connect_device(address, "127.0.0.1:4") == "failed to connect"


def test_a_log_that_cannot_be_written_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    full = open("/dev/full", "w")
    monkeypatch.setattr("sys.stderr", full)
    supervisor._log("said into a full disk")  # raises nothing: the starter is still to be answered
    monkeypatch.undo()
    # What could not be written is tried once more.
    with contextlib.suppress(OSError):
        full.close()
