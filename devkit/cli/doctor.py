"""`devkit doctor`: the whole chain, one line a link."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import EXIT_CHECK_FAILED, ConfigError, UsageError

if TYPE_CHECKING:
    from devkit.doctor import Report

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Examples: devkit doctor --json | jq -r .first_broken; devkit doctor --fix --dry-run")
def doctor(
    serial: common.Serial = None,
    fix: Annotated[bool, typer.Option("--fix", help="Repair what is safe to repair.")] = False,
    ndk: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE",
            help="With --fix: install this NDK if none is usable.",
            autocompletion=common.complete_releases,
        ),
    ] = None,
    shell_rc: Annotated[
        bool, typer.Option("--shell-rc", help="With --fix: write the variables into the shell's rc file.")
    ] = False,
    dry_run: common.DryRun = False,
) -> None:
    """Check every link from the source to the debugger on the phone; exit 1 if a needed one is broken."""
    from devkit.doctor import Wishes, apply_fixes, examine, plan_fixes

    if not fix and (dry_run or ndk or shell_rc):
        flag = "--dry-run" if dry_run else "--ndk" if ndk else "--shell-rc"
        raise UsageError(f"{flag} goes with --fix", hints=[f"devkit doctor --fix {flag}"])
    wishes = Wishes(ndk, shell_rc)

    def look() -> Report:
        # Read again each time: a repair may have changed the settings.
        try:
            return examine(common.load_config(serial=serial), serial, environ=os.environ, wishes=wishes)
        except ConfigError as error:
            return examine(error, serial, environ=os.environ)

    if fix and not dry_run:
        report, fixes = apply_fixes(look)
    else:
        report = look()
        fixes = plan_fixes(report) if fix else ()
    sink = output.current()
    text = report.as_text(sink if sys.stdout.isatty() else output.Output())
    if fix:
        text += "\n\n" + (output.table([(f.state, f.link, f.detail) for f in fixes]) or "nothing to fix")
    data = report.as_dict()
    sink.data({**data, "fixes": [one.as_dict() for one in fixes]} if fix else data, text)
    if report.first_broken is not None or any(one.state == "failed" for one in fixes):
        raise typer.Exit(EXIT_CHECK_FAILED)
