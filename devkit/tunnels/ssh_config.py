"""What the user's ssh configuration says about a host."""

from __future__ import annotations

from pathlib import Path

from devkit.tunnels.model import HostPlan


def resolve(host: str, *, config_file: Path | None = None) -> HostPlan:
    """How `ssh host` would reach a machine, its jump hosts not looked into.

    Args:
        host: an alias, or [user@]host[:port], or ssh://…
        config_file: read instead of the user's and the system's configuration (as `ssh -F`).

    Raises:
        TunnelError: "config": the configuration cannot be read, or `host` is no host.
    """
    raise NotImplementedError


def resolve_chain(host: str, *, config_file: Path | None = None) -> tuple[HostPlan, ...]:
    """The machines on the way, first jump first, `host` last; each with its own configuration.

    Raises:
        TunnelError: "config": as `resolve`, or the jumps lead in a circle.
    """
    raise NotImplementedError
