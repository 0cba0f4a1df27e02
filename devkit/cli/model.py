"""`devkit model`: model folders, checked before they travel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import EXIT_CHECK_FAILED

if TYPE_CHECKING:
    from devkit.models import ModelReport

app = typer.Typer(
    help="Check model folders, and fetch them from a hub.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit model check ~/models/Qwen3-1.7B-MNN",
)
_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


@app.command(epilog="Example: devkit model check ~/models/Qwen3-1.7B-MNN -s sim:phone --profile opencl")
def check(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="The model folder, or one config.json of it.")
    ],
    serial: common.Serial = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="Build whose libraries will run it (default: its app's).",
            autocompletion=common.complete_profiles,
        ),
    ] = None,
    library: Annotated[
        list[Path] | None,
        typer.Option("--library", metavar="FILE", help="A libMNN*.so that will run it; several are fine."),
    ] = None,
    no_phone: Annotated[
        bool, typer.Option("--no-phone", help="Look at no phone, even if one is there.")
    ] = False,
) -> None:
    """Check a model folder against what MNN reads; exit code 1 when it would not work.

    Files that are missing, misspelt, empty or cut short; unknown keys and values of the wrong type;
    chunk_limits against the exported shapes; with a phone, thread_num against its cores; with a build,
    backend_type against what was built.
    """
    report = _check(folder.expanduser(), serial, profile, library or [], no_phone)
    show_report(report)
    if report.broken:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _check(
    folder: Path, serial: str | None, profile: str | None, library: list[Path], no_phone: bool
) -> ModelReport:
    from devkit import models
    from devkit.models.surroundings import find_cores, find_libraries, find_phone

    config = common.load_config(serial=serial)
    device = None if no_phone and serial is None else find_phone(config, serial)
    libraries = find_libraries(config, folder, profile=profile, files=library, device=device)
    return models.check_model(
        folder,
        cores=find_cores(device) if device is not None else None,
        phone=device.model if device is not None else None,
        libraries=libraries,
    )


def show_report(report: ModelReport) -> None:
    """Print what a check found, the worst first."""
    sink = output.current()
    lines = []
    for finding in report.findings:
        severity = sink.style(f"{finding.severity}:", _STYLES[finding.severity], stream=_stdout())
        lines.append(f"{severity} {finding.file}: {finding.what}")
        if finding.hint:
            lines.append(f"  try: {finding.hint}")
    against = [
        f"the cores of {report.phone}" if report.phone else "",
        f"the backends in {report.libraries}" if report.libraries else "",
    ]
    beside = " and ".join(text for text in against if text)
    looked = ", ".join(report.configs) or "a folder without a configuration"
    counts = [(report.count(word), word) for word in ("error", "warning")]
    told = ", ".join(f"{count} {word}{'' if count == 1 else 's'}" for count, word in counts)
    summary = f"{report.folder}: {told} in {looked}"
    lines.append(summary + (f"; compared with {beside}" if beside else ""))
    sink.data(report.as_dict(), "\n".join(lines))


def _stdout() -> object:
    import sys

    return sys.stdout


@app.command(epilog="Example: devkit model get taobao-mnn/Qwen3-0.6B-MNN --to ~/models/qwen --dry-run")
def get(
    name: Annotated[str, typer.Argument(metavar="ORG/NAME", help="The model's name on the hub.")],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Where to put it (default: ./NAME).")
    ] = None,
    revision: Annotated[
        str | None, typer.Option(metavar="NAME", help="Branch, tag or commit (default: main).")
    ] = None,
    endpoint: Annotated[
        str | None,
        typer.Option(
            metavar="URL", help="Hub to ask (default: HF_ENDPOINT, else huggingface.co, then hf-mirror.com)."
        ),
    ] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only files that fit, as '*.mnn'.")
    ] = None,
    exclude: Annotated[list[str] | None, typer.Option(metavar="PATTERN", help="No files that fit.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace files that differ from the hub's.")] = False,
    dry_run: common.DryRun = False,
) -> None:
    """Fetch a model from a hub, continue where a break stopped it, prove it by its hashes, and check it.

    Needs huggingface_hub: pip install 'mnn-devkit[models]'. Exit code 1 when the check finds it broken.
    """
    from devkit.models import check_model
    from devkit.models.fetch import apply_fetch, plan_fetch
    from devkit.models.hub import endpoints

    places = endpoints(endpoint)
    folder = (to or Path(name.rpartition("/")[2])).expanduser()
    plan = plan_fetch(name, folder, places, revision=revision, include=include or (), exclude=exclude or ())
    sink = output.current()
    if dry_run:
        rows: list[tuple[str, ...]] = [
            (p.file.path, output.human_bytes(p.file.size), p.action) for p in plan.files
        ]
        total = f"{output.human_bytes(plan.missing_bytes)} to come from {plan.model.endpoint} to {folder}\n"
        sink.data({**plan.as_dict(), "dry_run": True}, output.table(rows, ("FILE", "SIZE", "ACTION")) + total)
        return
    apply_fetch(plan, places, force=force)
    came = output.human_bytes(plan.missing_bytes)
    sink.note(f"{name} is in {folder}: {len(plan.files)} files, {came} fetched, all hashes right")
    if include or exclude:
        # Part of a model: what is left out would be found missing.
        sink.data({**plan.as_dict(), "dry_run": False, "check": None}, "")
        return
    report = check_model(folder)
    if sink.json_mode:
        sink.data({**plan.as_dict(), "dry_run": False, "check": report.as_dict()})
    else:
        show_report(report)
    if report.broken:
        raise typer.Exit(EXIT_CHECK_FAILED)
