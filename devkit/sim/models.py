"""The phones that can be imitated: models.yaml, filled in for one phone."""

from __future__ import annotations

import difflib
import os
from pathlib import Path
from typing import Any

from devkit.errors import EXIT_USAGE, SimError
from devkit.sim.releases import Release

MODELS_FILE = Path(__file__).parent / "models.yaml"
# The ABI is that of the real processor: the phone's programs run on it.
_ABIS = {"x86_64": "x86_64", "aarch64": "arm64-v8a"}


def host_abi() -> str:
    """Android's name for this machine's processor.

    Raises:
        SimError: Android has no name for it.
    """
    machine = os.uname().machine
    if machine not in _ABIS:
        raise SimError(
            f"a virtual phone needs an x86_64 or aarch64 machine, this one is {machine}",
            hints=["use a real phone, or a server with one of these processors"],
        )
    return _ABIS[machine]


def model_names() -> list[str]:
    """All models there are."""
    return sorted(name for name in _load() if not name.startswith("."))


def hardware_row(model: str) -> dict[str, Any]:
    """What models.yaml says of a model's hardware, for `hardware.plan_files`.

    Raises:
        SimError: there is no such model.
    """
    return {key: value for key, value in _row(model).items() if key not in ("properties", "description")}


def default_release(model: str) -> str:
    """The Android release this model is sold with.

    Raises:
        SimError: there is no such model.
    """
    return str(_row(model)["android"])


def phone_properties(model: str, release: Release, *, abi: str, serial: str, image: str) -> dict[str, str]:
    """The properties of a phone of this model that runs this release.

    Args:
        serial: its ro.serialno.
        image: short hash of its /system.

    Raises:
        SimError: there is no such model.
    """
    row = _row(model)
    values = {
        "abi": abi,
        "abilist": abi,
        "serial": serial,
        "image": image,
        "release": release.properties["ro.build.version.release"],
    }
    properties = {key: str(text).format(**values) for key, text in row["properties"].items()}
    properties |= release.properties
    return {key: text for key, text in properties.items() if key not in release.removed_properties}


def _row(model: str) -> dict[str, Any]:
    known = model_names()
    if model not in known:
        near = difflib.get_close_matches(model, known, n=1)
        hint = f"did you mean {near[0]}?" if near else "known models: " + ", ".join(known)
        raise SimError(f"there is no phone model named {model}", hints=[hint], exit_code=EXIT_USAGE)
    row: dict[str, Any] = _load()[model]
    return row


def _load() -> dict[str, Any]:
    import yaml

    loaded: dict[str, Any] = yaml.safe_load(MODELS_FILE.read_text(encoding="utf-8"))
    return loaded
