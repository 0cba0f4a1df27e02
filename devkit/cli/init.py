"""`devkit init`: a devkit.yaml for this engine checkout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from devkit import config, output, paths
from devkit.errors import UsageError

app = typer.Typer(rich_markup_mode=None)

_TEXT = """\
# devkit's settings for this checkout. Every key is optional; `devkit config keys` lists them all.
engine: {engine}

# device: {{dir: /data/local/tmp/devkit, serial: null}}

# profiles:               # extend or override built-in ones (devkit build --list)
#   cpu: {{options: {{{option}: ON}}}}

apps:
  {app}:
    profile: cpu
    # files:              # what travels along, relative to this file
    #   - {{local: model, remote: model}}
    # args: [model/config.json, prompt.txt]
"""


@app.command(epilog="Example: cd MNN && devkit init && devkit run llm_demo")
def init(
    folder: Annotated[Path, typer.Argument(help="The engine's source folder.")] = Path(),
    engine_name: Annotated[
        str | None, typer.Option("--engine", metavar="ENGINE", help="mnn or cmake (default: detected).")
    ] = None,
) -> None:
    """Write devkit.yaml. An existing one is never touched."""
    from devkit import engine

    folder = folder.absolute()
    target = folder / config.PROJECT_FILE
    if target.exists():
        raise UsageError(f"{target} exists already and stays as it is", hints=["devkit config show --origin"])
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder")
    if engine_name not in (None, "mnn", "cmake"):
        raise UsageError(f"--engine cannot be {engine_name!r}", hints=["--engine mnn", "--engine cmake"])
    found = engine_name or engine.detect_engine(folder)
    if found is None:
        raise UsageError(
            f"{folder} holds no engine that devkit knows",
            evidence="no CMakeLists.txt",
            hints=["cd into the engine's source folder", "devkit init --engine cmake writes one anyway"],
        )
    mnn = found == "mnn"
    text = _TEXT.format(
        engine=found, option="MNN_OPENCL" if mnn else "MY_OPTION", app="llm_demo" if mnn else "my_program"
    )
    paths.write_atomically(target, text)
    following = "devkit run llm_demo" if mnn else "name your programs under apps:, then devkit run APP"
    output.current().data(
        {"file": str(target), "engine": found}, f"wrote {target} (engine: {found})\nnext: {following}"
    )
