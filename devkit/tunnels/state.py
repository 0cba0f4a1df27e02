"""The state of tunnels of this user on this machine: files that `status` and `down` read."""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit import paths, process

# Links, first to last: the logins hop by hop, then the port, the adb server, the phone.
UP, CONNECTING, DOWN, WAITING = "up", "connecting", "down", "waiting"


@dataclass
class LinkState:
    """One link of a running tunnel.

    Attributes:
        id: "ssh:HOST", "port", "adb", "phone:SERIAL", "forward:PORT".
        machine: where it ends: "laptop", "server", "phone" or the name of a jump host.
        state: UP, CONNECTING, DOWN, or WAITING (for a link before it, or for
            a program on the phone to listen).
        since: when it came into this state, seconds since the epoch.
        latency_ms: round trip from here to its end, None when not measured.
        reconnects: how often it has come back.
        last_error: why it was down last, also when it is up again.
    """

    id: str
    title: str
    machine: str
    state: str = WAITING
    evidence: str = ""
    since: float = field(default_factory=time.time)
    latency_ms: float | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    reconnects: int = 0
    last_error: str | None = None
    # No field: nobody else wants to know.
    _has_been_up = False

    def turn(self, state: str, evidence: str = "", *, error: str | None = None) -> bool:
        """Change the state; whether it did."""
        changed = state != self.state
        if changed:
            if state == UP and self._has_been_up and self.last_error is not None:
                self.reconnects += 1
            self.since = time.time()
        self.state, self.evidence = state, evidence or self.evidence
        self._has_been_up = self._has_been_up or state == UP
        if error is not None:
            self.last_error = error
        return changed


@dataclass(frozen=True)
class TunnelRecord:
    """What a tunnel's file says.

    `pid` is the process that keeps it up, `token` its own random word, `spec` what was asked for,
    `state` UP, CONNECTING or DOWN as a whole, `port` the adb port on the server (None while down),
    `direct` the way without jump hosts that was found at its start (`DirectWay.as_dict`).
    """

    name: str
    pid: int
    token: str
    started: float
    state: str
    spec: Mapping[str, Any]
    links: tuple[Mapping[str, Any], ...]
    port: int | None
    reconnects: int
    last_error: str | None
    log: str | None
    direct: Mapping[str, Any] | None = None

    @property
    def alive(self) -> bool:
        """Whether its process lives."""
        return process.is_alive(self.pid)

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        data = {**self.__dict__, "links": [dict(link) for link in self.links], "alive": self.alive}
        data.pop("token")
        return data


def folder() -> Path:
    """Where the files are."""
    return paths.state_dir() / "tunnels"


def log_file(name: str) -> Path:
    """Where a detached tunnel writes what happens."""
    return folder() / f"{name}.log"


def save(record: TunnelRecord) -> None:
    """Write a tunnel's file."""
    data = {**record.__dict__, "links": [dict(link) for link in record.links]}
    paths.write_atomically(_file(record.name), json.dumps(data, indent=1) + "\n", mode=0o600)


def load(name: str) -> TunnelRecord | None:
    """A tunnel's file, None when there is none or it is no such file."""
    try:
        data = json.loads(_file(name).read_text("utf-8"))
        return TunnelRecord(**{**data, "links": tuple(data["links"])})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def load_all() -> list[TunnelRecord]:
    """All tunnels of this user, by name; also those whose process died, until `remove`."""
    return [record for file in sorted(folder().glob("*.json")) if (record := load(file.stem)) is not None]


def remove(name: str) -> None:
    """Take a tunnel's files away (its log stays)."""
    for file in (_file(name), _stop_file(name)):
        with contextlib.suppress(OSError):
            file.unlink()


def ask_to_stop(record: TunnelRecord) -> None:
    """Tell a tunnel's process to end; the same on all systems (Windows has no SIGTERM)."""
    paths.write_atomically(_stop_file(record.name), record.token, mode=0o600)


def is_asked_to_stop(name: str, token: str) -> bool:
    """Whether the process with that token shall end."""
    try:
        return _stop_file(name).read_text("utf-8") == token
    except OSError:
        return False


def _file(name: str) -> Path:
    return folder() / f"{name}.json"


def _stop_file(name: str) -> Path:
    return folder() / f"{name}.stop"
