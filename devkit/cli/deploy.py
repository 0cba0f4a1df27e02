"""`devkit deploy APP`: push a program and all it needs."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output
from devkit.cli import common

app = typer.Typer(rich_markup_mode=None)


@app.command(epilog="Example: devkit deploy llm_demo --dry-run")
def deploy(
    name: common.App,
    serial: common.Serial = None,
    profile: common.Profile = None,
    device_dir: common.DeviceDir = None,
    ndk: common.NdkChoice = None,
    no_build: common.NoBuild = False,
    prune: Annotated[
        bool,
        typer.Option("--prune", help="Remove what devkit put there for earlier deployments of APP."),
    ] = False,
    dry_run: common.DryRun = False,
) -> None:
    """Build APP and push what changed: the program, its libraries, its files."""
    from devkit import runtime

    _, device, prepared = common.prepare_app(
        name, serial=serial, profile=profile, device_dir=device_dir, ndk=ndk, build=not no_build, prune=prune
    )
    if not dry_run:
        runtime.deploy_app(device, prepared)
    plan = prepared.plan
    data = {**plan.as_dict(), "dry_run": dry_run, "warnings": list(prepared.warnings)}
    if dry_run:
        from devkit.runtime.wire import wire_sizes

        wire = wire_sizes(plan, device.features, far=device.is_far)
        data["files"] = [{**f, "wire_size": wire.get(f["remote"], 0)} for f in data["files"]]
        data["wire_bytes"] = sum(wire.values())
        text = plan.as_text(wire)
    elif not plan.is_done:
        size = output.human_bytes(plan.push_bytes)
        text = f"pushed {len(plan.to_push)} of {len(plan.files)} files ({size}) to {plan.folder}"
        text += f", removed {len(plan.removed)}" if plan.removed else ""
    else:
        text = f"nothing to push: all {len(plan.files)} files in {plan.folder} are up to date"
    output.current().data(data, text)
