"""Options that verbs share, and the steps from them to a phone and an app."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import config as configuration
from devkit.errors import DevkitError, UsageError

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.runtime import PreparedApp


def complete_profiles(incomplete: str) -> list[str]:
    """Build profiles, for the shell's completion; none where the settings cannot be read."""
    from devkit import engine

    try:
        names = engine.profiles_for(configuration.load())
    except DevkitError:
        return []
    return [name for name in names if name.startswith(incomplete)]


def complete_types(incomplete: str) -> list[str]:
    """Build types, for the shell's completion."""
    return [name for name in configuration.BUILD_TYPES if name.startswith(incomplete)]


App = Annotated[
    str, typer.Argument(metavar="APP", help="App of devkit.yaml, CMake target, or an executable's path.")
]
Args = Annotated[
    list[str] | None, typer.Argument(metavar="[-- ARGS]", help="Arguments instead of the app's own.")
]
Serial = Annotated[
    str | None, typer.Option("-s", "--serial", metavar="SERIAL", help="Which phone (or sim:NAME).")
]
Profile = Annotated[
    str | None,
    typer.Option(
        "--profile", metavar="NAME", help="Build profile instead of the app's own.",
        autocompletion=complete_profiles,
    ),
]  # fmt: skip
DeviceDir = Annotated[
    str | None, typer.Option("--device-dir", metavar="DIR", help="Folder on the phone instead of device.dir.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done and change nothing.")]
PrintCommands = Annotated[
    bool, typer.Option("--print-commands", help="Print the adb / cmake / lldb lines behind it and stop.")
]
NoBuild = Annotated[bool, typer.Option("--no-build", help="Take what the last build made.")]
BuildType = Annotated[
    str | None,
    typer.Option(
        "--type", metavar="TYPE", help="Build type: debug, release, profile or relwithdebinfo.",
        autocompletion=complete_types,
    ),
]  # fmt: skip


def _complete_ndks(incomplete: str) -> list[str]:
    from devkit.ndk import Ndk, known_ndks

    names = {Ndk(c.path, c.revision, c.origin).release for c in known_ndks() if c.revision[:1].isdigit()}
    return sorted(name for name in names if name.startswith(incomplete))


NdkChoice = Annotated[
    str | None,
    typer.Option(
        "--ndk",
        metavar="RELEASE|PATH",
        help="NDK to use instead of the configured one.",
        autocompletion=_complete_ndks,
    ),
]


def complete_releases(incomplete: str) -> list[str]:
    """NDK releases that can be installed."""
    from devkit.ndk.releases import load_releases

    return [r.name for r in load_releases().releases if r.name.startswith(incomplete)]


def load_config(
    *,
    serial: str | None = None,
    device_dir: str | None = None,
    build_type: str | None = None,
    ndk: str | None = None,
) -> Config:
    """The configuration with a command's flags on top."""
    if ndk is not None and not ndk.strip():
        raise UsageError("--ndk is empty", hints=["leave --ndk out, or name one: devkit ndk list"])
    # A release has neither a slash nor a leading ~ or dot.
    is_release = ndk is not None and re.fullmatch(r"r?\d[\w.-]*", ndk) is not None
    return configuration.load(
        flags={
            "ndk.version" if is_release else "ndk.path": ("--ndk", ndk),
            "device.serial": ("--serial", serial),
            "device.dir": ("--device-dir", device_dir),
            "build.type": ("--type", build_type),
        }
    )


def pick_device(config: Config, serial: str | None) -> Device:
    """The one phone a command works on."""
    from devkit.device import select_device

    return select_device(serial, config=config)


def prepare_app(
    name: str,
    *,
    serial: str | None,
    profile: str | None,
    device_dir: str | None,
    ndk: str | None,
    build: bool,
    prune: bool = False,
    build_type: str | None = None,
    look: Callable[[Config, Device], None] | None = None,
) -> tuple[Config, Device, PreparedApp]:
    """From the options that deploy, run and debug share to an app that is built and planned.

    On the phone nothing changes yet, except that the folder is made.

    Args:
        build: False takes what the last build made.
        prune: plan to remove what earlier deployments left.
        build_type: instead of the configured one.
        look: called before the build, to refuse what is wrong.
    """
    config = load_config(serial=serial, device_dir=device_dir, ndk=ndk, build_type=build_type)
    device = pick_device(config, serial)
    if look is not None:
        look(config, device)
    from devkit import runtime

    # In this order: what comes after the question loads while the phone answers.
    head_start = runtime.HeadStart(config, device, *runtime.find_app(config, name))
    local = runtime.build_app(config, device, name, profile=profile, build=build, head_start=head_start)
    return config, device, runtime.prepare_app(config, device, local, prune=prune)


def symbolizer_of_ndk(config: Config | None) -> Path | None:
    """The NDK's llvm-symbolizer; None where there is no NDK, so that one of this machine is looked for."""
    if config is None:
        return None
    from devkit.ndk import ndk_for

    with contextlib.suppress(DevkitError):
        return ndk_for(config).find_tool("llvm-symbolizer")
    return None
