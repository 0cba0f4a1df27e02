"""`devkit profile`: where a program's time goes."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output
from devkit.cli import common, profile_app, profile_host, run_options
from devkit.cli import profile_record as recording
from devkit.cli import profile_report as reports

app = typer.Typer(rich_markup_mode=None)

# Release's speed with symbols, unless somebody says otherwise: a debug build spends its time elsewhere.
_TYPE = "profile"


@app.command(
    epilog="Examples: devkit profile llm_demo -- model/config.json prompt.txt 32; devkit profile --attach "
    "llm_demo --seconds 5 --off-cpu; devkit profile --show last --html flames.html --annotate gemm"
)
def profile(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[APP]", help="App of devkit.yaml, CMake target, or an executable's path."),
    ] = None,
    args: common.Args = None,
    serial: common.Serial = None,
    host: profile_host.Host = False,
    build_profile: common.Profile = None,
    build_type: common.BuildType = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    no_build: common.NoBuild = False,
    attach: recording.Attach = None,
    seconds: recording.Seconds = None,
    frequency: recording.Frequency = 1000,
    call_graph: recording.CallGraph = "dwarf",
    counter: recording.Counter = None,
    off_cpu: recording.OffCpu = False,
    per_thread: recording.PerThread = False,
    symbols: recording.Symbols = None,
    env: run_options.Env = None,
    cwd: run_options.Cwd = None,
    stdin: run_options.Stdin = None,
    tty: run_options.Tty = None,
    timeout: run_options.Timeout = None,
    taskset: run_options.Taskset = None,
    root: run_options.Root = False,
    pull: run_options.Pull = None,
    pull_to: run_options.PullTo = None,
    logcat: Annotated[
        bool, typer.Option("--logcat", help="Show what it writes to the phone's log, too (stderr).")
    ] = False,
    dry_run: common.DryRun = False,
    list_runs: Annotated[bool, typer.Option("--list", help="The recordings of this project so far.")] = False,
    show: reports.Show = None,
    compare: reports.Compare = None,
    html: reports.Html = None,
    csv: reports.Csv = None,
    speedscope: reports.Speedscope = None,
    firefox: reports.Firefox = None,
    folded: reports.Folded = None,
    annotate: reports.Annotate = None,
    tree: reports.Tree = False,
    top: reports.Top = 25,
    least: reports.LeastShare = 1.0,
    thread: reports.Threads = None,
    event: reports.EventName = None,
    engine: reports.Engine = None,
) -> None:
    """Record APP on the phone, or here, and show where its time goes: functions, lines, a flame graph.

    Its output is shown live and its exit code is devkit's own. RUN is a recording's name or its
    beginning, `last`, `previous`, or a file.
    """
    from devkit.profiling.history import History

    request = reports.ReportRequest(
        html,
        csv,
        speedscope,
        firefox,
        folded,
        annotate,
        tree,
        top,
        least,
        tuple(thread or ()),
        event,
        tuple(engine or ()),
    )
    if list_runs or compare is not None or show is not None:
        config = common.load_config()
        history = History(config.root)
        if list_runs:
            reports.list_recordings(history)
        elif compare is not None:
            before, after = (recording.load_run(config, history, run, symbols) for run in compare)
            reports.compare(before, after, compare, request)
        elif show is not None:
            loaded = recording.load_run(config, history, show, symbols)
            reports.show(loaded, request, config.root)
        return
    if engine and name is None and attach is None:
        reports.show_engine(request)
        return
    if host:
        profile_host.refuse_others(
            {
                "--serial": serial, "--device-dir": device_dir, "--ndk": ndk, "--counter": counter,
                "--off-cpu": off_cpu, "--per-thread": per_thread, "--symbols": symbols, "--env": env,
                "--cwd": cwd, "--stdin": stdin, "--tty": tty, "--timeout": timeout, "--taskset": taskset,
                "--root": root, "--pull": pull, "--pull-to": pull_to, "--logcat": logcat,
                "--dry-run": dry_run,
            }
        )  # fmt: skip
        config = common.load_config(build_type=build_type or _TYPE)
        profile, code = profile_host.record(
            config, name, args or (), profile=build_profile, build=not no_build, attach=attach,
            seconds=seconds, frequency_hz=frequency, call_graph=call_graph,
        )  # fmt: skip
        reports.finish(profile, name or attach or "", History(config.root), request, config.source)
        raise typer.Exit(code)
    wanted = recording.make_wanted(
        name=name, attach=attach, seconds=seconds, frequency=frequency, call_graph=call_graph,
        counter=counter, off_cpu=off_cpu, per_thread=per_thread, symbols=symbols,
    )  # fmt: skip
    run_request = run_options.make_request(
        env=env, cwd=cwd, stdin=stdin, tty=tty, live=False, timeout=timeout, taskset=taskset, root=root,
        pull=pull, pull_to=pull_to,
    )  # fmt: skip
    if dry_run or attach is not None:
        config = common.load_config(serial=serial, device_dir=device_dir, ndk=ndk)
        device = common.pick_device(config, serial)
        if dry_run:
            recording.show_plan(device, config, wanted, config.device.dir)
            return
        profile = recording.record_process(config, device, wanted, root=root, logcat=logcat)
        reports.finish(profile, name or attach or "", History(config.root), request, config.source)
        return
    assert name is not None

    from devkit import runtime

    config, device, prepared = common.prepare_app(
        name, serial=serial, profile=build_profile, device_dir=device_dir, ndk=ndk, build=not no_build,
        build_type=build_type or _TYPE,
        look=lambda config, device: run_request.check(runtime.find_app(config, name)[0]),
    )  # fmt: skip
    runtime.deploy_app(device, prepared)
    ran = profile_app.record_app(config, device, prepared, args or (), run_request, wanted, logcat=logcat)
    if (program_exit := ran.results["program_exit"]) != 0:
        signal = ran.results["signal"]
        output.current().warn(
            f"the program ended with exit code {program_exit}" + (f": {signal}" if signal else "")
        )
    reports.finish(
        ran.profile, prepared.local.app.name, History(config.root), request, config.source, ran.results
    )
    raise typer.Exit(ran.code)
