"""`devkit qnn net-run`: one's own graph on a phone's backends, compared with a reference."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output, paths, process
from devkit.cli import common
from devkit.errors import EXIT_CHECK_FAILED, UsageError

if TYPE_CHECKING:
    from devkit.qnn.net_run.phone import Ran

EXAMPLE = (
    "Example: devkit qnn net-run --example demo; devkit qnn net-run demo/matmul.onnx --input demo/input.raw "
    "--reference demo/reference.npy --on cpu,gpu,htp; devkit qnn net-run model.onnx --input a.npy --offline"
)


def net_run(
    model: Annotated[
        Path | None,
        typer.Argument(metavar="[MODEL]", help="An .onnx, a converter's .cpp, a model library or context."),
    ] = None,
    inputs: Annotated[
        list[str] | None,
        typer.Option("--input", metavar="FILE[,FILE]", help="One inference: .raw, .npy; or a list (.txt)."),
    ] = None,
    reference: Annotated[
        list[str] | None,
        typer.Option("--reference", metavar="[NAME=]FILE", help="What comes out: .npy, .raw; repeatable."),
    ] = None,
    on: Annotated[
        str | None, typer.Option("--on", metavar="cpu,gpu,htp", help="Backends (default: all three).")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="HTP: compile here, the phone loads a context binary.")
    ] = False,
    tolerance: Annotated[
        float | None, typer.Option(min=0, metavar="X", help="Largest error instead of the backend's own.")
    ] = None,
    output_type: Annotated[
        str, typer.Option("--output-type", metavar="f4|f2|…", help="Type of the outputs' values.")
    ] = "f4",
    profiling: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="QNN's own profile: basic, detailed or linting.")
    ] = None,
    converter: Annotated[
        list[str] | None,
        typer.Option("--converter", metavar="WORD", help="A word for the converter; repeatable."),
    ] = None,
    op_package: Annotated[
        list[Path] | None,
        typer.Option("--op-package", metavar="DIR", help="HTP: a built op package; repeatable."),
    ] = None,
    more: Annotated[
        list[str] | None, typer.Option("--extra", metavar="WORD", help="A word for qnn-net-run; repeatable.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="DIR", help="For all that is made (devkit-out/net-run).")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0.1, metavar="S", help="End a run after this many seconds.")
    ] = None,
    example: Annotated[
        Path | None,
        typer.Option("--example", metavar="DIR", help="Write the articles' matrix product there and stop."),
    ] = None,
    serial: common.Serial = None,
    sdk: Annotated[str | None, typer.Option("--sdk", metavar="VERSION|PATH", help="SDK to use.")] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Convert a graph, run it on the phone's CPU, GPU and NPU with qnn-net-run, compare outputs.

    Exit code 1 when a backend fails or differs from the reference; 125 when nothing could be run.
    """
    from devkit.cli.qnn import _find
    from devkit.qnn.net_run import given, phone
    from devkit.qnn.net_run.arrays import TYPES, Tolerance
    from devkit.qnn.net_run.whole import Request, all_well, plan_run
    from devkit.qnn.net_run.whole import run as net_run_all
    from devkit.runtime.request import OUTPUT_FOLDER

    if example is not None:
        if dry_run:
            raise UsageError("--example has no --dry-run: it writes three small files into a folder")
        _write_example(paths.expand_user(example))
        return
    if model is None or not inputs:
        raise UsageError("MODEL and --input say what to run", hints=["devkit qnn net-run --example demo"])
    if profiling not in (None, *phone.PROFILING):
        raise UsageError(f"--profiling cannot be {profiling!r}", hints=["--profiling detailed"])
    if output_type not in TYPES:
        raise UsageError(
            f"--output-type cannot be {output_type!r}", evidence=f"it is one of {', '.join(TYPES)}"
        )
    config, found = common.load_config(serial=serial), _find(sdk)
    model = paths.expand_user(model).absolute()
    request = Request(
        model=model,
        work=out.absolute() if out is not None else config.root / OUTPUT_FOLDER / "net-run" / model.stem,
        inferences=given.parse_inputs(inputs),
        references=given.parse_references(reference or ()),
        backends=phone.known_backends(on or "cpu,gpu,htp"),
        chosen=on is not None,
        offline=offline,
        tolerance=Tolerance(tolerance, 0.0) if tolerance is not None else None,
        dtype=output_type,
        profiling=profiling,
        converter=tuple(converter or ()),
        packages=tuple(paths.expand_user(folder).absolute() for folder in op_package or ()),
        more=tuple(more or ()),
        timeout_s=timeout,
    )
    plan = plan_run(config, found, common.pick_device(config, serial), request)
    if dry_run:
        output.current().data(plan.as_dict(), "\n".join(plan.lines()))
        return
    results = net_run_all(plan)
    output.current().data({"model": str(model), "results": [r.as_dict() for r in results]}, _text(results))
    if not all_well(results):
        raise typer.Exit(EXIT_CHECK_FAILED)


def _write_example(folder: Path) -> None:
    from devkit.qnn.net_run.example import write_example

    made = write_example(folder)
    words: list[str | Path] = [
        "devkit",
        "qnn",
        "net-run",
        made.model,
        "--input",
        made.input,
        "--reference",
        made.reference,
    ]
    files = {"model": made.model, "input": made.input, "reference": made.reference}
    data = {name: str(file) for name, file in files.items()}
    output.current().data(data, "\n".join([*data.values(), f"  {process.show(words)}"]))


def _text(results: list[Ran]) -> str:
    rows: list[tuple[str, ...]] = []
    lines = []
    for ran in results:
        for one in ran.comparisons:
            allowed = one.tolerance
            rows.append(
                (
                    ran.backend,
                    one.output,
                    f"{one.max_abs:.3g}" if one.max_abs is not None else "-",
                    f"{one.mean_abs:.3g}" if one.mean_abs is not None else "-",
                    f"{allowed.absolute:g} + {allowed.relative:g}·|x|" if allowed else "-",
                    "ok" if one.within else one.problem or f"differs, most at value {one.worst}",
                )
            )
        if not ran.comparisons:
            rows.append((ran.backend, f"{len(ran.outputs)} files", "-", "-", "-", ran.state))
        if ran.why:
            lines.append(f"{ran.backend}: {ran.state}: {ran.why}")
            lines += [f"  try: {hint}" for hint in ran.hints]
    folders = [f"{ran.backend}: {ran.folder}" for ran in results if ran.folder and ran.outputs]
    for ran in results:
        told = [process.show(["devkit", "profile", "--engine", log]) for log in ran.profiles]
        folders += [f"{ran.backend}: {words}" for words in told]
    table = output.table(rows, ("BACKEND", "OUTPUT", "MAX ERROR", "MEAN", "ALLOWED", "VERDICT"))
    return "\n".join([table.rstrip("\n"), *lines, *folders])
