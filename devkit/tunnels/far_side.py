"""What a tunnel does on the server besides its ports: the entry by which devkit there finds them.

A shell script travels through the connection and lives as long as it: the entry is removed by the
machine on which it stands, also when this one is gone.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import threading
import time
from collections.abc import Sequence
from importlib import resources
from typing import Any, Protocol

from devkit.errors import SERVER, TunnelError

ANSWER_TIMEOUT_S = 15.0
_HELLO_TIMEOUT_S = 20.0
_MAX_TALK_BYTES = 1 << 20


class Stream(Protocol):
    """The script's stdin and stdout: a paramiko channel, or a socket in tests."""

    def sendall(self, data: bytes) -> None:
        """Send everything."""

    def recv(self, count: int) -> bytes:
        """Some bytes; none at the end."""

    def settimeout(self, seconds: float | None) -> None:
        """How long `recv` may wait before it raises TimeoutError."""

    def close(self) -> None:
        """End it."""


def far_side_command(name: str, token: str) -> str:
    """The shell text that starts the script, for any login shell (sh, bash, zsh, fish, csh).

    Nothing in it but letters, blanks and single quotes around a word without quotes or backslashes:
    each of these shells reads that alike.
    """
    script = resources.files("devkit.tunnels").joinpath("far_side.sh").read_text("utf-8")
    coded = base64.b64encode(script.encode()).decode()
    return f"exec sh -c 'eval \"$(printf %s {coded} | base64 -d)\"' devkit-tunnel {name} {token}"


class FarSide:
    """The script at work on the server.

    Raises:
        TunnelError: it does not start there.
    """

    def __init__(self, stream: Stream, *, name: str, token: str) -> None:
        self.name, self.token = name, token
        self._stream = stream
        self._buffer = b""
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self.pid = self._greet()

    def register(self, port: int, serials: Sequence[str], *, host: str = "127.0.0.1") -> None:
        """Leave the entry by which devkit on the server finds the adb server at that port there.

        Raises:
            TunnelError: the file cannot be written.
        """
        entry = registry_entry(self.name, port, serials, pid=self.pid, token=self.token, host=host)
        self._do(
            "put", base64.b64encode(entry.encode()).decode(), "the entry of the adb server is not written"
        )

    def forget(self) -> None:
        """Take the entry away: what it names is not there for now."""
        self._do("forget", "", "the entry of the adb server is not removed")

    def retire(self, pid: int) -> None:
        """End what is left of an earlier connection of this tunnel, found by that script's pid."""
        self._do("retire", str(pid), "the earlier connection is not ended")

    def adb_connect(self, address: str) -> str:
        """Have the server's own adb connect to HOST:PORT; adb's answer.

        Raises:
            TunnelError: it does not; judged by what adb says, since its exit code can be 0 then.
        """
        return self._do("adb-connect", address, f"adb on the server does not connect to {address}")

    def adb_state(self, serial: str) -> str:
        """What the server's adb says the phone's state is: "device", "offline", or why it is not known."""
        try:
            return self._do("adb-state", serial, "adb get-state failed")
        except TunnelError as error:
            if error.reason != "refused":
                raise
            return "unauthorized" if "unauthorized" in (error.evidence or "") else error.evidence or "unknown"

    def ping(self) -> float:
        """Milliseconds to the script and back.

        Raises:
            TunnelError: it does not answer.
        """
        started = time.monotonic()
        self._do("ping", "", "the server does not answer")
        return (time.monotonic() - started) * 1000

    def close(self) -> None:
        """Let it tidy up and end."""
        try:
            with self._lock:
                self._stream.settimeout(2.0)
                self._stream.sendall(b"0 leave\n")
                while self._stream.recv(4096):
                    pass
        except (OSError, EOFError):
            pass
        self._stream.close()

    def _do(self, verb: str, word: str, failure: str) -> str:
        with self._lock:
            number = str(next(self._numbers))
            try:
                self._stream.sendall(f"{number} {verb} {word}".rstrip().encode() + b"\n")
                deadline = time.monotonic() + ANSWER_TIMEOUT_S
                while True:
                    words = self._line(deadline).split(" ")
                    if words[0] == number:
                        break
            except OSError as error:
                raise TunnelError(failure, reason="lost", where=SERVER, evidence=_reason(error)) from None
        said = base64.b64decode(words[2] if len(words) > 2 else "").decode("utf-8", "replace").strip()
        if words[1] != "ok":
            raise TunnelError(failure, reason="refused", where=SERVER, evidence=said or "no reason given")
        return said

    def _greet(self) -> int:
        deadline = time.monotonic() + _HELLO_TIMEOUT_S
        talk: list[str] = []
        try:
            while True:
                # Start-up files of the login shell may talk first.
                line = self._line(deadline)
                hello = re.search(rf"devkit-far-side {re.escape(self.token)} (\d+)$", line)
                if hello:
                    return int(hello.group(1))
                talk.append(line)
        except OSError as error:
            raise TunnelError(
                "the server runs no shell script for the tunnel",
                reason="protocol",
                where=SERVER,
                evidence="\n".join([*talk[-5:], _reason(error)]),
                hints=["ssh HOST 'echo hello; command -v base64' must print hello and a path, nothing else"],
            ) from None

    def _line(self, deadline: float) -> str:
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError("no answer in time")
            self._stream.settimeout(left)
            more = self._stream.recv(4096)
            if not more:
                raise ConnectionError("it ended")
            self._buffer += more
            if len(self._buffer) > _MAX_TALK_BYTES:
                raise ConnectionError("it says too much")
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode("utf-8", "replace").rstrip("\r")


def registry_entry(
    label: str, port: int, serials: Sequence[str], *, pid: int, token: str, host: str = "127.0.0.1"
) -> str:
    """The JSON text of one entry of `paths.adb_server_registry()`."""
    entry: dict[str, Any] = {
        "origin": "tunnel", "label": label, "host": host, "port": port, "serials": list(serials),
        "token": token, "pid": pid, "by": "devkit tunnel",
    }  # fmt: skip
    return json.dumps(entry) + "\n"


def _reason(error: OSError) -> str:
    return str(error) or type(error).__name__
