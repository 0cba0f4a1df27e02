"""What a model is checked against besides its own files: the libraries of a build, and the phone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from devkit.errors import BuildError, DeviceError, UsageError
from devkit.models.libraries import Libraries, libraries_here, libraries_on_phone

if TYPE_CHECKING:
    from devkit.config import Config
    from devkit.device import Device
    from devkit.device.cores import Cores


def find_phone(config: Config, serial: str | None) -> Device | None:
    """The phone that -s names, or one that is there anyway; None when none is, or several are.

    Raises:
        DeviceError: the phone that was asked for cannot be used.
    """
    from devkit.device import select_device

    try:
        return select_device(serial, config=config, may_start=serial is not None)
    except DeviceError:
        if serial is not None:
            raise
        return None


def find_cores(device: Device) -> Cores | None:
    """The phone's processors, in one round trip; None when it does not list them."""
    from devkit.device.cores import ask_cores

    cores = ask_cores(device)
    return cores if cores.all else None


def find_libraries(
    config: Config,
    folder: Path,
    *,
    profile: str | None = None,
    files: Sequence[Path] = (),
    device: Device | None = None,
) -> Libraries | None:
    """The engine's libraries that will run this model.

    In this order: `files`; the last build of `profile`; that of the app in devkit.yaml which takes the
    folder along; what was deployed on the phone. None when there are none.

    Raises:
        UsageError: a file does not exist, or none is of the engine.
        BuildError: `profile` was never built.
    """
    if files:
        absent = next((file for file in files if not file.is_file()), None)
        if absent is not None:
            raise UsageError(f"{absent} does not exist")
        named = libraries_here(files, "named by --library")
        if not named.names:
            raise UsageError(
                "--library names none of the engine's libraries",
                evidence=", ".join(file.name for file in files),
                hints=["name the libMNN.so that will run it, and beside it libMNN_CL.so and the like"],
            )
        return named
    if profile is not None:
        found = _of_build(config, profile)
        if found is None:
            raise BuildError(f"{profile} was never built", hints=[f"devkit build {profile}"])
        return found
    for name in _profiles_of(config, folder):
        found = _of_build(config, name)
        if found is not None:
            return found
    if device is not None:
        deployed = libraries_on_phone(device, config.device.dir)
        return deployed if deployed.names else None
    return None


def _profiles_of(config: Config, folder: Path) -> list[str]:
    """Profiles of the apps that carry this model along."""
    model = folder.resolve()
    return list(
        dict.fromkeys(
            app.profile
            for app in config.apps.values()
            if any(model.is_relative_to(file.local.resolve()) for file in app.files)
        )
    )


def _of_build(config: Config, profile: str) -> Libraries | None:
    from devkit.engine import editor_view, fileapi

    builds = editor_view.pick_builds(config.source, profile)
    if not builds:
        return None
    files = [a.path for a in fileapi.read_artifacts(builds[0].folder) if a.kind in ("shared", "module")]
    there = [file for file in files if file.is_file()]
    return libraries_here(there, f"the build {builds[0].name}")
