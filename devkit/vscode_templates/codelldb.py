"""Which CodeLLDB VS Code has, and what that version needs."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

EXTENSION = "vadimcn.vscode-lldb"
# Where VS Code on this machine, its server for Remote-SSH, and its relatives keep extensions.
_FOLDERS = (
    ".vscode-server",
    ".vscode",
    ".vscode-server-insiders",
    ".vscode-insiders",
    ".cursor-server",
    ".cursor",
)
_NAME = re.compile(rf"{re.escape(EXTENSION)}-(\d+(?:\.\d+)*)(?:-[\w-]+)?$", re.IGNORECASE)


@dataclass(frozen=True)
class Quirks:
    """How to write a configuration for one version.

    Attributes:
        request: the configuration's "request".
        goes_on: the process goes on by itself after processCreateCommands.
        notes: what is known to go wrong, a sentence each.
    """

    request: str
    goes_on: bool = False
    notes: tuple[str, ...] = ()


MODERN = Quirks("attach")


def installed_version(home: Path | None = None) -> str | None:
    """The newest CodeLLDB among the extensions of this user, or None."""
    home = home or Path.home()
    folders = [home / name / "extensions" for name in _FOLDERS]
    if os.environ.get("VSCODE_EXTENSIONS"):
        folders.insert(0, Path(os.environ["VSCODE_EXTENSIONS"]))
    return max(_versions(folders), key=_numbers, default=None)


def quirks_of(version: str | None) -> Quirks:
    """What a version needs; None is one that will be installed: the newest."""
    import yaml

    text = (resources.files("devkit.vscode_templates") / "codelldb.yaml").read_text("utf-8")
    request, goes_on, notes = MODERN.request, MODERN.goes_on, []
    for row in yaml.safe_load(text) if version is not None else ():
        assert version is not None
        if not _numbers(str(row["from"])) <= _numbers(version) < _numbers(str(row["below"])):
            continue
        request, goes_on = row.get("recipe", request), row.get("goes_on", goes_on)
        if "note" in row:
            notes.append(f"CodeLLDB {version} {row['note']}")
    return Quirks(request, goes_on, tuple(notes))


def _versions(folders: Iterable[Path]) -> list[str]:
    found = []
    for folder in folders:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        found += [match[1] for name in names if (match := _NAME.match(name))]
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
