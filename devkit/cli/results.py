"""`devkit results`: the numbers of a saved output, and what it says about success."""

from __future__ import annotations

import codecs
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from devkit import config as configuration
from devkit import output
from devkit.errors import EXIT_CHECK_FAILED, FileError, UsageError

app = typer.Typer(rich_markup_mode=None)

_CHUNK_BYTES = 64 * 1024


@app.command(epilog="Example: devkit device shell -- logcat -d -s MNNJNI | devkit results -")
def results(
    file: Annotated[str, typer.Argument(metavar="FILE|-", help="A saved output; - for stdin.")] = "",
    parser: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="The parser to use (default: by the output's own lines)."),
    ] = None,
    program: Annotated[
        str | None, typer.Option(metavar="NAME", help="The program whose output it is.")
    ] = None,
    exit_code: Annotated[
        int | None, typer.Option("--exit-code", metavar="N", help="The program's exit code, if known.")
    ] = None,
    list_parsers: Annotated[bool, typer.Option("--list", help="List the parsers and stop.")] = False,
) -> None:
    """Read the results of a saved output or log; exit with 1 where it says that the program failed."""
    from devkit.cli import run_results
    from devkit.cli.results_table import summary_table
    from devkit.results import FAILED, NO_PARSER, OutputReader, parser_names

    config = configuration.load()
    custom = config.parsers
    sink = output.current()
    names = [*(described.name for described in custom), *parser_names()]
    if list_parsers:
        sink.data(names, "\n".join(names))
        return
    if not file:
        raise UsageError("no output to read", hints=["devkit results FILE", "devkit results - reads stdin"])
    if parser is not None and parser not in (*names, NO_PARSER):
        guess = configuration.nearest(parser, names)
        hints = [*([f"did you mean `{guess}`?"] if guess else []), f"known: {', '.join(names)}, {NO_PARSER}"]
        raise UsageError(f"there is no parser named {parser!r}", hints=hints)
    reader = OutputReader(parser, program=program, custom=custom, findings=config.findings)
    for data in chunks(file):
        reader.feed(data)
    report = reader.finish(exit_code)
    sink.data(report.as_dict(), summary_table(report, everything=True) or "no results that a parser knows")
    failed = report.status == FAILED
    if failed and not sink.json_mode and (cause := report.first_cause):
        run_results.warn_of(f for f in report.findings if f is not cause and not f.consequence)
        raise run_results.failure("the program failed", cause)
    if not sink.json_mode:
        run_results.warn_of(report.findings)
    if failed:
        raise typer.Exit(EXIT_CHECK_FAILED)


def chunks(file: str) -> Iterator[bytes]:
    """A log in pieces, as UTF-8; `-` is stdin.

    Raises:
        FileError: it cannot be read.
    """
    if file == "-":
        yield from _utf8(sys.stdin.buffer)
        return
    try:
        with Path(file).open("rb") as stream:
            yield from _utf8(stream)
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=error.strerror) from None


def _utf8(stream: BinaryIO) -> Iterator[bytes]:
    """Bytes as they come; PowerShell's `>` saves UTF-16, which becomes UTF-8."""
    first = stream.read(_CHUNK_BYTES)
    decoder = None
    if first[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
    elif first.startswith(codecs.BOM_UTF8):
        first = first[len(codecs.BOM_UTF8) :]
    while first:
        yield decoder.decode(first).encode("utf-8", "replace") if decoder else first
        first = stream.read(_CHUNK_BYTES)
