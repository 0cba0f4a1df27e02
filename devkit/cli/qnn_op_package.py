"""`devkit qnn op-package build|deploy`: one's own operations for QNN's HTP backend."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output, paths, process
from devkit.cli import common
from devkit.errors import UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device

app = typer.Typer(
    help="Build op packages of one's own and put them on the phone.",
    rich_markup_mode=None,
    no_args_is_help=True,
    epilog="Example: devkit qnn op-package build $QNN_SDK_ROOT/examples/QNN/OpPackage/HTP --soc SM8650; "
    "devkit qnn op-package deploy DIR --to net-run-htp",
)
PackageDir = Annotated[
    Path, typer.Argument(metavar="DIR", help="The package's folder, with Makefile and src/.")
]
Chip = Annotated[str | None, typer.Option("--soc", metavar="CHIP", help="The chip instead of the phone's.")]


@app.command("build", epilog="Example: devkit qnn op-package build DIR --soc SM8650 --dry-run")
def build(
    folder: PackageDir,
    serial: common.Serial = None,
    soc: Chip = None,
    hexagon: Annotated[
        Path | None, typer.Option("--hexagon", metavar="DIR", help="The Hexagon SDK (HEXAGON_SDK_ROOT).")
    ] = None,
    sdk: Annotated[str | None, typer.Option("--sdk", metavar="VERSION|PATH", help="SDK to use.")] = None,
    dry_run: common.DryRun = False,
) -> None:
    """Build an op package with its own Makefile: the half for the CPU and the half for the DSP.

    Exit code 125 when a toolchain is missing, or make fails.
    """
    from devkit.cli.qnn import _find
    from devkit.ndk.qnn_sdk import PHONE_TARGET
    from devkit.qnn import op_package

    package = op_package.read_package(paths.expand_user(folder).absolute())
    config, found = common.load_config(serial=serial), _find(sdk)
    target, arch = (
        (PHONE_TARGET, _arch_of(soc))
        if soc is not None
        else _phone(config, common.pick_device(config, serial), found)
    )
    plan = op_package.plan_build(
        config, found, package, target, arch,
        hexagon=paths.expand_user(hexagon).absolute() if hexagon else None,
    )  # fmt: skip
    if dry_run:
        output.current().data(plan.as_dict(), process.show(plan.argv))
        return
    made = op_package.build(plan)
    data = {**plan.as_dict(), "made": [str(file) for file in made]}
    lines = [*map(str, made), f"  devkit qnn op-package deploy {process.show([folder])}"]
    output.current().data(data, "\n".join(lines))


@app.command("deploy", epilog="Example: devkit qnn op-package deploy DIR --to net-run-htp")
def deploy(
    folder: PackageDir,
    to: Annotated[
        str, typer.Option("--to", metavar="APP", help="The app whose folder on the phone gets them.")
    ] = "net-run-htp",
    serial: common.Serial = None,
    device_dir: common.DeviceDir = None,
    dry_run: common.DryRun = False,
) -> None:
    """Put a built op package into an app's folder on the phone; prints how it is registered.

    Exit code 125 when it is not built for this phone.
    """
    import posixpath

    from devkit.qnn import op_package

    package = op_package.read_package(paths.expand_user(folder).absolute())
    config = common.load_config(serial=serial, device_dir=device_dir)
    device = common.pick_device(config, serial)
    from devkit.cli.qnn import _find

    target, arch = _phone(config, device, _find(None))
    libraries = op_package.built_libraries(package, target, arch)
    place = posixpath.join(device.writable_dir(config.device.dir), to)
    argument = op_package.registration(package, libraries)
    data = {
        "folder": place,
        "files": [{"local": str(one.path), "remote": one.remote, "for": one.processor} for one in libraries],
        "op_packages": argument,
    }
    lines = [f"{one.path} -> {posixpath.join(place, one.remote)} ({one.processor})" for one in libraries]
    lines.append(f"  --op_packages {argument}")
    if not dry_run:
        op_package.deploy(device, libraries, place)
    output.current().data(data, "\n".join(lines))


def _arch_of(chip: str) -> str:
    from devkit.cli.qnn_explain import known_chip

    _, facts = known_chip(chip)
    if facts is None or facts.dsp_arch is None:
        raise UsageError(f"which Hexagon {chip} has is not known", hints=["devkit qnn libs --soc CHIP"])
    return facts.dsp_arch


def _phone(config: Config, device: Device, sdk: object) -> tuple[str, str | None]:
    """The SDK's folder for a phone, and its Hexagon where it has one."""
    from devkit.device.soc import require_arch, soc_of
    from devkit.ndk.qnn_sdk import QnnSdk
    from devkit.ndk.qnn_sets import needs_arch, target_for

    assert isinstance(sdk, QnnSdk)
    target = target_for(sdk, device.abi, device.libc)
    if not needs_arch("htp-online", target):
        return target, None
    return target, require_arch(soc_of(device, config), device.serial)
