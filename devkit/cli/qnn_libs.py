"""`devkit qnn libs`: the files of the QNN SDK that a backend needs on the phone."""

from __future__ import annotations

from typing import Annotated

import typer

from devkit import output
from devkit.cli import common
from devkit.errors import UsageError

EXAMPLE = "Example: devkit qnn libs htp-offline --soc SM8650; devkit qnn libs gpu --json"


def libs(
    backend: Annotated[
        str, typer.Argument(metavar="BACKEND", help="cpu, gpu, htp-online or htp-offline (context binaries).")
    ] = "htp-online",
    soc: Annotated[
        str | None, typer.Option(metavar="CHIP", help="The chip (SM8650) instead of the phone's.")
    ] = None,
    arch: Annotated[
        str | None, typer.Option(metavar="V##", help="The Hexagon architecture (v75) instead of the phone's.")
    ] = None,
    target: Annotated[
        str | None, typer.Option(metavar="TARGET", help="aarch64-android, … instead of the phone's.")
    ] = None,
    program: Annotated[
        str | None, typer.Option(metavar="NAME", help="A program that opens more: qnn-net-run.")
    ] = None,
    serial: common.Serial = None,
    sdk: Annotated[
        str | None,
        typer.Option("--sdk", metavar="VERSION|PATH", help="SDK to use instead of the configured one."),
    ] = None,
) -> None:
    """The files of ONE SDK that a backend needs on the phone, with the version inside each.

    Exit code 2: no such backend, chip or target; 125: the SDK lacks a file, or no phone says its chip.
    """
    from devkit import config as configuration
    from devkit.cli.qnn import _find
    from devkit.device.soc import decide, load_chips, require_arch, soc_of
    from devkit.ndk.qnn_sdk import PHONE_TARGET, warn_about_conflicts
    from devkit.ndk.qnn_sets import backend_names, library_set, needs_arch, target_for

    if backend not in backend_names():
        near = [name for name in backend_names() if name.startswith(backend.lower())]
        near = near or [name for name in (configuration.nearest(backend, backend_names()),) if name]
        hints = [f"did you mean {' or '.join(near)}?"] if near else []
        raise UsageError(
            f"there is no QNN backend {backend!r}", hints=[*hints, "one of: " + ", ".join(backend_names())]
        )
    settings = common.load_config(serial=serial)
    found = _find(sdk)
    warn_about_conflicts(found)
    if soc is not None:
        arch = arch or require_arch(decide({}, load_chips(settings.socs), told=soc), soc)
    if target is None and arch is not None and serial is None:
        target = PHONE_TARGET  # no phone is needed to know the rest
    device = None
    if target is None:
        device = common.pick_device(settings, serial)
        target = target_for(found, device.abi, device.libc)
    elif target not in found.target_folders():
        raise UsageError(
            f"this QNN SDK has no target {target!r}",
            evidence=f"QNN SDK {found.version} at {found.path}",
            hints=["targets: " + ", ".join(found.target_folders())],
        )
    if needs_arch(backend, target) and arch is None:
        device = device or common.pick_device(settings, serial)
        arch = require_arch(soc_of(device, settings), device.serial)
    files = library_set(found, backend, target, arch=arch, program=program)
    rows: list[tuple[str, ...]] = [
        (f.name, f.kind, output.human_bytes(f.path.stat().st_size), f.build_id or "-", str(f.path))
        for f in files.files
    ]
    folder = f"{settings.device.dir}/APP"
    variables = {"LD_LIBRARY_PATH": folder}
    if files.has_dsp_code:
        variables["ADSP_LIBRARY_PATH"] = folder
    text = f"{files.backend} of QNN {files.version} for {files.target}" + (
        f", Hexagon {files.arch}\n" if files.arch else "\n"
    )
    text += output.table(rows, ("FILE", "KIND", "SIZE", "VERSION INSIDE", "FROM"))
    text += "in one folder on the phone, with " + " ".join(f"{k}={v}" for k, v in variables.items()) + "\n"
    output.current().data({**files.as_dict(), "environment": variables}, text)
