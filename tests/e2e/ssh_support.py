"""What the SSH tests share: a server the current user can log in on, and a configuration that leads there."""

from __future__ import annotations

import contextlib
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from devkit.tunnels import Link, connect
from tests.support.sshd import HOST_KEY_TYPES, Sshd, make_key

WAIT_S = 60.0


class Lab:
    """A folder with a key and an ssh configuration; servers are added to it.

    Its name has a blank and letters outside ASCII in it, as a user's may.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "das Labor ü"
        self.folder.mkdir(parents=True)
        self.key = make_key(self.folder / "id")
        self.config = self.folder / "config"
        self.known_hosts = self.folder / "known hosts"
        self.known_hosts.touch()
        self._stack = contextlib.ExitStack()
        self._head = (
            f'UserKnownHostsFile "{self.known_hosts}"\nGlobalKnownHostsFile none\nIdentityAgent none\n'
        )
        self._hosts: list[str] = []

    def server(
        self,
        name: str,
        options: Sequence[str] = (),
        *,
        config: str = "",
        known: bool = True,
        uid: int | None = None,
        host_keys: Sequence[str] = HOST_KEY_TYPES,
    ) -> Sshd:
        """Start a server and add it to the configuration under `name`."""
        # sshd's own configuration cannot name a path with a blank for its keys.
        folder = self.folder.parent / f"sshd-{name}"
        if uid is not None:  # pytest's folders are closed to other users
            folder = Path(tempfile.mkdtemp(prefix="devkit-sshd-"))
            self._stack.callback(shutil.rmtree, folder)
        server = Sshd(folder, options, uid=uid, host_keys=host_keys)
        server.authorize(self.key)
        self._stack.enter_context(server)
        if known:
            with self.known_hosts.open("a", encoding="utf-8") as file:
                file.write(server.known_hosts_line())
        self.add_host(name, server.port, server.user, config)
        return server

    def add_host(self, name: str, port: int, user: str, config: str = "") -> None:
        """A Host of the configuration on 127.0.0.1. What `config` says comes first, so it wins."""
        self._hosts.append(
            f"Host {name}\n{config}\n HostName 127.0.0.1\n Port {port}\n User {user}\n"
            f' IdentityFile "{self.key}"\n IdentitiesOnly yes\n'
        )
        self.config.write_text("".join(self._hosts) + "Host *\n" + self._head, "utf-8")

    def connect(self, name: str, **options: object) -> Link:
        """A link that is closed with the lab."""
        link = connect(name, config_file=self.config, **options)  # type: ignore[arg-type]
        self._stack.callback(link.close)
        return link

    def defer(self, work: Callable[[], object]) -> None:
        """Do something when the lab is closed."""
        self._stack.callback(work)

    def close(self) -> None:
        """End all of it."""
        self._stack.close()


class Echo:
    """A TCP server that does `serve(sock)` for each client in a thread."""

    def __init__(self, serve: Callable[[socket.socket], None] | None = None, *, port: int = 0) -> None:
        self._serve = serve or echo
        self.listener = socket.create_server(("127.0.0.1", port), backlog=256)
        self.port: int = self.listener.getsockname()[1]
        self.served = 0
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        """Where it listens."""
        return ("127.0.0.1", self.port)

    def close(self) -> None:
        """Stop listening."""
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def __enter__(self) -> Echo:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                sock, _ = self.listener.accept()
                self.served += 1
                threading.Thread(target=self._one, args=(sock,), daemon=True).start()

    def _one(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError), sock:
            self._serve(sock)


def echo(sock: socket.socket) -> None:
    """Send everything back, then end."""
    while data := sock.recv(65536):
        sock.sendall(data)
    sock.shutdown(socket.SHUT_WR)


def read_all(sock: socket.socket) -> bytes:
    """Everything up to the end."""
    sock.settimeout(WAIT_S)
    parts = []
    # A reset is an end, too: it is what a close is when something sent was not read.
    with contextlib.suppress(ConnectionResetError):
        while data := sock.recv(262144):
            parts.append(data)
    return b"".join(parts)


def ask(port: int, data: bytes = b"hello") -> bytes:
    """Send, half-close, and read all of the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=WAIT_S) as sock:
        writer = threading.Thread(target=_send_and_end, args=(sock, data), daemon=True)
        writer.start()
        answer = read_all(sock)
        writer.join(WAIT_S)
        return answer


def wait_for(condition: Callable[[], object], what: str) -> None:
    """Until it holds; fails after a generous time."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(0.02)


@contextlib.contextmanager
def lab_in(folder: Path) -> Iterator[Lab]:
    """A lab for a with statement."""
    lab = Lab(folder)
    try:
        yield lab
    finally:
        lab.close()


def _send_and_end(sock: socket.socket, data: bytes) -> None:
    with contextlib.suppress(OSError):
        sock.sendall(data)
        sock.shutdown(socket.SHUT_WR)
