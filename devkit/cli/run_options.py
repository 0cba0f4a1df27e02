"""The options of `devkit run` and `devkit watch`, and the request they make together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.runtime.request import RunRequest


def _complete_cores(incomplete: str) -> list[str]:
    from devkit.device.cores import NAMES

    return [name for name in NAMES if name.startswith(incomplete)]


Timeout = Annotated[
    float | None, typer.Option(metavar="SECONDS", min=0.1, help="End it after this long (exit code 124).")
]
Env = Annotated[
    list[str] | None,
    typer.Option("--env", "-e", metavar="K=V", help="Environment variable on the phone; repeatable."),
]
Cwd = Annotated[
    str | None,
    typer.Option(metavar="DIR", help="Working directory on the phone (relative: to the app's folder)."),
]
Stdin = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Standard input from a file of this machine.")
]
Tty = Annotated[
    bool | None,
    typer.Option("--tty/--no-tty", help="A terminal for the program (default: as stdin and stdout here)."),
]
Live = Annotated[
    bool,
    typer.Option("--live", help="Output line by line also where it is no terminal here."),
]
Taskset = Annotated[
    str | None,
    typer.Option(
        metavar="MASK|NAME",
        help="Processors: big, little, prime, all, a mask (f0) or a list (4-7).",
        autocompletion=_complete_cores,
    ),
]
Root = Annotated[bool, typer.Option("--root", help="Run it as root, with the phone's su.")]
Pull = Annotated[
    list[str] | None,
    typer.Option(metavar="GLOB", help="Output that comes back, beside the app's `pull:`; repeatable."),
]
PullTo = Annotated[
    Path | None,
    typer.Option(metavar="DIR", help="Where outputs go (default: devkit-out/APP in the project)."),
]


def make_request(
    *,
    env: Sequence[str] | None,
    cwd: str | None,
    stdin: Path | None,
    tty: bool | None,
    live: bool,
    timeout: float | None,
    taskset: str | None,
    root: bool,
    pull: Sequence[str] | None,
    pull_to: Path | None,
) -> RunRequest:
    """What the options say.

    Raises:
        UsageError: a variable has no name.
    """
    from devkit.runtime.request import RunRequest

    return RunRequest(
        env=parse_env(env or ()),
        cwd=cwd,
        stdin=None if stdin == Path("-") else stdin,
        tty=tty,
        live=live,
        timeout_s=timeout,
        taskset=taskset,
        root=root,
        pull=tuple(pull or ()),
        pull_to=pull_to,
    )


def parse_env(words: Sequence[str]) -> dict[str, str]:
    """K=V words as a mapping; a K alone takes the value that it has here.

    Raises:
        UsageError: a word has no name, or names a variable that is not set here.
    """
    import os

    variables = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not name or "\0" in word:
            raise UsageError(f"--env {word!r} names no variable", hints=["--env NAME=VALUE"])
        if not equals:
            if name not in os.environ:
                raise UsageError(f"--env {name}: the variable is not set here", hints=[f"--env {name}=VALUE"])
            value = os.environ[name]
        variables[name] = value
    return variables
