"""`devkit qnn export`: a model compiled for a phone's NPU by the engine's own script."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output, paths, process
from devkit.cli import common
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device.soc import SocFacts
    from devkit.qnn.export.plan import ExportPlan
    from devkit.qnn.export.whole import Exported

EXAMPLE = (
    "Example: devkit qnn export ~/models/Qwen3-4B-MNN; devkit qnn export DIR --soc SM8650 --dry-run; "
    "devkit qnn export DIR --soc SM8750 --chunk-size 256 --extra=--max_history_token=4096"
)


def export(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL_DIR", help="A model folder as llmexport.py writes it.")
    ],
    serial: common.Serial = None,
    soc: Annotated[
        str | None, typer.Option(metavar="CHIP", help="The chip (SM8650) instead of the phone's.")
    ] = None,
    soc_id: Annotated[
        int | None, typer.Option("--soc-id", metavar="N", help="QNN's number of the chip (57).")
    ] = None,
    dsp_arch: Annotated[
        str | None, typer.Option("--dsp-arch", metavar="V##", help="Its Hexagon architecture (v75).")
    ] = None,
    chunk_size: Annotated[
        int | None, typer.Option("--chunk-size", min=1, metavar="N", help="Tokens of a prefill step.")
    ] = None,
    vtcm_mb: Annotated[
        int | None, typer.Option("--vtcm-mb", min=1, metavar="MB", help="VTCM to count on.")
    ] = None,
    extra: Annotated[
        list[str] | None,
        typer.Option("--extra", metavar="--NAME=VALUE", help="More for the script; repeatable."),
    ] = None,
    sdk: Annotated[str | None, typer.Option("--sdk", metavar="VERSION|PATH", help="SDK to use.")] = None,
    jobs: Annotated[
        int | None, typer.Option("-j", "--jobs", min=1, help="Graphs at a time, at most.")
    ] = None,
    memory: Annotated[
        float | None, typer.Option(metavar="GB", help="What they may take together (80 % of free).")
    ] = None,
    stage: Annotated[
        Path | None, typer.Option("--stage", metavar="DIR", help="Place for the staging folder.")
    ] = None,
    keep_stage: Annotated[bool, typer.Option("--keep-stage", help="Leave the staging folder.")] = False,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compile every graph.")] = False,
    no_build: common.NoBuild = False,
    dry_run: common.DryRun = False,
) -> None:
    """Compile a model for a phone's NPU: builds the tools, runs generate_llm_qnn.py, checks all.

    The old qnn/ stays until the new one has been checked. Exit code 125 when a step fails.
    """
    from devkit.cli.qnn import _find
    from devkit.qnn.export.plan import check_model, plan_export
    from devkit.qnn.export.whole import export as do_export
    from devkit.qnn.export.whole import host_tools

    config = common.load_config(serial=serial)
    wanted = {"chunk_size": chunk_size, "vtcm_mb": vtcm_mb}
    model = paths.expand_user(model).absolute()
    # A wrong folder or chip is told before an SDK is asked for.
    check_model(model, tuple(extra or ()))
    both = soc_id is not None and dsp_arch is not None
    chip = _chip(config, serial, soc, both) if soc is not None else None
    found = _find(sdk)
    if sdk is not None:
        # The tools are to be built with the headers of the SDK that compiles.
        config = _with_sdk(config, found.path)
    plan = plan_export(
        config,
        found,
        model,
        soc=chip or _chip(config, serial, soc, both),
        soc_id=soc_id,
        dsp_arch=dsp_arch,
        wanted={name: str(value) for name, value in wanted.items() if value is not None},
        more=tuple(extra or ()),
        stage=stage,
        jobs=jobs,
        memory_bytes=int(memory * 1e9) if memory is not None else None,
        use_cache=not no_cache,
    )
    if dry_run:
        output.current().data(plan.as_dict(), _plan_text(plan))
        return
    done = do_export(plan, host_tools(config, plan, build=not no_build), keep_stage=keep_stage)
    output.current().data(done.as_dict(), _text(done))


def _with_sdk(config: Config, sdk: Path) -> Config:
    from dataclasses import replace

    return replace(config, qnn=replace(config.qnn, path=sdk, version=None))


def _chip(config: Config, serial: str | None, name: str | None, told: bool) -> SocFacts | None:
    """The chip by its name, else of the phone; None where both numbers were given."""
    from devkit.cli.qnn_explain import known_chip
    from devkit.device.soc import require_arch, soc_of
    from devkit.errors import DeviceError

    if name is not None and serial is not None:
        raise UsageError("--soc and --serial say the chip both", hints=["leave one of them out"])
    if name is not None:
        return known_chip(name)[1]
    if told:
        return None
    try:
        device = common.pick_device(config, serial)
    except DeviceError as error:
        error.hints = (*error.hints, "--soc CHIP needs no phone (SM8650)")
        raise
    soc = soc_of(device, config)
    require_arch(soc, device.serial)
    for warning in soc.warnings:
        output.current().warn(warning)
    return soc


def _plan_text(plan: ExportPlan) -> str:
    chip = f"{plan.chip}: " if plan.chip else ""
    lines = [
        f"model    {plan.model}, called {plan.name} while it is exported",
        f"chip     {chip}soc_id {plan.soc_id}, dsp_arch {plan.dsp_arch}",
        f"SDK      QNN {plan.sdk.version} at {plan.sdk.path}",
        f"build    qnn-tools: {', '.join(plan.script.tools)}",
        f"run      {process.show([plan.python, plan.script.path, *plan.words])}",
        f"in       a new folder of {plan.stage_parent}",
        f"compile  {plan.jobs} graphs at a time within {output.human_bytes(plan.memory_bytes)}",
        f"swap     {plan.model}/qnn and config_qnn.json, when all graphs are there",
    ]
    return "\n".join([*lines, *(f"warning: {warning}" for warning in plan.warnings)])


def _text(done: Exported) -> str:
    graphs = done.seen.graphs.values()
    cached = sum(bool(graph["cached"]) for graph in graphs)
    size = output.human_bytes(sum(graph["size"] for graph in graphs))
    as_before = f" ({cached} of them as before, from the cache)" if cached else ""
    lines = [
        f"{done.plan.model}/qnn: {len(graphs)} graphs{as_before}, {size}, for {done.plan.dsp_arch}, "
        f"in {done.elapsed_s:.1f} s",
        *(
            f"  step {step.number}: {step.seconds:.1f} s"
            for step in done.seen.steps
            if step.seconds is not None
        ),
        f"  devkit qnn inspect {process.show([done.plan.model])}",
        f"  devkit model check {process.show([done.plan.model / 'config_qnn.json'])}",
    ]
    return "\n".join(lines)
