"""`devkit run APP`: build, deploy and run on the phone."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output
from devkit.cli import common

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: devkit run llm_demo -- model/config.json prompt.txt 32")
def run(
    name: common.App,
    args: common.Args = None,
    serial: common.Serial = None,
    profile: common.Profile = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    no_build: common.NoBuild = False,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="End it after this long (exit code 124).")
    ] = None,
    print_commands: common.PrintCommands = False,
) -> None:
    """Build, deploy and run APP; its output is shown live and its exit code is devkit's own."""
    from devkit import runtime

    config, device, prepared = common.prepare_app(
        name, serial=serial, profile=profile, device_dir=device_dir, ndk=ndk, build=not no_build
    )
    launch = prepared.launch(args or ())
    if print_commands:
        from devkit.runtime.manual import render_run_commands

        output.current().data(*render_run_commands(config, device, prepared, launch))
        return
    runtime.deploy_app(device, prepared)
    code = runtime.run_program(device, launch, timeout_s=timeout)
    signal = runtime.signal_name(code)
    sink = output.current()
    if sink.json_mode:
        sink.data({"program_exit": code, "signal": signal, "pushed_bytes": prepared.plan.push_bytes})
    elif signal:
        sink.note(f"{prepared.plan.program} ended with exit code {code}: {signal}")
    raise typer.Exit(code)
