"""`devkit init`: a devkit.yaml for this engine checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devkit import output
from devkit.errors import UsageError

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: cd MNN && devkit init && devkit run llm_demo")
def init(
    folder: Annotated[Path, typer.Argument(help="The engine's source folder.")] = Path(),
    engine_name: Annotated[
        str | None, typer.Option("--engine", metavar="ENGINE", help="mnn or cmake (default: detected).")
    ] = None,
) -> None:
    """Write devkit.yaml. An existing one is never touched."""
    from devkit.project import write_project_file

    if engine_name not in (None, "mnn", "cmake"):
        raise UsageError(f"--engine cannot be {engine_name!r}", hints=["--engine mnn", "--engine cmake"])
    file, found = write_project_file(folder.absolute(), engine_name)
    following = "devkit run llm_demo" if found == "mnn" else "devkit build, then devkit run PROGRAM"
    output.current().data(
        {"file": str(file), "engine": found}, f"wrote {file} (engine: {found})\nnext: {following}"
    )
