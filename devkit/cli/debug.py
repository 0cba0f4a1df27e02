"""`devkit debug APP`: stop at a breakpoint on the phone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb import DebugRequest, DebugResult
    from devkit.runtime import PreparedApp

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="Examples: devkit debug llm_demo --break llm.cpp:120; devkit debug llm_demo --attach 4711; "
    "devkit debug llm_demo --break MNN::run --batch check.lldb"
)
def debug(
    name: common.App,
    args: common.Args = None,
    serial: common.Serial = None,
    profile: common.Profile = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    breakpoints: Annotated[
        list[str] | None,
        typer.Option("-b", "--break", metavar="FILE:LINE|FUNC", help="Stop there; repeatable."),
    ] = None,
    attach: Annotated[
        str | None, typer.Option(metavar="PID|NAME", help="Attach to a running process instead.")
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run these LLDB commands at the first stop, then end (-: stdin)."),
    ] = None,
    no_build: common.NoBuild = False,
    print_commands: common.PrintCommands = False,
) -> None:
    """Build, deploy, start lldb-server and stop at the first breakpoint (default: main)."""
    from devkit import lldb, runtime
    from devkit.lldb.recipes import parse_breakpoint

    for text in breakpoints or ():
        parse_breakpoint(text)
    sink = output.current()
    _check_how(batch, print_commands)
    build = not no_build and attach is None
    config, device, prepared = common.prepare_app(
        name, serial=serial, profile=profile, device_dir=device_dir, ndk=ndk, build=build
    )
    request = _request(device, prepared, args or (), tuple(breakpoints or ()), attach, batch)
    tools = lldb.find_tools(config, device)
    if print_commands:
        from devkit.runtime.manual import adb_words

        text = "\n".join(
            [
                *prepared.local.build_lines,
                lldb.render_manual_commands(device, tools, request, adb=adb_words(config, device)),
            ]
        )
        output.current().data({"commands": text.splitlines()}, text)
        return
    if attach is None:
        runtime.deploy_app(device, prepared)
    result = lldb.debug(device, tools, request, show=not sink.json_mode)
    if batch is not None:
        _warn_about_breakpoints(result)
    if sink.json_mode:
        sink.data(result.as_dict())
    raise typer.Exit(result.exit_code or 0)


def _check_how(batch: Path | None, print_commands: bool) -> None:
    """What can be refused before anything is built."""
    from devkit import lldb

    if batch is not None and batch != lldb.STDIN and (batch.is_dir() or not batch.exists()):
        found = "is a folder" if batch.is_dir() else "does not exist"
        raise UsageError(f"--batch {batch.absolute()} {found}", hints=["--batch - takes commands from stdin"])
    if batch is None and not print_commands:
        if output.current().json_mode:
            raise UsageError("--json needs --batch: a prompt is no JSON", hints=["--batch FILE", "--batch -"])
        lldb.check_terminal()


def _warn_about_breakpoints(result: DebugResult) -> None:
    sink = output.current()
    empty = [point for point in result.breakpoints if not point["locations"]]
    for point in empty:
        sink.warn(f"no code was ever at the breakpoint {point['place']}; is it the right name, not stripped?")
    hit = any(point["hits"] for point in result.breakpoints) or any(s["is_breakpoint"] for s in result.stops)
    if result.breakpoints and not hit and not empty:
        sink.warn("the program never came to a breakpoint")


def _request(
    device: Device,
    prepared: PreparedApp,
    args: list[str] | tuple[()],
    breakpoints: tuple[str, ...],
    attach: str | None,
    batch: Path | None,
) -> DebugRequest:
    from devkit import lldb

    pid = None if attach is None else device.find_process(attach).pid
    return lldb.DebugRequest(
        program=prepared.local.program,
        libraries=prepared.libraries,
        search_paths=prepared.symbol_folders,
        device_dir=prepared.device_dir,
        launch=prepared.launch(args) if pid is None else None,
        attach_pid=pid,
        breakpoints=breakpoints,
        batch=batch,
    )
