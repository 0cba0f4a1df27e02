"""`devkit doctor`: the whole chain, one line a link."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.config import Config
from devkit.errors import EXIT_CHECK_FAILED, ConfigError, DevkitError

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: devkit doctor --json | jq -r .first_broken")
def doctor(
    serial: common.Serial = None,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what is safe to repair.")] = False,
) -> None:
    """Check every link from the source to the debugger on the phone; exit 1 if a needed one is broken."""
    from devkit.doctor import examine

    settings: Config | DevkitError
    try:
        settings = common.load_config(serial=serial)
    except ConfigError as error:
        settings = error
    report = examine(settings, serial, environ=os.environ, fix=fix)
    sink = output.current()
    sink.data(report.as_dict(), report.as_text(sink if sys.stdout.isatty() else output.Output()))
    if report.first_broken is not None:
        raise typer.Exit(EXIT_CHECK_FAILED)
