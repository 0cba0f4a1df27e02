"""`devkit run APP --detach`, `--logs`, `--status`, `--stop`: programs that outlive devkit."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from devkit import output
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.runtime import PreparedApp
    from devkit.runtime.detached import Detached, DetachedRun
    from devkit.runtime.request import RunRequest


def check_actions(
    *, detach: bool, logs: bool, follow: bool, status: bool, stop: bool, args: Sequence[str], foreground: bool
) -> None:
    """Refuse options that contradict each other.

    Args:
        foreground: an option was given that only a run in the foreground has.

    Raises:
        UsageError: they do.
    """
    chosen = [
        name
        for name, given in (
            ("--detach", detach), ("--logs", logs), ("--status", status), ("--stop", stop)
        )
        if given
    ]  # fmt: skip
    if len(chosen) > 1:
        raise UsageError(
            f"{' and '.join(chosen)} cannot be asked for together",
            hints=["--detach --follow starts it and shows its output"],
        )
    if follow and not (detach or logs):
        raise UsageError("--follow goes with --logs or --detach", hints=["devkit run APP --logs --follow"])
    if args and (logs or status or stop):
        raise UsageError(f"{chosen[0]} takes no arguments for the program: it was started before")
    if foreground and chosen:
        raise UsageError(
            f"--timeout, --tty, --live and --print-commands do not go with {chosen[0]}",
            hints=["devkit run APP --stop ends a detached run"],
        )


def find_detached(config: Config, device: Device, name: str) -> Detached:
    """The detached run of an app, which need not exist."""
    from devkit.runtime import find_app
    from devkit.runtime.detached import Detached

    app, _ = find_app(config, name)
    folder = posixpath.join(device.writable_dir(config.device.dir), app.name)
    return Detached(device, app.name, folder)


def start(
    config: Config,
    device: Device,
    prepared: PreparedApp,
    args: Sequence[str],
    request: RunRequest,
    *,
    follow: bool,
) -> None:
    """Start it; with `follow` stay and show its output."""
    from devkit.runtime.detached import Detached
    from devkit.runtime.request import plan_launch, stdin_end_for

    app = prepared.local.app
    run = Detached(device, app.name, prepared.plan.folder)
    launch = plan_launch(device, prepared, args, request)
    found = run.start(launch, stdin=request.stdin, stdin_end=stdin_end_for(prepared))
    sink = output.current()
    if follow:
        sink.note(f"{app.name} runs on {device.serial} (pid {found.pid}); Ctrl-C leaves it running")
        show_logs(config, device, run, request, follow=True)
        return
    if found.exit_code:
        # As without --detach: a program that the linker refuses has failed.
        sink.data(found.as_dict(), f"{found.as_text()}\n{run.tail()}")
        raise typer.Exit(found.exit_code)
    where = f"on the phone {device.serial}; its output: devkit run {app.name} --logs --follow"
    sink.data(found.as_dict(), f"{found.as_text()} {where}")


def show_logs(config: Config, device: Device, run: Detached, request: RunRequest, *, follow: bool) -> None:
    """The log; when the run has ended also its outputs, and with `follow` its exit code."""
    run.known()
    run.show_log(follow=follow)
    found = run.known()
    sink = output.current()
    pulled = _pull(config, device, run, found, request) if found.state == "ended" else None
    if sink.json_mode:
        sink.data({**found.as_dict(), **({"outputs": pulled} if pulled else {})})
    elif found.state != "running":
        sink.note(found.as_text())
    if follow and found.exit_code is None:
        raise typer.Exit(1)
    if follow and found.exit_code:
        raise typer.Exit(found.exit_code)
    if follow and pulled and (pulled["missing"] or pulled["not_written"]):
        raise typer.Exit(1)


def show_status(run: Detached) -> None:
    """One line, or JSON."""
    found = run.known()
    output.current().data(found.as_dict(), f"{found.as_text()}\n  {found.command}\n  {found.log}")


def stop(run: Detached) -> None:
    """End it; it may have ended by itself."""
    before = run.known()
    found = run.stop()
    text = found.as_text() if before.state == "running" else f"{found.as_text()}: nothing to stop"
    output.current().data({**found.as_dict(), "stopped": before.state == "running"}, text)


def _pull(
    config: Config, device: Device, run: Detached, found: DetachedRun, request: RunRequest
) -> dict[str, Any] | None:
    from devkit.cli.run_outputs import fetch
    from devkit.config import AppConfig
    from devkit.runtime import launch_for
    from devkit.runtime.pulls import Outputs

    app = config.apps.get(run.app) or AppConfig(name=run.app)
    launch = launch_for(run.folder, run.app, (), {}, cwd=found.cwd)
    outputs = Outputs(launch, request.patterns(app), marker=run.marker)
    result = fetch(config, device, run.app, outputs, request)
    return result.as_dict() if result else None
