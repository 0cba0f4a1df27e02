"""A command on the far machine: input in, output, errors and exit code out."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paramiko.channel import Channel


@dataclass(frozen=True)
class RemoteResult:
    """A command that ran on the far machine. `exit_code` is -1 when a signal ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def collect(channel: Channel, stdin: bytes, deadline: float) -> RemoteResult:
    """Feed a command that was just started and read all it says; raises TimeoutError after `deadline`."""
    errors: list[bytes] = []

    def read_errors() -> None:
        try:
            while data := channel.recv_stderr(65536):
                errors.append(data)
        except OSError:
            pass

    reader = threading.Thread(target=read_errors, name="devkit ssh stderr", daemon=True)
    reader.start()
    channel.sendall(stdin)
    channel.shutdown_write()
    out = []
    while data := channel.recv(65536):
        out.append(data)
        if time.monotonic() > deadline:
            raise TimeoutError
    if not channel.status_event.wait(max(0.1, deadline - time.monotonic())):
        raise TimeoutError
    reader.join(max(0.1, deadline - time.monotonic()))
    return RemoteResult(channel.exit_status, b"".join(out), b"".join(errors))
