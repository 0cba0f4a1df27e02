"""`devkit debug APP`: stop at a breakpoint on the phone."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import (
    common,
    debug_presets,
    debug_sanitized,
    debug_self_test,
    debug_symbols,
    debug_vscode,
    live_crashes,
    run_logcat,
    run_options,
)
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.device import Device
    from devkit.lldb import DebugRequest

app = typer.Typer(rich_markup_mode=None)


@app.command(
    epilog="Examples: devkit debug llm_demo --break llm.cpp:120; devkit debug llm_demo --attach 4711; "
    "devkit debug llm_demo --wait-for; devkit debug llm_demo --stdin chat.txt; "
    "devkit debug llm_demo --break MNN::run --batch check.lldb; "
    "devkit debug llm_demo --preset llm-load; devkit debug --list-presets; devkit debug --self-test; "
    "devkit debug llm_demo --vscode"
)
def debug(
    context: typer.Context,
    name: Annotated[
        str | None,
        typer.Argument(metavar="APP", help="App of devkit.yaml, CMake target, or an executable's path."),
    ] = None,
    args: common.Args = None,
    serial: common.Serial = None,
    profile: common.Profile = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    breakpoints: Annotated[
        list[str] | None,
        typer.Option("-b", "--break", metavar="FILE:LINE|FUNC", help="Stop there; repeatable."),
    ] = None,
    presets: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="NAME",
            help="A set of breakpoints, explained; repeatable (see --list-presets).",
        ),
    ] = None,
    show_presets: Annotated[
        bool, typer.Option("--list-presets", help="Show all sets of breakpoints and what each stop is for.")
    ] = False,
    attach: Annotated[
        str | None, typer.Option(metavar="PID|NAME", help="Attach to a running process instead.")
    ] = None,
    pick: Annotated[
        bool, typer.Option("--pick", help="Attach to a process that you pick from a list.")
    ] = False,
    env: run_options.Env = None,
    wait_for: Annotated[
        bool,
        typer.Option("--wait-for", help="Attach to the app's program (or --attach NAME) once it starts."),
    ] = False,
    stdin: Annotated[
        Path | None,
        typer.Option(
            "--stdin",
            metavar="FILE",
            help="Its input: a file, a terminal (/dev/pts/7), - with --batch, --serve.",
        ),
    ] = None,
    batch: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Run these LLDB commands at the first stop, then end (-: stdin)."),
    ] = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            "--timeout",
            metavar="SECONDS",
            min=0.1,
            help="End a --batch, or a session of --self-test, after it.",
        ),
    ] = None,
    serve: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="For editors: all but LLDB, whose commands go into this folder."),
    ] = None,
    logcat: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The program's log goes there; - with --batch or --serve.",
        ),
    ] = None,
    end: Annotated[bool, typer.Option("--end", help="End the session of --serve DIR.")] = False,
    no_build: common.NoBuild = False,
    no_deploy: Annotated[
        bool, typer.Option("--no-deploy", help="Debug what is on the phone; refused if it is another build.")
    ] = False,
    platform: Annotated[
        bool,
        typer.Option("--platform", help="LLDB's platform mode: launch and attach through lldb-server."),
    ] = False,
    print_commands: common.PrintCommands = False,
    in_vscode: Annotated[
        bool,
        typer.Option("--vscode", help="Start it in the VS Code that runs; waits until it has begun."),
    ] = False,
    self_test: Annotated[
        bool,
        typer.Option("--self-test", help="Try every link of a session with a program of devkit's own."),
    ] = False,
) -> None:
    """Build, deploy, start lldb-server and stop at the first breakpoint (default: main)."""
    from devkit import lldb, runtime
    from devkit.lldb.recipes import parse_breakpoint

    if end:
        _end(serve)
        return
    if show_presets or debug_presets.LIST in (presets or ()):
        debug_presets.list_presets()
        return
    if self_test:
        debug_self_test.run_self_test(serial=serial, device_dir=device_dir, ndk=ndk, timeout_s=timeout)
        return
    if name is None:
        raise UsageError(
            "which app?",
            hints=["devkit debug APP", "devkit debug --list-presets", "devkit debug --self-test"],
        )
    if in_vscode:
        others = {
            "arguments": args, "--serial": serial, "--profile": profile, "--device-dir": device_dir,
            "--ndk": ndk, "--break": breakpoints, "--attach": attach, "--batch": batch, "--env": env,
            "--serve": serve, "--no-build": no_build, "--no-deploy": no_deploy,
            "--print-commands": print_commands,
        }  # fmt: skip
        debug_vscode.start_in_vscode(
            name, stdin=stdin, presets=presets, pick=pick, wait_for=wait_for, platform=platform, others=others
        )
        return
    for text in breakpoints or ():
        parse_breakpoint(text)
    sink = output.current()
    _check_how(batch, print_commands, serve)
    if timeout is not None and batch is None:
        raise UsageError("--timeout is for --batch and --self-test", hints=["Ctrl-C ends other sessions"])
    _check_which(
        attach, pick=pick, wait_for=wait_for, print_commands=print_commands, stdin=stdin, args=args, env=env
    )
    if platform and wait_for:
        raise UsageError("--platform cannot wait for a program", hints=["--wait-for alone", "--attach PID"])
    _check_input(stdin, batch, serve)
    variables = run_options.parse_env(env or ())
    if serve is not None:
        context.with_resource(lldb.announced(serve))
    run_logcat.check_place(logcat, prompt=batch is None and serve is None)
    to_running = pick or (attach is not None and not wait_for)
    config, device, prepared = common.prepare_app(
        name,
        serial=serial,
        profile=profile,
        device_dir=device_dir,
        ndk=ndk,
        build=not (no_build or to_running),
    )
    program = posixpath.basename(prepared.plan.program)
    points = list(breakpoints or ())
    notes = [""] * len(points)
    if presets:
        found = debug_presets.preset_breakpoints(config, prepared, presets, besides=points)
        points += [point.place for point in found]
        notes += [point.why for point in found]
    if pick:
        from devkit.device.picking import pick_process

        attach = str(pick_process(device.list_processes(), first=program).pid)
    launches = not (to_running or wait_for)
    request = lldb.DebugRequest(
        program=prepared.local.program,
        libraries=prepared.libraries,
        search_paths=prepared.symbol_folders,
        device_dir=prepared.device_dir,
        launch=prepared.launch(args or (), variables) if launches else None,
        attach_pid=device.find_process(attach).pid if to_running and attach is not None else None,
        wait_for=(attach or program) if wait_for else None,
        breakpoints=tuple(points),
        notes=tuple(notes),
        batch=batch,
        stdin=stdin,
        timeout_s=timeout,
        source_map=debug_symbols.source_map(config, prepared),
        name=name,
        input_by=config.lldb.input,
        platform=platform,
        device_program=prepared.plan.program_path,
    )
    request = debug_sanitized.with_sanitizer(request, {**prepared.local.app.env, **variables})
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
    debug_symbols.warn_about_lines(request, served=serve is not None)
    if to_running or no_deploy:
        extra = debug_symbols.check_build(config, device, prepared, request.attach_pid, name)
        request = dataclasses.replace(
            request,
            libraries=(*request.libraries, *extra),
            search_paths=tuple(dict.fromkeys([*request.search_paths, *(file.parent for file in extra)])),
        )
    else:
        runtime.deploy_app(device, prepared)
    # LLDB shows signals itself; a sanitizer's report only comes along in what the program prints.
    crashes = live_crashes.of_app(
        config, prepared, mine=lambda crash: crash.kind == "sanitizer", editor=serve is not None
    )
    with contextlib.closing(crashes), _log_beside(device, logcat, request, program):
        if serve is not None:
            explain = functools.partial(debug_symbols.pending, prepared)
            lldb.serve(device, tools, request, serve, crashes.output, explain)
            return
        pending = debug_symbols.pending(prepared, request.breakpoints)
        request = dataclasses.replace(request, pending=pending)
        result = lldb.debug(device, tools, request, show=not sink.json_mode, on_output=crashes.output)
    result = debug_sanitized.at_its_report(request, result, crashes.found)
    if batch is not None:
        debug_symbols.warn_about_breakpoints(result, name, args or ())
    if sink.json_mode:
        sink.data({**result.as_dict(), "crashes": crashes.as_list()})
    raise typer.Exit(result.exit_code or 0)


def _log_beside(
    device: Device, where: Path | None, request: DebugRequest, program: str
) -> contextlib.AbstractContextManager[None]:
    if where is None:
        return contextlib.nullcontext()
    if request.attach_pid is not None:
        return run_logcat.beside_session(device, where, pids=[request.attach_pid])
    return run_logcat.beside_session(device, where, names=[request.wait_for or program])


def _end(serve: Path | None) -> None:
    from devkit import lldb

    if serve is None:
        raise UsageError(
            "--end needs --serve DIR: which session?", hints=["devkit debug APP --serve DIR --end"]
        )
    ended = lldb.end_serving(serve)
    output.current().data({"ended": ended}, "ended" if ended else "there is no such session")


def _check_how(batch: Path | None, print_commands: bool, serve: Path | None) -> None:
    """What can be refused before anything is built."""
    from devkit import lldb

    if serve is not None and (batch is not None or print_commands):
        raise UsageError("--serve goes with neither --batch nor --print-commands")
    if batch is not None and batch != lldb.STDIN and (batch.is_dir() or not batch.exists()):
        found = "is a folder" if batch.is_dir() else "does not exist"
        raise UsageError(f"--batch {batch.absolute()} {found}", hints=["--batch - takes commands from stdin"])
    if batch is None and not print_commands and serve is None:
        if output.current().json_mode:
            raise UsageError("--json needs --batch: a prompt is no JSON", hints=["--batch FILE", "--batch -"])
        lldb.check_terminal()


def _check_which(
    attach: str | None,
    *,
    pick: bool,
    wait_for: bool,
    print_commands: bool,
    stdin: Path | None,
    args: list[str] | None,
    env: list[str] | None,
) -> None:
    if pick and (attach is not None or wait_for):
        raise UsageError("--pick goes with neither --attach nor --wait-for: it asks")
    if wait_for and attach is not None and attach.isdigit():
        raise UsageError(
            f"--wait-for waits for a name; {attach} is a process id", hints=[f"--attach {attach} alone"]
        )
    if print_commands and (pick or wait_for or stdin is not None):
        raise UsageError("--print-commands shows a launch or an --attach", hints=["--attach PID"])
    attaches = pick or wait_for or attach is not None
    if attaches and (stdin is not None or args or env):
        given = "--stdin" if stdin is not None else "--env" if env else "arguments"
        raise UsageError(f"{given} cannot be given to a program that somebody else starts")


def _check_input(stdin: Path | None, batch: Path | None, serve: Path | None) -> None:
    from devkit import lldb

    if stdin is None:
        return
    if stdin == lldb.STDIN:
        if serve is None and (batch is None or batch == lldb.STDIN):
            raise UsageError(
                "--stdin - needs --batch FILE or --serve: LLDB reads from here",
                hints=["--stdin FILE", "--stdin /dev/pts/7: another terminal (`tty; sleep 10000` there)"],
            )
    elif stdin.is_dir() or not stdin.exists():
        found = "is a folder" if stdin.is_dir() else "does not exist"
        raise UsageError(f"--stdin {stdin.absolute()} {found}")
