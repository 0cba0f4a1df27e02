"""`devkit run APP`: build, deploy and run on the phone."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import common, run_detached, run_options
from devkit.errors import EXIT_CHECK_FAILED, DeviceError

if TYPE_CHECKING:
    from devkit.cli.run_logcat import LogBeside
    from devkit.config import Config
    from devkit.device import Device
    from devkit.runtime import PreparedApp
    from devkit.runtime.request import RunRequest

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="Examples: devkit run llm_demo -- model/config.json prompt.txt 32; devkit run llm_bench "
    "--taskset big; devkit run llm_demo --detach, then --logs --follow, --status, --stop"
)
def run(
    name: common.App,
    args: common.Args = None,
    serial: common.Serial = None,
    profile: common.Profile = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    no_build: common.NoBuild = False,
    env: run_options.Env = None,
    cwd: run_options.Cwd = None,
    stdin: run_options.Stdin = None,
    tty: run_options.Tty = None,
    live: run_options.Live = False,
    timeout: run_options.Timeout = None,
    taskset: run_options.Taskset = None,
    root: run_options.Root = False,
    pull: run_options.Pull = None,
    pull_to: run_options.PullTo = None,
    detach: Annotated[
        bool, typer.Option("--detach", help="Start it and return; it outlives the link.")
    ] = False,
    logs: Annotated[bool, typer.Option("--logs", help="Show the output of the detached run.")] = False,
    follow: Annotated[
        bool,
        typer.Option("--follow", "-f", help="With --logs or --detach: until it ends, with its exit code."),
    ] = False,
    status: Annotated[bool, typer.Option("--status", help="How the detached run stands.")] = False,
    stop: Annotated[bool, typer.Option("--stop", help="End the detached run.")] = False,
    logcat: Annotated[
        bool, typer.Option("--logcat", help="Show what it writes to the phone's log, too (stderr).")
    ] = False,
    print_commands: common.PrintCommands = False,
) -> None:
    """Build, deploy and run APP; its output is shown live and its exit code is devkit's own.

    Its results and known errors are read from the output: where they say that it failed although it
    exited with 0, devkit exits with 1.
    """
    foreground = timeout is not None or tty is not None or live or logcat or print_commands
    run_detached.check_actions(
        detach=detach,
        logs=logs,
        follow=follow,
        status=status,
        stop=stop,
        args=args or (),
        foreground=foreground,
        starting=bool(env or cwd is not None or stdin or taskset is not None or root),
        outputs=bool(pull or pull_to),
    )
    request = run_options.make_request(
        env=env, cwd=cwd, stdin=stdin, tty=tty, live=live, timeout=timeout, taskset=taskset, root=root,
        pull=pull, pull_to=pull_to,
    )  # fmt: skip
    if logs or status or stop:
        config = common.load_config(serial=serial, device_dir=device_dir)
        device = common.pick_device(config, serial)
        found = run_detached.find_detached(config, device, name)
        if stop:
            run_detached.stop(found)
        elif status:
            run_detached.show_status(found)
        else:
            run_detached.show_logs(config, device, found, request, follow=follow)
        return

    def look(config: Config, device: Device) -> None:
        """What can be refused before a build that takes minutes."""
        request.check(runtime.find_app(config, name)[0])
        if detach:
            run_detached.find_detached(config, device, name).refuse_second()

    from devkit import runtime

    config, device, prepared = common.prepare_app(
        name, serial=serial, profile=profile, device_dir=device_dir, ndk=ndk, build=not no_build, look=look
    )
    if print_commands:
        _print_commands(config, device, prepared, args or (), request)
        return
    runtime.deploy_app(device, prepared)
    if detach:
        run_detached.start(config, device, prepared, args or (), request, follow=follow)
        return
    raise typer.Exit(run_foreground(config, device, prepared, args or (), request, logcat=logcat))


def run_foreground(
    config: Config,
    device: Device,
    prepared: PreparedApp,
    args: Sequence[str],
    request: RunRequest,
    *,
    ended: Callable[[], bool] | None = None,
    logcat: bool = False,
) -> int:
    """Run a deployed app to its end and bring its outputs back; devkit's exit code.

    Args:
        ended: as `runtime.run_program`.
        logcat: show its lines of the phone's log, and read results from them.

    Raises:
        StreamStopped: `ended` said so.
    """
    from devkit import runtime
    from devkit.cli import run_results
    from devkit.cli.run_crashes import RunCrashes
    from devkit.cli.run_outputs import fetch
    from devkit.runtime.pulls import Outputs
    from devkit.runtime.request import plan_launch, stdin_end_for

    launch = plan_launch(device, prepared, args, request)
    outputs = Outputs(launch, request.patterns(prepared.local.app))
    beside = _log_beside(device) if logcat else None
    crashes = RunCrashes(config, device, prepared)
    reading = run_results.reading(config, prepared.local.app, prepared.plan.program, launch.args)
    try:
        with reading as reader, crashes:

            def read(data: bytes, stderr: bool = False) -> None:
                reader.feed(data, stderr)
                crashes.output(data, stderr)

            with beside or contextlib.nullcontext():
                code = crashes.exit_code = runtime.run_program(
                    device,
                    launch,
                    timeout_s=request.timeout_s,
                    stdin=request.stdin,
                    stdin_end=stdin_end_for(prepared),
                    tty=request.tty,
                    live=request.live,
                    first=(beside.first if beside else "") + outputs.first,
                    ended=ended,
                    on_output=read,
                )
            if beside is not None:
                reader.feed(beside.written())
                crashes.logged(beside.written())
    except DeviceError:
        raise  # nobody is there to forget them
    except BaseException:
        outputs.forget(device)
        raise
    pulled = fetch(config, device, prepared.local.app.name, outputs, request)
    code = run_results.show(reader.finish(code), prepared, code, pulled, crashes.as_list())
    if code == 0 and pulled is not None and not pulled.is_complete:
        # It says that it succeeded; what it should have written is not there.
        return EXIT_CHECK_FAILED
    return code


def _log_beside(device: Device) -> LogBeside:
    from devkit.cli.run_logcat import LogBeside

    return LogBeside(device)


def _print_commands(
    config: Config,
    device: Device,
    prepared: PreparedApp,
    args: Sequence[str],
    request: RunRequest,
) -> None:
    from devkit.runtime.manual import render_run_commands
    from devkit.runtime.request import plan_launch

    launch = plan_launch(device, prepared, args, request)
    output.current().data(*render_run_commands(config, device, prepared, launch))
