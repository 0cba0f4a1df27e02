"""`devkit demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: devkit demo --keep")
def demo(
    keep: Annotated[bool, typer.Option("--keep", help="Leave the virtual phone running afterwards.")] = False,
) -> None:
    """Build the example engine, push it to a virtual phone and stop at a breakpoint there."""
    from devkit.demo import check_keep_name, run_demo

    if keep:
        check_keep_name()
    data = run_demo(keep=keep)
    if output.current().json_mode:
        output.current().data(data)
