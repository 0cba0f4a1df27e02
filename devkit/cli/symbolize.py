"""`devkit symbolize`: any crash text to functions and source lines."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import config as configuration
from devkit import output, paths
from devkit.cli import common
from devkit.cli.crash_symbols import add_lines, built_places
from devkit.cli.log_text import lines_of
from devkit.errors import DevkitError, FileError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.crashes import Reading, SymbolFolders
    from devkit.results import Finding

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: adb logcat -d -b main,crash | devkit symbolize --symbols build/devkit -")
def symbolize(
    file: Annotated[
        str, typer.Argument(metavar="FILE|-", help="A log, a tombstone, a bug report's ZIP; - for stdin.")
    ] = "",
    symbols: Annotated[
        list[Path] | None,
        typer.Option(
            "--symbols",
            metavar="DIR",
            help="Unstripped files or an APK; repeatable (what devkit built).",
        ),
    ] = None,
    pull: Annotated[
        bool, typer.Option("--pull", help="Fetch what only the phone has of the files in the stacks.")
    ] = False,
    serial: common.Serial = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write a page with all of it there, too.")
    ] = None,
) -> None:
    """Find the crashes in a text and name function, file and line of their frames.

    Lines come only from files whose build-id is the one printed, or whose name fits where none is printed.
    """
    from devkit import crashes
    from devkit.crashes.phone_files import kept_files

    if serial is not None and not pull:
        raise UsageError("--serial goes with --pull: a text is read without a phone")
    if not file:
        raise UsageError(
            "no text to read",
            hints=["devkit symbolize FILE", "adb logcat -d -b main,crash | devkit symbolize -"],
        )
    for place in symbols or []:
        if not paths.expand_user(place).exists():
            raise UsageError(f"--symbols {place} does not exist")
    known = crashes.KnownErrors()
    reading = crashes.read_crashes(lines_of(file), known.take)
    config: Config | None = None
    with contextlib.suppress(DevkitError):  # a log can be read outside of any project
        config = configuration.load()
    if any(crash.stacks for crash in reading.crashes):
        with crashes.SymbolFolders(_places(symbols, config)) as folders:
            with output.current().progress("looking up source lines", None):
                for kept in kept_files(reading.crashes):
                    folders.add(kept)
                add_lines(reading.crashes, folders, config)
            if pull:
                _pull(reading, folders, config, serial)
    roots = [Path.cwd(), *([config.source] if config else [])]
    findings = known.found()
    value = crashes.as_dict(reading, findings, roots)
    if html is not None:
        _write_page(html, file, reading, findings, roots)
        value["html"] = str(html)
    output.current().data(value, crashes.as_text(reading, findings, roots))


def _pull(reading: Reading, folders: SymbolFolders, config: Config | None, serial: str | None) -> None:
    """Fetch what is missing and look again; without a phone the frames stay as they are."""
    from devkit.cli.symbolize_pull import pull_missing
    from devkit.crashes.phone_files import missing_files

    missing = missing_files(reading.crashes)
    if not missing:
        output.current().note("no frame needs a file of the phone")
        return
    try:
        device = common.pick_device(config or configuration.load(), serial)
        fetched = pull_missing(device, missing, folders.folder)
    except DevkitError as error:
        output.current().warn("; ".join([f"nothing was fetched: {error.what}", *error.hints]))
        return
    for file in fetched:
        folders.add(file)
    if fetched:
        add_lines(reading.crashes, folders, config)


def _write_page(
    page: Path, file: str, reading: Reading, findings: Sequence[Finding], roots: Sequence[Path]
) -> None:
    from devkit.crashes.page import as_html

    if page.exists() and (page.is_dir() or (file != "-" and page.samefile(file))):
        what = "is a folder" if page.is_dir() else "is the text itself"
        raise UsageError(f"--html {page} {what}", hints=["devkit symbolize LOG --html crash.html"])
    try:
        paths.write_atomically(page, as_html(reading, findings, roots))
    except OSError as error:
        raise FileError(f"{page} cannot be written", evidence=error.strerror or str(error)) from None
    output.current().note(f"wrote {page}")


def _places(symbols: list[Path] | None, config: Config | None) -> list[Path]:
    places = symbols or built_places(config)
    if not places:
        output.current().note("nothing is built here, and no --symbols DIR given: frames stay as printed")
    return places
