"""A running phone's control socket: one JSON request, one JSON answer, only for its own user."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from devkit.errors import DevkitError, SimError, UsageError
from devkit.sim import state

SOCKET_NAME = "control"
TIMEOUT_S = 60.0
_REQUEST_TIMEOUT_S = 5.0
_MAX_BYTES = 1024 * 1024


class ControlServer:
    """The supervisor's end.

    Args:
        folder: the phone's folder; the socket appears in it.
        handle: answers a request; its DevkitError is the client's.
    """

    def __init__(self, folder: Path, handle: Callable[[dict[str, Any]], Any]) -> None:
        self._handle = handle
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            with _short_path(folder) as path:
                self.listener.bind(path)
        finally:
            os.umask(before)
        self.listener.listen(16)

    def serve_one(self) -> None:
        """Serve a client that is waiting. Never raises for what it does."""
        try:
            client, _ = self.listener.accept()
        except OSError:
            return
        with client:
            client.settimeout(_REQUEST_TIMEOUT_S)
            try:
                answer = self._answer(_read_line(client))
                client.sendall(json.dumps(answer).encode() + b"\n")
            except (OSError, ValueError):
                pass

    def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise UsageError("a request is a JSON object")
            return {"answer": self._handle(request)}
        except DevkitError as error:
            return {"error": error.as_dict()}
        except (ValueError, KeyError, TypeError) as error:
            return {"error": SimError("the request makes no sense", evidence=repr(error)).as_dict()}

    def close(self) -> None:
        """No more clients."""
        self.listener.close()


def ask(name: str, request: Mapping[str, Any], *, timeout_s: float = TIMEOUT_S) -> Any:
    """Ask a running phone's supervisor.

    Raises:
        SimError: there is no such phone, it does not answer, or it cannot do it.
        UsageError: the request makes no sense to it.
    """
    state.check_name(name)
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(timeout_s)
            with _short_path(state.phone_dir(name)) as path:
                sock.connect(path)
            sock.sendall(json.dumps(dict(request)).encode() + b"\n")
            answer = json.loads(_read_line(sock))
    except (FileNotFoundError, ConnectionRefusedError):
        raise state.no_such_phone(name) from None
    except (OSError, ValueError) as error:
        raise SimError(
            f"the virtual phone {name} does not answer",
            evidence=str(error),
            hints=[f"devkit sim logs {name}", f"devkit sim stop {name}"],
        ) from None
    failure = answer.get("error")
    if failure is not None:
        kind = UsageError if failure["kind"] == UsageError.__name__ else SimError
        raise kind(
            failure["error"], where=failure["where"], evidence=failure["evidence"], hints=failure["hints"]
        )
    return answer["answer"]


def _read_line(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\n"):
        piece = sock.recv(65536)
        if not piece:
            raise OSError("the connection ended early")
        data += piece
        if len(data) > _MAX_BYTES:
            raise OSError("the message is too long")
    return data


@contextlib.contextmanager
def _short_path(folder: Path) -> Iterator[str]:
    """A path to the socket that fits into 108 bytes, however deep the folder is."""
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{fd}/{SOCKET_NAME}"
    finally:
        os.close(fd)
