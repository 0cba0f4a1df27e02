"""`devkit run APP --detach`, `--logs`, `--status`, `--stop`: programs that outlive devkit."""

from __future__ import annotations

import contextlib
import posixpath
import shlex
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from devkit import output, process
from devkit.errors import EXIT_CHECK_FAILED, UsageError

if TYPE_CHECKING:
    from devkit.config import AppConfig, Config
    from devkit.device import Device
    from devkit.runtime import PreparedApp
    from devkit.runtime.detached import Detached, DetachedRun
    from devkit.runtime.request import RunRequest


def check_actions(
    *,
    detach: bool,
    logs: bool,
    follow: bool,
    status: bool,
    stop: bool,
    args: Sequence[str],
    foreground: bool = False,
    starting: bool = False,
    outputs: bool = False,
) -> None:
    """Refuse options that contradict each other.

    Args:
        foreground: an option was given that only a run in the foreground has.
        starting: one was given that says how a program is started.
        outputs: one was given that says which outputs come back.

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
            f"--timeout, --tty, --live, --logcat and --print-commands do not go with {chosen[0]}",
            hints=["devkit run APP --stop ends a detached run"],
        )
    if starting and (logs or status or stop):
        raise UsageError(
            f"--env, --cwd, --stdin, --taskset and --root do not go with {chosen[0]}: it was started before"
        )
    if outputs and (status or stop or (detach and not follow)):
        raise UsageError(
            f"--pull and --pull-to do not go with {chosen[0]}: outputs come back with the log",
            hints=["devkit run APP --logs --follow --pull GLOB"],
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
    command = process.show(["devkit", "run", app.name, "--logs", "--follow"])
    where = f"on the phone {device.serial}; its output: {command}"
    sink.data(found.as_dict(), f"{found.as_text()} {where}")


def show_logs(config: Config, device: Device, run: Detached, request: RunRequest, *, follow: bool) -> None:
    """The log; when the run has ended also its results and outputs, and with `follow` its exit code."""
    from devkit.cli import run_results
    from devkit.cli.live_crashes import LiveCrashes
    from devkit.config import AppConfig

    program, *args = _words(run.known().command) or [run.app]
    program = posixpath.basename(program)
    app = config.apps.get(run.app) or AppConfig(name=run.app)
    crashes = LiveCrashes(config, app=run.app)
    with run_results.reading(config, app, program, args) as reader, contextlib.closing(crashes):

        def read(data: bytes, stderr: bool = False) -> None:
            reader.feed(data, stderr)
            crashes.output(data, stderr)

        run.show_log(follow=follow, on_output=read)
    found = run.known()
    sink = output.current()
    report = reader.finish(found.exit_code) if found.state != "running" else None
    pulled = _pull(config, device, run, app, found, request) if found.state == "ended" else None
    if sink.json_mode:
        results = report.as_dict() if report else {}
        results["crashes"] = crashes.as_list()
        sink.data({**found.as_dict(), **results, **({"outputs": pulled} if pulled else {})})
    elif report:
        sink.note(found.as_text())
        if follow and found.exit_code is not None:
            run_results.explain(report, program, found.exit_code)
        else:
            run_results.note_results(report)
            run_results.warn_of(report.findings)
    if not follow:
        return
    code = EXIT_CHECK_FAILED  # gone without one
    if found.exit_code is not None and report is not None:
        code = run_results.judged(report, found.exit_code)
    if not code and pulled and (pulled["missing"] or pulled["not_written"]):
        code = EXIT_CHECK_FAILED
    raise typer.Exit(code)


def _words(command: str) -> list[str]:
    try:
        return shlex.split(command)
    except ValueError:  # the phone was restarted while it was written
        return []


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
    config: Config, device: Device, run: Detached, app: AppConfig, found: DetachedRun, request: RunRequest
) -> dict[str, Any] | None:
    from devkit.cli.run_outputs import fetch
    from devkit.runtime import launch_for
    from devkit.runtime.pulls import Outputs

    launch = launch_for(run.folder, run.app, (), {}, cwd=found.cwd)
    outputs = Outputs(launch, request.patterns(app), marker=run.marker)
    result = fetch(config, device, run.app, outputs, request)
    return result.as_dict() if result else None
