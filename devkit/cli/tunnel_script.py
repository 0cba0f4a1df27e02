"""`devkit tunnel script`: the tunnel for a laptop without devkit."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output
from devkit.errors import UsageError


def _complete_modes(incomplete: str) -> list[str]:
    from devkit.tunnels.spec import MODES

    return [mode for mode in MODES if mode.startswith(incomplete)]


def script(
    host: Annotated[str, typer.Argument(metavar="HOST", help="The server, as the laptop's ssh knows it.")],
    sh: Annotated[bool, typer.Option("--sh", help="For Linux, macOS, WSL (the default).")] = False,
    powershell: Annotated[bool, typer.Option("--powershell", help="For Windows.")] = False,
    jump: Annotated[
        str | None, typer.Option("-J", "--jump", metavar="HOST[,HOST]", help="Jump hosts, as of ssh -J.")
    ] = None,
    mode: Annotated[
        str,
        typer.Option(
            help="adb-server: all phones of the laptop, no TCP mode; adbd: one phone's own port.",
            autocompletion=_complete_modes,
        ),
    ] = "adb-server",
    port: Annotated[
        int | None, typer.Option(help="On 127.0.0.1 of the server (15037; 30303 with --mode adbd).")
    ] = None,
    serial: Annotated[
        str | None, typer.Option("-s", "--serial", metavar="SERIAL", help="The phone, if there are several.")
    ] = None,
    forward: Annotated[
        list[int] | None,
        typer.Option("--forward", metavar="PORT", help="A port of the phone too, as 31313; repeatable."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What the server calls it (default: the laptop's host name).")
    ] = None,
) -> None:
    """Print the tunnel as a script of plain ssh and adb, for a laptop without devkit."""
    from devkit.tunnels.script import POWERSHELL, SH, ScriptRequest, render

    if sh and powershell:
        raise UsageError("--sh or --powershell, not both", hints=["devkit tunnel script HOST --sh"])
    request = ScriptRequest(host, jump, mode, port, serial, tuple(forward or ()), name)
    language = POWERSHELL if powershell else SH
    text = render(request, language)
    data = {"language": language, "mode": mode, "port": request.server_port, "script": text}
    output.current().data(data, text.rstrip("\n"))
