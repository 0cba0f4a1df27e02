"""What the rest of devkit says to the SSH links and hears from them: plain data, no I/O, no paramiko."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

LOOPBACK = "127.0.0.1"

Address = tuple[str, int]
# What a forward's connections are joined to: a TCP address, or something that dials. A dialler is
# called once a connection, in a thread of its own; it returns a connected stream socket that then
# belongs to the forward, or raises OSError or DevkitError, which closes the client's connection.
Dialler = Callable[[], socket.socket]
Target = Address | Dialler
# Judges what a forward's client has sent first, before any of it goes on: None: more is needed, b"": let
# the connection through, else what to answer before it is closed.
Screen = Callable[[bytes], bytes | None]


@dataclass(frozen=True)
class HostPlan:
    """How one machine is reached, as the user's ssh configuration says.

    Attributes:
        alias: the name that was asked for; `hostname` is what it stands for.
        identity_files: private keys (or .pub files whose private part is in the agent), in order,
            tokens and ~ expanded; files that do not exist are kept, as OpenSSH does.
        identity_agent: the agent's socket (or Windows pipe), None: no agent is asked.
        jumps: ProxyJump as written ("user@host:port" each), first hop first.
        proxy_command: shell text with its tokens expanded, run instead of a TCP connection.
        strict: StrictHostKeyChecking: "yes", "ask", "accept-new" or "no".
        connect_timeout_s: ConnectTimeout, None: devkit's own.
        keepalive_s: ServerAliveInterval, None: devkit's own.
        keepalive_count: ServerAliveCountMax.
        auth_methods: PreferredAuthentications without those switched off, in order.
        source: which reader made it: "ssh -G" or "devkit".
    """

    alias: str
    hostname: str
    port: int
    user: str
    identity_files: tuple[Path, ...] = ()
    certificate_files: tuple[Path, ...] = ()
    identities_only: bool = False
    identity_agent: str | None = None
    jumps: tuple[str, ...] = ()
    proxy_command: str | None = None
    user_known_hosts: tuple[Path, ...] = ()
    global_known_hosts: tuple[Path, ...] = ()
    host_key_alias: str | None = None
    hash_known_hosts: bool = False
    strict: str = "ask"
    connect_timeout_s: float | None = None
    keepalive_s: float | None = None
    keepalive_count: int = 3
    auth_methods: tuple[str, ...] = ("publickey", "keyboard-interactive", "password")
    source: str = "devkit"

    @property
    def login(self) -> str:
        """user@host:port, for messages. The port is left out when it is 22."""
        host = f"[{self.hostname}]" if ":" in self.hostname else self.hostname
        return f"{self.user}@{host}" + ("" if self.port == 22 else f":{self.port}")


@dataclass(frozen=True)
class HostKeyQuestion:
    """A host key nobody has seen before: what a person has to decide on.

    Attributes:
        known_as: the name it would be stored under: `host` or `[host]:port`.
        fingerprint: "SHA256:…", as `ssh-keygen -lf` on that machine prints it.
        file: the known_hosts file it would be added to.
    """

    host: str
    known_as: str
    key_type: str
    fingerprint: str
    file: Path


class Prompts(Protocol):
    """Whoever can be asked. None means: not answered. Answers are never stored, logged or shown."""

    def passphrase(self, key: Path, attempt: int) -> str | None:
        """The passphrase of an encrypted key file; `attempt` counts from 1."""

    def password(self, login: str, attempt: int) -> str | None:
        """The password of user@host."""

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """One answer for each (question, whether it may be echoed) of keyboard-interactive."""

    def trust(self, question: HostKeyQuestion) -> bool:
        """Whether this unknown host key is right."""


class NoPrompts:
    """Nobody is there to be asked: scripts, --json, a detached tunnel that reconnects."""

    def passphrase(self, key: Path, attempt: int) -> str | None:
        """Nobody knows it."""
        return None

    def password(self, login: str, attempt: int) -> str | None:
        """Nobody knows it."""
        return None

    def answers(
        self, login: str, title: str, instructions: str, questions: Sequence[tuple[str, bool]]
    ) -> list[str] | None:
        """Nobody answers."""
        return None

    def trust(self, question: HostKeyQuestion) -> bool:
        """Unknown keys are refused."""
        return False


@dataclass(frozen=True)
class HopStatus:
    """One machine of the chain, as it is now.

    Attributes:
        name: the alias the user wrote.
        latency_ms: round trip of the last keepalive, from this machine to that one, measured
            through the SSH connection (so behind whatever is queued in it); None before the first.
        cipher: the negotiated cipher.
        auth: how the login went through: "publickey ~/.ssh/id_ed25519", "agent …", "password".
        host_key: "ssh-ed25519 SHA256:…".
        banner: the server's version line.
    """

    name: str
    login: str
    latency_ms: float | None
    cipher: str
    auth: str
    host_key: str
    banner: str


@dataclass(frozen=True)
class ForwardStatus:
    """One forward, as it is now. Bytes are counted as users of the tunnel see them, unencrypted.

    Attributes:
        kind: "remote" (-R, listens on the far machine) or "local" (-L, listens here).
        bytes_out: sent from this machine into the SSH connection.
        bytes_in: received from it.
        last_error: why the last connection that failed did, or None.
    """

    kind: str
    bind: str
    port: int
    target: str
    open_connections: int = 0
    total_connections: int = 0
    bytes_out: int = 0
    bytes_in: int = 0
    last_error: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """As `--json` prints it."""
        return dict(self.__dict__)


@dataclass(frozen=True)
class LinkStatus:
    """A whole connection: its hops, its forwards, and since when (seconds since the epoch)."""

    route: tuple[str, ...]
    alive: bool
    up_since: float
    hops: tuple[HopStatus, ...] = ()
    forwards: tuple[ForwardStatus, ...] = field(default=())
    failure: str | None = None
