"""What only shows after a while: keys renewed under load, ten thousand connections, a hundred at once."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from devkit.tunnels import transport
from tests.e2e.ssh_support import Echo, Lab, ask, lab_in, wait_for


@pytest.fixture
def lab(tmp_path: Path) -> Iterator[Lab]:
    with lab_in(tmp_path) as lab:
        yield lab


@pytest.mark.parametrize("who", ["server", "client"])
def test_keys_are_renewed_under_load(lab: Lab, who: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Channels close while keys are agreed on: paramiko's thread would wait for itself there."""
    if who == "client":
        monkeypatch.setattr(transport._Packetizer, "REKEY_BYTES", 500_000)
    lab.server("s", ["RekeyLimit 500K"] if who == "server" else [])
    link = lab.connect("s")
    renewed = [0]
    original = transport.Transport._new_keys

    def count(self: transport.Transport, message: object) -> None:
        renewed[0] += 1
        original(self, message)  # type: ignore[arg-type]

    link._transport._handler_table[21] = lambda message: count(link._transport, message)
    data = os.urandom(150_000)
    with Echo() as target, ThreadPoolExecutor(8) as pool:
        ports = [link.remote_forward(target.address).port, link.local_forward(target.address).port]
        answers = list(pool.map(lambda n: ask(ports[n % 2], data), range(120)))
    assert all(answer == data for answer in answers)
    assert link.alive and renewed[0] >= 10


def test_a_hundred_connections_at_once(lab: Lab) -> None:
    lab.server("s")
    link = lab.connect("s")
    data = os.urandom(60_000)
    with Echo() as target, ThreadPoolExecutor(100) as pool:
        for forward in (link.remote_forward(target.address), link.local_forward(target.address)):
            answers = list(pool.map(lambda _n, port=forward.port: ask(port, data), range(300)))  # type: ignore[misc]
            assert all(answer == data for answer in answers)
            wait_for(lambda f=forward: f.status().open_connections == 0, "their end")  # type: ignore[misc]


@pytest.mark.slow
def test_ten_thousand_connections_leave_nothing(lab: Lab) -> None:
    lab.server("s")
    link = lab.connect("s")
    with Echo(lambda sock: sock.sendall(b"ok")) as target:
        remote = link.remote_forward(target.address)
        local = link.local_forward(target.address)
        ports = (remote.port, local.port)

        def burst(count: int) -> None:
            for number in range(count):
                with socket.create_connection(("127.0.0.1", ports[number % 2]), timeout=60) as sock:
                    assert sock.recv(10) == b"ok"

        burst(100)
        threads, descriptors = threading.active_count(), len(os.listdir("/proc/self/fd"))
        before_kb = _resident_kb()
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(burst, [2500] * 4))
        wait_for(lambda: remote.status().open_connections + local.status().open_connections == 0, "their end")
        wait_for(lambda: threading.active_count() <= threads, "threads as before")
        wait_for(lambda: len(os.listdir("/proc/self/fd")) <= descriptors, "descriptors as before")
        # A leak of even one small buffer a connection would be more.
        assert _resident_kb() - before_kb < 20_000
        assert not link._transport._streams and not link._transport.channels_seen


def test_a_process_with_an_open_link_ends(lab: Lab) -> None:
    """No thread of ours or of paramiko's keeps it alive."""
    lab.server("s")
    code = (
        "import sys; from pathlib import Path; from devkit.tunnels import connect\n"
        "link = connect('s', config_file=Path(sys.argv[1]))\n"
        "print(link.remote_forward(('127.0.0.1', 9)).port, flush=True)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(lab.config)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.strip().isdigit() and done.stderr == ""


def test_a_killed_process_frees_the_remote_port(lab: Lab) -> None:
    lab.server("s")
    code = (
        "import sys, time; from pathlib import Path; from devkit.tunnels import connect\n"
        "link = connect('s', config_file=Path(sys.argv[1]))\n"
        "print(link.remote_forward(('127.0.0.1', 9)).port, flush=True)\ntime.sleep(600)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(lab.config)], stdout=subprocess.PIPE)
    assert process.stdout is not None
    port = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    link = lab.connect("s")
    with Echo() as target:
        wait_for(lambda: _free(port), "the port")
        assert link.remote_forward(target.address, port=port).port == port


def _free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _resident_kb() -> int:
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1])
    raise AssertionError("no VmRSS")
