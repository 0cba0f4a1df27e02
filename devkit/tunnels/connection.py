"""An SSH connection through any number of hops, with its forwards, until it is closed or breaks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import TunnelError
from devkit.tunnels.forwards import Forward
from devkit.tunnels.model import LOOPBACK, Address, LinkStatus, Prompts, Target


@dataclass(frozen=True)
class RemoteResult:
    """A command that ran on the far machine. `exit_code` is -1 when a signal ended it."""

    exit_code: int
    stdout: bytes
    stderr: bytes


def connect(
    host: str,
    *,
    prompts: Prompts | None = None,
    accept_new: bool = False,
    config_file: Path | None = None,
    progress: Callable[[str], None] | None = None,
) -> Link:
    """Log in to `host` as `ssh host` would, hop by hop.

    Args:
        host: an alias of the ssh configuration, or [user@]host[:port].
        prompts: who is asked for passphrases, passwords and unknown host keys; default: nobody.
        accept_new: unknown host keys are stored without asking; changed ones are refused all the same.
        config_file: read instead of ~/.ssh/config (as `ssh -F`).
        progress: told each step ("jump: logging in as dev").

    Raises:
        TunnelError: a link could not be made; says which one and why.
    """
    raise NotImplementedError


class Link:
    """A login on a far machine. Use as a context manager; made by `connect`."""

    def remote_forward(self, target: Target, *, bind: str = LOOPBACK, port: int = 0) -> Forward:
        """Listen on the far machine (`ssh -R`); its connections are joined to `target` here.

        Args:
            bind: the address on the far machine; other than loopback needs its GatewayPorts.
            port: 0: the far machine chooses; see `Forward.port`.

        Raises:
            TunnelError: "forward-denied" (says which sshd option can do that), "address-in-use", "lost".
        """
        raise NotImplementedError

    def local_forward(self, target: Address, *, bind: str = LOOPBACK, port: int = 0) -> Forward:
        """Listen here (`ssh -L`); connections are joined to `target` as seen from the far machine.

        Raises:
            TunnelError: "address-in-use", "lost".
        """
        raise NotImplementedError

    def run(self, command: str, *, stdin: bytes = b"", timeout_s: float = 30.0) -> RemoteResult:
        """Run shell text on the far machine, with its login shell, and collect what it says.

        Raises:
            TunnelError: "lost", "timeout", or the server allows no commands ("protocol").
        """
        raise NotImplementedError

    @property
    def alive(self) -> bool:
        """Whether the connection works, as far as is known."""
        raise NotImplementedError

    @property
    def failure(self) -> TunnelError | None:
        """Why the connection ended by itself; None while it works and after `close`."""
        raise NotImplementedError

    def wait(self, timeout_s: float | None = None) -> bool:
        """Wait for the end of the connection; True when it has ended, False after `timeout_s`."""
        raise NotImplementedError

    def status(self) -> LinkStatus:
        """Everything that can be said about the connection now."""
        raise NotImplementedError

    def ping(self, timeout_s: float = 10.0) -> Sequence[float]:
        """Round trips to each hop now, in milliseconds.

        Raises:
            TunnelError: "timeout" or "lost"; `link` names the first hop that did not answer.
        """
        raise NotImplementedError

    def close(self) -> None:
        """End all forwards and the connection; returns when their threads are gone (at most 5 s)."""
        raise NotImplementedError

    def __enter__(self) -> Link:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()
