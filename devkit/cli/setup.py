"""`devkit setup`: the wizard."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import config as configuration
from devkit import output
from devkit.cli import common
from devkit.errors import EXIT_CHECK_FAILED, UsageError

if TYPE_CHECKING:
    from devkit.setup import Choices, Found

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example, without questions: devkit setup --yes --ndk r29 --no-shell-rc")
def setup(
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Ask nothing: take the defaults.")] = False,
    ndk: Annotated[
        str | None,
        typer.Option(
            metavar="RELEASE|DIR|none",
            help="Android NDK to install or to use.",
            autocompletion=common.complete_releases,
        ),
    ] = None,
    qnn_sdk: Annotated[
        str | None,
        typer.Option("--qnn-sdk", metavar="VERSION|DIR|none", help="QNN SDK to install or to use."),
    ] = None,
    shell_rc: Annotated[
        bool | None,
        typer.Option("--shell-rc/--no-shell-rc", help="Write the variables into the shell's rc file."),
    ] = None,
    project: Annotated[
        bool | None, typer.Option("--project/--no-project", help="Write a devkit.yaml for the engine here.")
    ] = None,
    mirror: Annotated[
        str | None, typer.Option(metavar="URL", help="Folder with NDK archives, tried first.")
    ] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Find or install what is needed here, write the settings, and end with the doctor."""
    from devkit.doctor import examine
    from devkit.ndk import environment
    from devkit.setup import Choices, check_choices, look_around, set_up, summary, with_defaults

    environ = dict(os.environ)
    settings = configuration.load()
    found = look_around(settings, environ, environment.ancestor_names())
    choices = Choices(ndk, qnn_sdk, shell_rc, project, mirror)
    check_choices(choices)
    choices = with_defaults(found, choices) if yes else _ask(found, choices)
    steps = set_up(settings, found, choices, environ, dry_run=dry_run)
    if dry_run:
        output.current().data({"steps": [step.as_dict() for step in steps]}, summary(steps))
        return
    report = examine(configuration.load(), environ=environ)
    sink = output.current()
    text = summary(steps) + "\n" + report.as_text(output.Output())
    sink.data({"steps": [step.as_dict() for step in steps], "doctor": report.as_dict()}, text)
    # The phone is not the wizard's business: it may be plugged in later.
    needed_here = [link for link in report.links if link.id in report.own]
    if any(link.state == "broken" for link in needed_here) or any(step.state == "failed" for step in steps):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _ask(found: Found, choices: Choices) -> Choices:
    from devkit.setup import NONE, missing_answers

    questions = missing_answers(found, choices)
    if questions and not (sys.stdin.isatty() and sys.stderr.isatty()):
        flags = {
            "ndk": "--ndk r29",
            "qnn_sdk": "--qnn-sdk DIR or --qnn-sdk none",
            "project": "--project or --no-project",
            "shell_rc": "--shell-rc or --no-shell-rc",
        }
        raise UsageError(
            "setup has questions, and there is no terminal to ask them on",
            hints=["devkit setup --yes takes the defaults", *(flags[name] for name in questions)],
        )
    output.current().note(found.as_text())
    if "ndk" in questions:
        answer = typer.prompt(
            "Android NDK: a release to install, the folder of one, or none",
            default=found.wanted_ndk,
            err=True,
        )
        choices = replace(choices, ndk=NONE if answer.lower() in (NONE, "no", "n") else answer)
    if "qnn_sdk" in questions:
        answer = typer.prompt(
            "QNN SDK: the root of one, a version to install, or none",
            default=found.wanted_qnn_sdk,
            err=True,
        )
        choices = replace(choices, qnn_sdk=NONE if answer.lower() in (NONE, "no", "n") else answer)
    if "project" in questions:
        question = f"write a devkit.yaml for the engine in {found.engine_root}?"
        choices = replace(choices, project=typer.confirm(question, default=True, err=True))
    if "shell_rc" in questions:
        question = f"write the variables into {found.rc_file}?"
        choices = replace(choices, shell_rc=typer.confirm(question, default=True, err=True))
    return choices
