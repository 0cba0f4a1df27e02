"""`devkit vscode`: settings, launch configurations, tasks and .clangd for this checkout."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import errors, output, paths
from devkit.cli import common
from devkit.errors import ToolMissing, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.vscode_templates import Setup

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="Examples: devkit vscode; devkit vscode --check; devkit vscode --for host; devkit vscode --remove"
)
def vscode(
    prefer: Annotated[
        str | None,
        typer.Option("--for", metavar="WHO", help="Whose compile commands win: device or host (remembered)."),
    ] = None,
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="DIR", help="The folder VS Code opens (default: devkit.yaml's)."),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Change nothing; exit 1 with a diff if anything is out of date.")
    ] = False,
    dry_run: common.DryRun = False,
    remove: Annotated[
        bool, typer.Option("--remove", help="Take out what devkit wrote, and nothing else.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Put devkit's values in place of yours in its entries.")
    ] = False,
    install_extensions: Annotated[
        bool,
        typer.Option("--install-extensions", help="Also install the extensions, with the `code` command."),
    ] = False,
) -> None:
    """Write VS Code's files for this checkout; what you wrote yourself stays, byte for byte."""
    from devkit import vscode_templates

    if remove and (check or prefer or install_extensions):
        raise UsageError(
            "--remove goes with --folder, --force and --dry-run only", hints=["devkit vscode --remove"]
        )
    config = common.load_config()
    place = paths.expand_user(folder).absolute() if folder else None
    if place is not None and not place.is_dir():
        raise UsageError(f"{place} is not a folder")
    if not (config.source / "CMakeLists.txt").is_file():
        raise UsageError(
            f"there is no engine in {config.source}",
            evidence="it holds no CMakeLists.txt",
            hints=["cd into the engine's source folder", "or name it: source: in devkit.yaml"],
        )
    if remove:
        setup = vscode_templates.plan_removal(config, folder=place, force=force)
    else:
        setup = vscode_templates.plan_setup(config, folder=place, prefer=prefer, force=force)
    if not (check or dry_run):
        vscode_templates.apply_setup(config, setup)
    _report(setup, check=check, dry_run=dry_run)
    if check and setup.drift:
        raise typer.Exit(errors.EXIT_CHECK_FAILED)
    if install_extensions and not (check or dry_run):
        _install_extensions(config, setup)


def _report(setup: Setup, *, check: bool, dry_run: bool) -> None:
    sink = output.current()
    for sentence in setup.missing:
        sink.note(f"missing: {sentence}")
    for sentence in setup.notes:
        sink.note(f"note: {sentence}")
    data = setup.as_dict()
    if check or dry_run:
        data["diff"] = setup.diff()
        sink.data(data, setup.diff() or "everything is up to date\n")
        return
    lines = [f"{_PAST[file.action]} {file.path}" for file in setup.files if file.action != "same"]
    if setup.view is not None and setup.view.builds:
        names = ", ".join(build.name for build in setup.view.builds)
        lines.append(f"compile commands of {len(setup.view.database.entries)} files: {names}")
    if setup.view is not None and setup.drift:
        lines.append('next: in VS Code, "Developer: Reload Window" once')
    sink.data(data, "\n".join(lines) or "nothing to do")


_PAST = {"create": "wrote", "update": "updated", "remove": "removed"}


def _install_extensions(config: Config, setup: Setup) -> None:
    from devkit import process
    from devkit.vscode_templates import collect_facts, render_slots

    code = shutil.which("code")
    if code is None:
        raise ToolMissing(
            "the command `code` was not found; everything else is done",
            hints=[
                "run it again in a terminal inside VS Code",
                "or open the Extensions view there: the recommended ones are listed",
            ],
        )
    assert setup.view is not None
    facts = collect_facts(config, setup.view, setup.folder)
    for slot in render_slots("extensions.json", facts):
        process.run([code, "--install-extension", slot.key], timeout_s=300)
        output.current().note(f"installed {slot.key}")
