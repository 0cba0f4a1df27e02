"""What a shell is to have for the toolchains in use: their variables and additions, from the settings."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from devkit import output
from devkit.errors import ToolMissing
from devkit.ndk.environment import Exports
from devkit.ndk.locate import ndk_for
from devkit.ndk.qnn_sdk import QNN_VARIABLES, qnn_environment, qnn_sdk_for, tool_environment

if TYPE_CHECKING:
    from devkit.config import Config


def find_exports(config: Config, environ: Mapping[str, str] | None = None) -> Exports:
    """What there is to export, and notes for what is missing or broken.

    A QNN SDK that nobody names is no note: most engines are built without one, and the line would
    come with every new shell that evaluates the exports.

    The QNN SDK's LD_LIBRARY_PATH is left out: in a shell it would change what every other program
    loads (`qnn_tool_libraries` is for its own tools).
    """
    notes: list[str] = []
    variables: dict[str, str] = {}
    additions: list[tuple[str, str]] = []
    try:
        ndk = ndk_for(config, environ)
        additions.append(("PATH", str(ndk.prebuilt / "bin")))
        variables |= ndk.environment
        if ndk.missing:
            notes.append(f"the NDK in {ndk.path} is not complete: it lacks {', '.join(ndk.missing)}")
    except ToolMissing as missing:
        notes.append(missing.what)
    try:
        values = qnn_environment(qnn_sdk_for(config, environ))
        variables |= {name: values[name] for name in QNN_VARIABLES}
        for name in ("PATH", "PYTHONPATH"):
            additions += [(name, folder) for folder in values.get(name, "").split(os.pathsep) if folder]
    except ToolMissing as missing:
        if _names_qnn_sdk(config, os.environ if environ is None else environ):
            notes.append(f"no QNN SDK: {missing.what}")
        else:
            output.current().detail(missing.what)
    return Exports(tuple(variables.items()), tuple(additions), tuple(notes))


def qnn_tool_libraries(config: Config, program: Path) -> dict[str, str]:
    """LD_LIBRARY_PATH for a program of the QNN SDK; nothing for any other program."""
    try:
        sdk = qnn_sdk_for(config)
    except ToolMissing:
        return {}
    if not program.resolve().is_relative_to(sdk.path.resolve()):
        return {}
    return {name: v for name, v in tool_environment(sdk).items() if name == "LD_LIBRARY_PATH"}


def _names_qnn_sdk(config: Config, environ: Mapping[str, str]) -> bool:
    named = config.qnn.path is not None or config.qnn.version is not None
    return named or any(environ.get(name) for name in QNN_VARIABLES)
