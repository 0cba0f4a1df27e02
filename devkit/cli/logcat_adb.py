"""What of `devkit logcat` reads no log: emptying it, and the command by hand."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.logcat.filters import Filters


def clear(config: Config, serial: str | None, buffers: list[str], *, yes: bool, dry_run: bool) -> None:
    """`--clear`: asks before it empties the phone's log.

    Raises:
        UsageError: nobody can be asked.
        DeviceError: the phone refuses.
    """
    from devkit.logcat.source import clear as empty

    device = common.pick_device(config, serial)
    what = f"the log of the phone {device.serial} ({', '.join(buffers)})"
    sink = output.current()
    if dry_run:
        sink.data({"cleared": [], "would_clear": buffers}, f"would empty {what}")
        return
    if not yes:
        if sink.json_mode or not sys.stdin.isatty():
            raise UsageError(f"nobody can be asked whether {what} may be emptied", hints=["add --yes"])
        if not typer.confirm(f"Empty {what}? What it holds is lost.", err=True):
            sink.note("nothing was changed")
            return
    empty(device, buffers)
    sink.data({"cleared": buffers}, f"emptied {what}")


def print_commands(
    config: Config, serial: str | None, buffers: list[str], filters: Filters, dump: bool
) -> None:
    """`--print-commands`: the nearest adb logcat."""
    import shlex

    from devkit.logcat.record import LETTERS

    device = common.pick_device(config, serial)
    words = ["adb", "-H", device.server.host, "-P", str(device.server.port), "-s", device.serial, "logcat"]
    words += [
        "-v",
        "threadtime",
        "-v",
        "year",
        "-v",
        "nsec",
        "-v",
        "zone",
        *(w for b in buffers for w in ("-b", b)),
    ]
    words += ["-d"] if dump else []
    words += [f"{tag.decode('utf-8', 'replace')}:{LETTERS[one]}" for tag, one in filters.tags.items()]
    words.append(f"*:{LETTERS[filters.others]}")
    output.current().data({"commands": [words]}, shlex.join(words))
