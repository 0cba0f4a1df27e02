"""Machines with an adb of their own, as far as a phone can tell: their own server, keys and settings."""

from __future__ import annotations

import os
import queue
import socket
import subprocess
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.e2e.support import WHEEL_ADB, eventually

DEBIAN_ADB = Path("/usr/lib/android-sdk/platform-tools/adb")
_CLEAN = {
    name: value for name, value in os.environ.items() if not name.startswith(("ADB_", "ANDROID_SERIAL"))
}


class AdbHost:
    """A private adb server with keys in `home`; ends with the block.

    Args:
        adb: the adb program, client and server.
        home: its ANDROID_USER_HOME.
        environment: more variables for the server.
    """

    def __init__(
        self, home: Path, *, adb: Path = WHEEL_ADB, environment: Mapping[str, str] | None = None
    ) -> None:
        home.mkdir(parents=True, exist_ok=True)
        self.adb = adb
        self.home = home
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self._environment = {
            **_CLEAN,
            "HOME": str(home),
            "ANDROID_USER_HOME": str(home),
            "ADB_USB": "0",
            "ADB_MDNS": "0",
            "ADB_EMU": "0",
            **(environment or {}),
        }
        self._server = subprocess.Popen(
            [adb, "-L", f"tcp:localhost:{self.port}", "server", "nodaemon"],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(home / "server.log").open("ab"),
        )
        assert eventually(self._answers, 10), (home / "server.log").read_text()

    def __call__(
        self, *arguments: str | Path, stdin: bytes | None = None, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        """Run the client."""
        source: dict[str, object] = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(
            [self.adb, "-H", "127.0.0.1", "-P", str(self.port), *map(str, arguments)],
            env=self._environment,
            capture_output=True,
            timeout=timeout_s,
            check=False,
            **source,  # type: ignore[call-overload]
        )

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start the client."""
        return subprocess.Popen(
            [self.adb, "-H", "127.0.0.1", "-P", str(self.port), *arguments],
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )

    def state(self, serial: str) -> str:
        """What `adb devices` says of a phone, "" when it is not listed."""
        for line in self("devices").stdout.decode().splitlines()[1:]:
            if line.startswith(serial + "\t"):
                return line.split("\t")[1]
        return ""

    def becomes(self, serial: str, state: str, within_s: float = 10.0) -> bool:
        """Whether a phone comes into a state in time."""
        return eventually(lambda: self.state(serial) == state, within_s)

    def public_key(self) -> str:
        """Its key as a phone is shown it, without the comment."""
        return self("pubkey", next(self.home.rglob("adbkey"))).stdout.decode().split()[0]

    def __enter__(self) -> AdbHost:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.kill()
        self._server.wait()

    def _answers(self) -> bool:
        assert self._server.poll() is None
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
        except OSError:
            return False
        return True


class DelayProxy:
    """A TCP proxy on 127.0.0.1 that holds everything back for a while, in both directions."""

    def __init__(self, target: int, delay_s: float) -> None:
        self._target = target
        self._delay_s = delay_s
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Accept no more; connections end with their ends."""
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target))
            for source, sink in ((near, far), (far, near)):
                source.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pump(source, sink)

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        pieces: queue.Queue[tuple[float, bytes]] = queue.Queue()

        def read() -> None:
            data = b"x"
            while data:
                try:
                    data = source.recv(1 << 20)
                except OSError:
                    data = b""
                pieces.put((time.monotonic() + self._delay_s, data))

        def write() -> None:
            while True:
                due, data = pieces.get()
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    if not data:
                        sink.shutdown(socket.SHUT_WR)
                        return
                    sink.sendall(data)
                except OSError:
                    return

        for body in (read, write):
            threading.Thread(target=body, daemon=True).start()
