"""`devkit profile --host`: programs of this machine, under Linux perf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.profiling import Profile

Host = Annotated[bool, typer.Option("--host", help="Record on this machine, with Linux perf.")]

_PROFILE = "host"


def refuse_others(options: Mapping[str, object]) -> None:
    """Say that an option is for phones.

    Raises:
        UsageError: one of them was given.
    """
    given = [flag for flag, value in options.items() if value not in (None, False)]
    if given:
        raise UsageError(
            f"{given[0]} is for recordings on a phone",
            hints=["with --host the program runs here, as this shell would run it"],
        )


def record(
    config: Config,
    name: str | None,
    args: Sequence[str],
    *,
    profile: str | None = None,
    build: bool = True,
    attach: str | None = None,
    seconds: float | None = None,
    frequency_hz: int,
    call_graph: str,
) -> tuple[Profile, int]:
    """Build an app for this machine, run it under perf and read what was recorded.

    Args:
        name: an app of devkit.yaml, a CMake target or a program's path; None with `attach`.
        attach: the pid of a running process instead.
        seconds: end the program, or the watching, after that.

    Returns:
        the recording, and the program's exit code (0 of a process that was watched).

    Raises:
        UsageError: no such app.
        BuildError, ToolMissing: the build failed.
        ToolMissing, ToolFailed: there is no perf, or it may not record.
    """
    from devkit.profiling import host

    if call_graph not in host.CALL_GRAPHS:
        raise UsageError(
            f"--call-graph {call_graph}: there is no such way on this machine",
            hints=[f"--call-graph {way}" for way in host.CALL_GRAPHS],
        )
    if attach is not None and not attach.isdigit():
        raise UsageError(f"--attach {attach} is no process id", hints=[f"pgrep {attach}", "--attach PID"])
    # Before a build of minutes.
    host.check_perf(host.find_perf(), frequency_hz)
    if attach is not None:
        done = host.record(pid=int(attach), seconds=seconds, frequency_hz=frequency_hz, call_graph=call_graph)
    else:
        if name is None:
            raise UsageError("which program?", hints=["devkit profile --host APP", "--attach PID"])
        app, program = _program(config, name, profile, build)
        done = host.record(
            [program, *(args or app.args)], seconds=seconds, frequency_hz=frequency_hz, call_graph=call_graph,
            env=dict(app.env),
        )  # fmt: skip
    ended = seconds is not None and done.exit_code == host.TIMED_OUT
    code = 0 if ended else done.exit_code or 0
    if code:
        output.current().warn(f"the program ended with exit code {code}")
    return done.profile, code


def _program(config: Config, name: str, profile: str | None, build: bool) -> tuple[AppConfig, Path]:
    from devkit import engine
    from devkit.runtime import find_app

    app, path = find_app(config, name)
    if path is not None:
        return app, path
    plan = engine.plan_for(config, profile or _PROFILE)
    if plan.profile.target != "host":
        raise UsageError(f"the profile {plan.profile.name} builds for the phone", hints=["leave --host out"])
    result = engine.build(plan) if build else engine.last_build(plan)
    target = app.target or app.name
    programs = {a.target: a.path for a in result.artifacts if a.kind == "executable"}
    programs |= {path.name: path for path in programs.values()}
    if target not in programs:
        raise UsageError(
            f"the build has no program {target}", evidence="\n".join(sorted(programs)) or None,
            hints=["devkit build host --list"],
        )  # fmt: skip
    return app, programs[target]
