"""`devkit init`: a devkit.yaml for this engine checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import UsageError

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: cd MNN && devkit init && devkit run llm_demo")
def init(
    folder: Annotated[Path, typer.Argument(help="The engine's source folder.")] = Path(),
    engine_name: Annotated[
        str | None, typer.Option("--engine", metavar="ENGINE", help="mnn or cmake (default: detected).")
    ] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Write devkit.yaml. An existing one is never touched."""
    from devkit.project import write_project_file

    if engine_name not in (None, "mnn", "cmake"):
        raise UsageError(f"--engine cannot be {engine_name!r}", hints=["--engine mnn", "--engine cmake"])
    file, found = write_project_file(folder.absolute(), engine_name, dry_run=dry_run)
    if dry_run:
        data = {"file": str(file), "engine": found, "dry_run": True}
        output.current().data(data, f"would write {file} (engine: {found})")
        return
    following = "devkit run llm_demo" if found == "mnn" else "devkit build, then devkit run PROGRAM"
    output.current().data(
        {"file": str(file), "engine": found}, f"wrote {file} (engine: {found})\nnext: {following}"
    )
