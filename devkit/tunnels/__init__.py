"""Ways through which bytes reach the phone or another machine."""

from devkit.tunnels.commands import RemoteResult
from devkit.tunnels.connection import Link, connect
from devkit.tunnels.forwards import Forward
from devkit.tunnels.model import (
    ForwardStatus,
    HopStatus,
    HostKeyQuestion,
    HostPlan,
    LinkStatus,
    NoPrompts,
    Prompts,
    Target,
)
from devkit.tunnels.prompts import TerminalPrompts, terminal_prompts
from devkit.tunnels.relay import Relay
from devkit.tunnels.ssh_config import resolve, resolve_chain

__all__ = [
    "Forward",
    "ForwardStatus",
    "HopStatus",
    "HostKeyQuestion",
    "HostPlan",
    "Link",
    "LinkStatus",
    "NoPrompts",
    "Prompts",
    "Relay",
    "RemoteResult",
    "Target",
    "TerminalPrompts",
    "connect",
    "resolve",
    "resolve_chain",
    "terminal_prompts",
]
