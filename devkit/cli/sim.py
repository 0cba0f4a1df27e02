"""`devkit sim`: virtual phones."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from devkit import output
from devkit.errors import UsageError

app = typer.Typer(
    help="Start and stop virtual phones.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit sim start; devkit device info; devkit sim stop",
)

DEFAULT_NAME = "phone"


def _complete_names(incomplete: str) -> list[str]:
    from devkit.sim import list_phones

    return [record.name for record in list_phones() if record.name.startswith(incomplete)]


Name = Annotated[str, typer.Argument(help="The phone's name.", autocompletion=_complete_names)]


@app.command("start")
def start(
    name: Name = DEFAULT_NAME,
    model: Annotated[str, typer.Option(help="What it looks like.")] = "generic",
    port: Annotated[int, typer.Option(help="TCP port of its adbd on 127.0.0.1 (0: any free one).")] = 0,
) -> None:
    """Start a virtual phone with an adb server of its own; it runs until `devkit sim stop`."""
    from devkit import config
    from devkit.device import find_private_adb
    from devkit.sim import start_phone

    adb = find_private_adb(config.load().adb.path)
    phone = start_phone(name, model=model, port=port, adb=adb.path)
    record = phone.record
    lines = [
        f"virtual phone {name} is up: serial {record.serial}, adb server {record.adb_host}:{record.adb_port}",
        f"  devkit device info -s sim:{name}",
        f"  adb -H {record.adb_host} -P {record.adb_port} devices    # any other tool",
        f"  devkit sim stop {name}",
    ]
    output.current().data(record.as_dict(), "\n".join(lines))


@app.command("stop")
def stop(
    name: Name = DEFAULT_NAME,
    everything: Annotated[bool, typer.Option("--all", help="Stop every virtual phone.")] = False,
) -> None:
    """Stop a virtual phone and everything that runs on it."""
    from devkit.sim import list_phones, stop_phone

    names = [record.name for record in list_phones()] if everything else [name]
    stopped = [stop_phone(each).name for each in names]
    output.current().data(
        {"stopped": stopped}, "\n".join(f"{each} is stopped" for each in stopped) or "no virtual phone runs"
    )


@app.command("status")
def status(
    name: Annotated[str | None, typer.Argument(help="Only this one.", autocompletion=_complete_names)] = None,
) -> None:
    """List running virtual phones."""
    from devkit.sim import list_phones

    records = list_phones()
    if name is not None:
        records = [record for record in records if record.name == name]
        if not records:
            raise UsageError(f"no virtual phone {name} runs", hints=[f"devkit sim start {name}"])
    rows: list[tuple[str, ...]] = [
        (
            record.name,
            record.serial,
            f"{record.adb_host}:{record.adb_port}",
            record.model,
            f"{time.time() - record.started_at:.0f} s",
            str(record.pid),
        )
        for record in records
    ]
    text = output.table(rows, ("NAME", "SERIAL", "ADB SERVER", "MODEL", "UP", "PID"))
    output.current().data(
        [record.as_dict() for record in records],
        text if rows else "no virtual phone runs (devkit sim start)",
    )
