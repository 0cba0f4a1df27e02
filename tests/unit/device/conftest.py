"""A small adb server on a socket: the protocol's other end, scripted by each test."""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devkit.device.phone import Device
from devkit.device.servers import AdbServer

CASES = Path(__file__).parents[2] / "data" / "cases"
Handler = Callable[[socket.socket], None]


class FakeAdbServer:
    """Speaks the server's side of the smart-socket protocol.

    Attributes:
        answers: host request -> text (OKAY + block), bytes (sent as they are) or Handler.
        services: service name (or the part before its colon) of the phone -> Handler, called after OKAY.
        transport: what selecting a phone answers; bytes.
        requests: all requests, in order.
    """

    def __init__(self) -> None:
        self.answers: dict[str, str | bytes | Handler] = {"host:version": "0029"}
        self.services: dict[str, Handler] = {}
        self.transport = b"OKAY"
        self.requests: list[str] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    @property
    def server(self) -> AdbServer:
        return AdbServer("127.0.0.1", self.port, "test")

    def device(self, features: str = "shell_v2,stat_v2,ls_v2", serial: str = "PHONE1") -> Device:
        self.answers[f"host-serial:{serial}:features"] = features
        return Device(serial, self.server)

    def list(self, text: str) -> None:
        self.answers["host:devices-l"] = text

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in self._open:
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
            sock.close()

    def _accept(self) -> None:
        while True:
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(sock)
            threading.Thread(target=self._serve, args=(sock,), daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError, EOFError), sock:
            while True:
                request = read(sock, int(read(sock, 4), 16)).decode()
                self.requests.append(request)
                if request.startswith("host:transport:"):
                    sock.sendall(self.transport)
                    if self.transport != b"OKAY":
                        return
                    continue
                if request.startswith(("host:", "host-serial:")):
                    answer = self.answers.get(request, fail("unknown host service"))
                    if callable(answer):
                        answer(sock)
                    else:
                        sock.sendall(answer if isinstance(answer, bytes) else b"OKAY" + block(answer))
                    return
                handler = self.services.get(request) or self.services.get(request.partition(":")[0])
                if handler is None:
                    sock.sendall(fail("closed"))
                    return
                sock.sendall(b"OKAY")
                handler(sock)
                return


def read(sock: socket.socket, count: int) -> bytes:
    """Exactly that many bytes."""
    data = b""
    while len(data) < count:
        part = sock.recv(min(65536, count - len(data)))
        if not part:
            raise EOFError
        data += part
    return data


def block(text: str) -> bytes:
    data = text.encode()
    return b"%04x" % len(data) + data


def fail(text: str) -> bytes:
    return b"FAIL" + block(text)


@pytest.fixture
def fake() -> Iterator[FakeAdbServer]:
    server = FakeAdbServer()
    yield server
    server.close()


@pytest.fixture
def make_fake() -> Iterator[Callable[[], FakeAdbServer]]:
    """Several servers."""
    made: list[FakeAdbServer] = []

    def make() -> FakeAdbServer:
        made.append(FakeAdbServer())
        return made[-1]

    yield make
    for server in made:
        server.close()


@pytest.fixture
def case() -> Callable[[str, str], str]:
    """Text of a file of a recorded case: case("D1", "devices.txt"), with its line ends."""

    def load(name: str, file: str) -> str:
        return (CASES / name / file).read_bytes().decode()

    return load


@pytest.fixture
def expected() -> Callable[[str], dict[str, object]]:
    """expected.json of a recorded case."""

    def load(name: str) -> dict[str, object]:
        loaded: dict[str, object] = json.loads((CASES / name / "expected.json").read_bytes())
        return loaded

    return load


@pytest.fixture
def free_port() -> int:
    """A port at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return int(sock.getsockname()[1])
