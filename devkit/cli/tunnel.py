"""`devkit tunnel`: the phone on this laptop, usable on the server."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import tunnel_check, tunnel_script, tunnel_up
from devkit.errors import CheckFailed, DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.tunnels.state import TunnelRecord

app = typer.Typer(
    help="Make the phones of this laptop usable on the server.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit tunnel up build-server; then on the server: devkit device list",
)

_DOWN_TIMEOUT_S = 15.0


def _names(incomplete: str) -> list[str]:
    """For completion: the tunnels of this user."""
    from devkit.tunnels import state

    return [record.name for record in state.load_all() if record.name.startswith(incomplete)]


Name = Annotated[
    str | None,
    typer.Argument(metavar="[NAME]", help="Which tunnel; without: all of them.", autocompletion=_names),
]

app.command(
    epilog="Examples: devkit tunnel up build-server --detach; devkit tunnel up dev@10.0.0.5 --mode adbd "
    "-s R5CT10; devkit tunnel up build-server --forward 31313"
)(tunnel_up.up)
app.command(hidden=True)(tunnel_up.serve)


@app.command()
def down(
    name: Name = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be ended.")] = False,
) -> None:
    """End tunnels and everything they made, here and on the server; nothing else."""
    from devkit.tunnels import state

    records = _records(name)
    sink = output.current()
    if not records:
        sink.note("no tunnel is up")
    ended = []
    for record in records:
        if dry_run:
            sink.note(f"would end {record.name} (pid {record.pid})")
            continue
        if record.alive:
            state.ask_to_stop(record)
            _wait_for_end(record)
        state.remove(record.name)
        ended.append(record.name)
        sink.note(f"the tunnel {record.name} is down")
    if sink.json_mode:
        sink.data({"ended": ended})


@app.command()
def status(name: Name = None) -> None:
    """Show each link of each tunnel: up since, latency, bytes, reconnects, last error.

    Exit code 1 when one of them is not up.
    """
    from devkit.device import known_servers
    from devkit.tunnels.report import describe_arrivals, describe_record

    records = _records(name)
    arrivals = [server for server in known_servers() if server.origin == "tunnel"]
    arrivals = [server for server in arrivals if name is None or server.label == name]
    sink = output.current()
    data = {
        "tunnels": [record.as_dict() for record in records],
        "arriving": [{"name": s.label, "address": s.address, "serials": list(s.serials)} for s in arrivals],
    }
    text = "".join(describe_record(record, sink) for record in records) + describe_arrivals(arrivals)
    sink.data(data, text)
    if not records and not arrivals:
        sink.note("no tunnel is up; devkit tunnel up HOST brings one up (on the laptop)")
    if any(not record.alive or record.state != "up" for record in records):
        raise typer.Exit(CheckFailed.exit_code)


app.command()(tunnel_check.check)


@app.command(epilog='Example: eval "$(devkit tunnel env)"; adb devices')
def env(
    name: Name = None,
    shell: Annotated[
        str | None, typer.Option(metavar="SHELL", help="sh, fish or powershell (default: yours).")
    ] = None,
) -> None:
    """Print the variables with which adb and other tools use the tunnel that arrives at this machine."""
    from devkit.device import known_servers
    from devkit.tunnels.report import render_exports

    arrivals = [server for server in known_servers() if server.origin == "tunnel"]
    wanted = [server for server in arrivals if name in (None, server.label)]
    if len(wanted) != 1:
        listed = ", ".join(str(server.label) for server in arrivals)
        raise UsageError(
            "several tunnels arrive here: say which one"
            if wanted
            else "no such tunnel arrives at this machine",
            evidence=listed or "no tunnel of adb-server mode arrives here",
            hints=[f"devkit tunnel env {wanted[0].label}"]
            if wanted
            else ["devkit tunnel up HOST (on the laptop)"],
        )
    output.current().data(wanted[0].environment, render_exports(wanted[0].environment, shell))


app.command(
    "script",
    epilog="Example: devkit tunnel script user@server --sh > tunnel.sh; on the laptop: sh tunnel.sh",
)(tunnel_script.script)


def _records(name: str | None) -> list[TunnelRecord]:
    from devkit.tunnels import state

    records = state.load_all()
    if name is None:
        return records
    wanted = [record for record in records if record.name == name]
    from devkit.device import known_servers

    arrives = any(server.origin == "tunnel" and server.label == name for server in known_servers())
    if not wanted and not arrives:
        known = ", ".join(record.name for record in records)
        raise UsageError(
            f"no tunnel is called {name}",
            evidence=f"there are: {known or 'none'}",
            hints=["devkit tunnel status"],
        )
    return wanted


def _wait_for_end(record: TunnelRecord) -> None:
    import os
    import signal

    deadline = time.monotonic() + _DOWN_TIMEOUT_S
    while record.alive and time.monotonic() < deadline:
        time.sleep(0.1)
    if record.alive:
        os.kill(record.pid, signal.SIGTERM)
        time.sleep(1)
    if record.alive:
        raise DevkitError(
            f"the tunnel {record.name} does not end",
            evidence=f"pid {record.pid}",
            hints=[f"kill {record.pid}"],
        )
