"""`devkit env`: the toolchains' variables for shells, and commands that run with them."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import config as configuration
from devkit import output
from devkit.cli import common
from devkit.errors import ToolMissing, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.ndk.environment import Exports

app = typer.Typer(rich_markup_mode=None)


def _complete_shells(incomplete: str) -> list[str]:
    from devkit.ndk.environment import SHELLS

    return [name for name in SHELLS if name.startswith(incomplete)]


@app.command(
    epilog='Examples: eval "$(devkit env)"; devkit env --install; devkit env -- ./build_64.sh',
    context_settings={"ignore_unknown_options": False},
)
def env(
    command: Annotated[
        list[str] | None, typer.Argument(metavar="[-- CMD…]", help="Run this with the variables set.")
    ] = None,
    shell: Annotated[
        str | None,
        typer.Option(
            metavar="SHELL",
            help="bash, zsh or fish (default: the one in use).",
            autocompletion=_complete_shells,
        ),
    ] = None,
    install: Annotated[
        bool, typer.Option("--install", help="Write them as ONE marked block into the shell's rc file.")
    ] = False,
    uninstall: Annotated[
        bool, typer.Option("--uninstall", help="Take exactly that block out again.")
    ] = False,
    dry_run: common.DryRun = False,
) -> None:
    """Print the exports for ANDROID_NDK, ANDROID_NDK_ROOT, ANDROID_NDK_HOME and the QNN SDK."""
    from devkit.ndk import environment
    from devkit.ndk.exports import find_exports

    if install and uninstall:
        raise UsageError("--install and --uninstall contradict each other", hints=["devkit env --install"])
    if command and (install or uninstall):
        raise UsageError("either a command is run, or the block is written", hints=["devkit env -- CMD"])
    if dry_run and not (install or uninstall):
        raise UsageError(
            "--dry-run goes with --install or --uninstall: nothing else changes anything",
            hints=["devkit env --install --dry-run", "devkit env   only prints"],
        )
    name = shell or environment.detect_shell(os.environ, environment.ancestor_names())
    file = environment.rc_file(name, os.environ)
    sink = output.current()
    if uninstall:
        removed = environment.uninstall_block(file, dry_run=dry_run)
        verb = "would take" if dry_run else "took"
        text = f"{verb} devkit's block out of {file}" if removed else f"{file} has no block of devkit"
        sink.data({"file": str(file), "changed": removed}, text)
        return
    settings = configuration.load()
    exports = find_exports(settings)
    for note in exports.notes:
        sink.note(note)
    if command:
        run_with(settings, exports, command)
    text = environment.render(exports, name)
    if install:
        if not exports.variables:
            raise ToolMissing(
                "there is nothing to write: neither an NDK nor a QNN SDK was found",
                evidence="\n".join(exports.notes),
                hints=["devkit ndk install r29", "devkit doctor"],
            )
        changed = environment.install_block(file, text, dry_run=dry_run)
        verb = "would write" if dry_run else "wrote"
        what = f"{verb} devkit's block into {file}" if changed else f"{file} holds it already"
        what += f":\n{text}" if dry_run and changed else ""
        sink.data({"file": str(file), "changed": changed, "shell": name}, what)
        return
    data = {"shell": name, "variables": dict(exports.variables), "additions": list(exports.additions)}
    sink.data(data, text)


def run_with(settings: Config, exports: Exports, command: list[str]) -> None:
    """Become `command` with the exports set. Does not return.

    Raises:
        ToolMissing: there is no such program.
    """
    from devkit.ndk.exports import qnn_tool_libraries

    environ = exports.apply(os.environ)
    program = shutil.which(command[0], path=environ["PATH"])
    if program is None:
        raise ToolMissing(f"{command[0]} was not found", evidence="PATH=" + environ["PATH"])
    environ |= qnn_tool_libraries(settings, Path(program))
    if os.name == "nt":
        from devkit import process

        raise typer.Exit(process.start(command, env=environ, stdout=None, stderr=None).wait())
    os.execve(program, command, environ)
