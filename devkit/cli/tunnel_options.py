"""What the commands of `devkit tunnel` that log in somewhere take alike."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.tunnels.model import Prompts

Host = Annotated[
    str | None,
    typer.Argument(metavar="[HOST]", help="The server, as ssh takes it; without: the one of last time."),
]
AcceptNew = Annotated[
    bool, typer.Option("--accept-new", help="Store unknown host keys without asking; never changed ones.")
]
SshConfig = Annotated[
    Path | None, typer.Option("-F", "--ssh-config", metavar="FILE", help="Read instead of ~/.ssh/config.")
]
Serial = Annotated[str | None, typer.Option("-s", "--serial", metavar="SERIAL", help="Which phone.")]


def which_host(config: Config, host: str | None) -> str:
    """The server: as given, else the one of last time.

    Raises:
        UsageError: there was none.
    """
    found = host or config.tunnel.host
    if not found:
        raise UsageError(
            "which server? none was used before", hints=["devkit tunnel up HOST (as in `ssh HOST`)"]
        )
    return found


def which_phone(serial: str | None) -> tuple[str | None, str | None]:
    """The adb server and serial that `-s` means; a virtual phone has a server of its own."""
    from devkit.device import known_servers

    for server in known_servers():
        if server.origin == "sim" and serial in (server.name, server.label):
            return server.address, None
    return None, serial


def prompts() -> Prompts:
    """Whoever can be asked: the person at the terminal, nobody with --json."""
    from devkit.tunnels.model import NoPrompts
    from devkit.tunnels.prompts import terminal_prompts

    return NoPrompts() if output.current().json_mode else terminal_prompts()
