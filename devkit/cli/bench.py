"""`devkit bench APP`: a matrix of runs on the phone, with spread, history and comparison."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from devkit import output, paths
from devkit.cli import common, run_options
from devkit.errors import EXIT_CHECK_FAILED, UsageError

if TYPE_CHECKING:
    from devkit.bench import Comparison, History, Run, Sample, Spec
    from devkit.config import Config
    from devkit.device import Device

app = typer.Typer(rich_markup_mode=None)


def _several(flag: str, help_text: str) -> Any:
    return typer.Option(flag, metavar="VALUE[,VALUE]", help=help_text)


@app.command(epilog="Example: devkit bench llm_bench --threads 1,4 --prompt 64,512 -- -m model/config.json")
def bench(
    name: Annotated[
        str | None, typer.Argument(metavar="[APP]", help="App of devkit.yaml, CMake target, or a path.")
    ] = None,
    args: common.Args = None,
    serial: common.Serial = None,
    profile: Annotated[list[str] | None, _several("--profile", "Build profiles to compare.")] = None,
    backend: Annotated[list[str] | None, _several("--backend", "Values of {backend}.")] = None,
    threads: Annotated[list[str] | None, _several("--threads", "Values of {threads}.")] = None,
    prompt: Annotated[list[str] | None, _several("--prompt", "Values of {prompt}.")] = None,
    repeat: Annotated[int | None, typer.Option(min=1, help="Measured runs of each combination (5).")] = None,
    warmup: Annotated[int | None, typer.Option(min=0, help="Runs before them that do not count (1).")] = None,
    cooldown: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0, help="Pause before each run (2).")
    ] = None,
    max_c: Annotated[
        float | None, typer.Option("--max-c", metavar="DEGREES", help="Wait until the phone is below that.")
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(metavar="REGEX", help="A number of the output: 'decode speed = (?P<decode>[\\d.]+)'."),
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="End a run after that (600).")
    ] = None,
    compare: Annotated[
        str | None, typer.Option(metavar="RUN", help="Say what differs from this run: an id, last, a file.")
    ] = None,
    show: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Run nothing: show this run (with --compare: against that)."),
    ] = None,
    list_runs: Annotated[bool, typer.Option("--list", help="The runs of this project so far.")] = False,
    csv_file: Annotated[
        Path | None, typer.Option("--csv", metavar="FILE", help="Write all numbers there.")
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the chart there.")
    ] = None,
    taskset: run_options.Taskset = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    no_build: common.NoBuild = False,
    dry_run: common.DryRun = False,
) -> None:
    """Run APP in every combination of profiles, backends, threads and prompts; median and spread of each.

    The wall time is measured on the phone; other numbers come from its output. Exit code 1 when a run
    failed, or when --compare finds something worse.
    """
    from devkit import bench as room
    from devkit.runtime.app_names import refuse_unknown
    from devkit.runtime.request import check_taskset

    for flag, file in (("--csv", csv_file), ("--html", html)):
        _check_writable(flag, file)
    config = common.load_config(serial=serial, device_dir=device_dir, ndk=ndk)
    if name is not None and name not in config.apps and ("/" in name or "\\" in name):
        # One program, one name in the history, from wherever it is started.
        name = str(Path(name).expanduser().resolve())
    history = room.History(config.root)
    if list_runs:
        _list(history, name)
        return
    if show is not None:
        run = history.find(show, name)
        before = history.find(compare, run.app) if compare else None
        _finish(run, before, csv_file, html, None)
        return
    if name is None:
        raise UsageError("which app?", hints=["devkit bench APP", "devkit bench --list"])
    flags = {
        "profiles": _split(profile), "backends": _split(backend), "threads": _split(threads),
        "prompts": _split(prompt), "repeat": repeat, "warmup": warmup, "cooldown_s": cooldown, "max_c": max_c,
        "metrics": tuple(metric or ()), "timeout_s": timeout, "args": tuple(args or ()),
        "taskset": taskset,
    }  # fmt: skip
    spec = room.spec_for(config, name, flags)
    refuse_unknown(config, name)
    room.check_dimensions(spec, _program(config, name))
    if "/" in name and flags["profiles"]:
        raise UsageError(
            f"{name} is a finished program: profiles make no difference",
            hints=["name an app of devkit.yaml or a CMake target"],
        )
    check_taskset(spec.taskset)
    before = history.find(compare, name) if compare else None
    if dry_run:
        _dry_run(spec, history, _program(config, name))
        return
    device = common.pick_device(config, serial)
    run = _run(config, device, spec, history, build=not no_build, device_dir=device_dir)
    _finish(run, before, csv_file, html, history.save(run))


def _check_writable(flag: str, file: Path | None) -> None:
    """Minutes of measuring are not to end with a file that cannot be written."""
    if file is None:
        return
    if file.is_dir():
        raise UsageError(f"{flag} {file} is a folder", hints=[f"{flag} {file}/bench.{flag.strip('-')}"])
    if not file.parent.is_dir():
        raise UsageError(f"{flag} {file}: there is no folder {file.parent}")
    if not os.access(file.parent, os.W_OK):
        raise UsageError(f"{flag} {file}: the folder {file.parent} cannot be written")


def _split(values: list[str] | None) -> tuple[str, ...]:
    """`--threads 1,4 --threads 8` → 1, 4, 8."""
    return tuple(dict.fromkeys(word for value in values or () for word in value.split(",") if word))


def _program(config: Config, name: str) -> str:
    """The program's file name, as far as it is known without a build."""
    known = config.apps.get(name)
    return Path(known.target if known and known.target else name).name


def _list(history: History, name: str | None) -> None:
    from devkit.bench import report

    runs = history.runs(name)
    rows = [
        {
            "id": run.id,
            "app": run.app,
            "started": run.started,
            "cells": len(run.cells),
            "runs": len(run.samples),
        }
        for run in runs
    ]
    output.current().data(
        rows, report.history_table(runs) if runs else "no benchmark was run in this project\n"
    )


def _dry_run(spec: Spec, history: History, program: str) -> None:
    from devkit import bench as room
    from devkit import process

    earlier = history.runs(spec.app)
    guess = room.estimate(spec, earlier[-1] if earlier else None)
    cells = spec.cells()
    lines = [f"{cell.label}: {process.show([program, *spec.arguments(cell, program)])}" for cell in cells]
    on = f" on processors: {spec.taskset}" if spec.taskset else ""
    lines.append(
        f"{len(cells)} combination{'s'[: len(cells) != 1]} × ({spec.warmup} + {spec.repeat}) runs{on}"
    )
    beside = (
        f", plus {guess.unknown} combination{'s'[: guess.unknown != 1]} that never ran"
        if guess.unknown
        else ""
    )
    lines.append(f"about {guess.seconds:.0f} s with pauses{beside}")
    data = {
        "app": spec.app,
        "cells": [{**cell.as_dict(), "args": list(spec.arguments(cell, program))} for cell in cells],
        "repeat": spec.repeat,
        "warmup": spec.warmup,
        "estimated_s": round(guess.seconds, 1),
        "cells_without_history": guess.unknown,
        "taskset": spec.taskset,
        "dry_run": True,
    }
    output.current().data(data, "\n".join(lines))


def _run(
    config: Config, device: Device, spec: Spec, history: History, *, build: bool, device_dir: str | None
) -> Run:
    from devkit import bench as room
    from devkit import runtime
    from devkit.bench.program_reader import program_reader

    started, stamp = room.started_now()
    samples: list[Sample] = []

    def record(complete: bool) -> Run:
        settings = {**_settings(spec), "complete": complete}
        run_id = history.new_id(spec.app, stamp)
        return room.Run(run_id, spec.app, started, _phone(device), settings, tuple(samples))

    total = len(spec.cells()) * (spec.repeat + spec.warmup)
    try:
        for profile in spec.profiles:
            local = runtime.build_app(config, device, spec.app, profile=profile, build=build)
            prepared = runtime.prepare_app(config, device, local, device_dir=device_dir)
            runtime.deploy_app(device, prepared)
            reader = program_reader(config, spec.app, prepared.plan.program, spec.metrics)
            cells = [cell for cell in spec.cells() if cell.profile == profile]
            with output.current().progress(f"{spec.app} {profile}", total / len(spec.profiles)) as bar:
                room.run_cells(
                    device, prepared, spec, cells, reader,
                    samples=samples, advance=bar.advance,
                )  # fmt: skip
    except BaseException:
        # Minutes of measuring are not thrown away because the link broke, or for a Ctrl-C.
        if samples:
            run = record(complete=False)
            history.save(run)
            output.current().note(f"{len(samples)} runs until then are kept: devkit bench --show {run.id}")
        raise
    return record(complete=True)


def _phone(device: Device) -> dict[str, str]:
    properties = device.properties
    return {
        "serial": device.serial,
        "model": device.model,
        "chip": properties.get("ro.soc.model", ""),
        "android": properties.get("ro.build.version.release", ""),
    }


def _settings(spec: Spec) -> dict[str, Any]:
    from dataclasses import asdict

    return {key: list(value) if isinstance(value, tuple) else value for key, value in asdict(spec).items()}


def _finish(
    run: Run, before: Run | None, csv_file: Path | None, html: Path | None, saved: Path | None
) -> None:
    from devkit import bench as room
    from devkit.bench import report

    comparisons: tuple[Comparison, ...] = room.compare_runs(before, run) if before else ()
    sink = output.current()
    if csv_file is not None:
        paths.write_atomically(csv_file, report.as_csv(run))
    if html is not None:
        from devkit.bench.chart import render_chart

        paths.write_atomically(html, render_chart(run, comparisons, before))
    lines = [report.as_table(run)]
    if before is not None:
        lines += [f"compared with {before.id}:", report.comparison_table(comparisons)]
        other = [key for key in run.phone if run.phone[key] != before.phone.get(key)]
        if other:
            sink.warn(f"the phone is another one, or has changed: {', '.join(other)}")
        pinned, pinned_before = run.settings.get("taskset"), before.settings.get("taskset")
        if pinned != pinned_before:
            sink.warn(f"--taskset differs: {pinned_before or 'none'} before, {pinned or 'none'} now")
        if not comparisons:
            sink.warn("nothing was measured in both: other combinations, or other metrics")
    if saved is not None:
        lines.append(f"kept as {run.id} (devkit bench --show {run.id}; --compare {run.id})")
    data = {
        **run.as_dict(),
        "compared_with": before.id if before else None,
        "file": str(saved) if saved else None,
    }
    data["comparisons"] = [comparison.as_dict() for comparison in comparisons]
    sink.data(data, "\n".join(lines))
    if run.failures or any(comparison.verdict == "worse" for comparison in comparisons):
        raise typer.Exit(EXIT_CHECK_FAILED)
