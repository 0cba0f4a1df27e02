"""A model folder as the engine reads it: a config.json merged with llm_config.json, and its base_dir."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from devkit.errors import UsageError
from devkit.models.findings import ERROR, WARNING, Finding
from devkit.models.keys import load_table

# ModelScope's file of the same look, which the engine never reads.
_NO_CONFIG = ("configuration.json",)
_BOM = "\ufeff"


@dataclass(frozen=True)
class ModelConfig:
    """One config.json with what the engine makes of it.

    Attributes:
        folder: the model folder.
        path: the config file.
        own: its content.
        model: the content of llm_config.json.
        merged: both; llm_config.json wins, as in the engine.
        base: where relative files begin.
    """

    folder: Path
    path: Path
    own: Mapping[str, Any]
    model: Mapping[str, Any]
    merged: Mapping[str, Any]
    base: Path
    findings: list[Finding] = field(default_factory=list, compare=False)

    @property
    def name(self) -> str:
        """The config file's name, for findings."""
        return relative(self.path, self.folder)

    @property
    def model_name(self) -> str:
        """The name of llm_config.json, for findings."""
        return relative(self.file("llm_config"), self.folder)

    def value(self, key: str) -> Any:
        """What the engine takes for a key: the default only when the key is not there.

        A value of another type becomes "", 0 or false (ujson.hpp of MNN), not the default.
        """
        fact = load_table().keys[key]
        if key not in self.merged:
            return fact.default
        value = self.merged[key]
        if fact.type in ("text", "file"):
            return value if isinstance(value, str) else ""
        if fact.type == "boolean":
            return value if isinstance(value, bool) else False
        if fact.type in ("integer", "number"):
            number = isinstance(value, (int, float)) and not isinstance(value, bool)
            return value if number else 0
        if fact.type == "list":
            return value if isinstance(value, list) else []
        return value

    def file(self, key: str) -> Path:
        """The file that a key names, or that the engine takes without it."""
        return self.base / str(self.value(key) or "")

    def place(self, key: str) -> str:
        """The file in which a key stands, for findings."""
        return self.model_name if key in self.model and key not in self.own else self.name


def relative(path: Path, folder: Path) -> str:
    """A path as findings name it: relative to the model folder where it is inside."""
    return os.path.relpath(path, folder) if path.is_relative_to(folder) else str(path)


def find_configs(place: Path) -> tuple[Path, ...]:
    """The config files of a model folder; config.json first. `place` may be one of them, too.

    Raises:
        UsageError: there is no such folder or file.
    """
    if place.is_file():
        if place.suffix != ".json":
            raise UsageError(
                f"{place} is no model folder and no config.json",
                hints=[f"devkit model check {place.parent}"],
            )
        return (place,)
    if not place.is_dir():
        raise UsageError(f"there is no folder {place}", hints=["devkit model check DIR"])
    found = [
        path for path in sorted(place.glob("config*.json")) if path.name not in _NO_CONFIG and path.is_file()
    ]
    return tuple(sorted(found, key=lambda path: path.name != "config.json"))


def read_config(path: Path) -> ModelConfig:
    """Read a config.json and the llm_config.json it leads to, as the engine does."""
    folder = path.parent
    findings: list[Finding] = []
    own = read_json(path, folder, findings)
    given = own.get("base_dir")
    # The engine puts it before every name as it is; a relative one begins at the program's folder.
    base = Path(given) if isinstance(given, str) and os.path.isabs(given) else folder
    if isinstance(given, str) and not (os.path.isabs(given) and given.endswith("/")):
        trouble = (
            "a relative one begins at the program's working folder"
            if not os.path.isabs(given)
            else "without a slash at its end it runs into the name"
        )
        findings.append(
            Finding(
                WARNING, path.name, "base_dir",
                f"base_dir {given!r} is put before every file name as it is: {trouble}",
                "leave base_dir out: files are looked for beside config.json then",
            )
        )  # fmt: skip
    name = own.get("llm_config", "llm_config.json")
    second = base / str(name)
    model: dict[str, Any] = {}
    if second.is_file():
        model = read_json(second, folder, findings)
    merged = _merge(own, model)
    return ModelConfig(folder, path, own, model, merged, base, findings)


def read_json(path: Path, folder: Path, findings: list[Finding]) -> dict[str, Any]:
    """A JSON object; what is wrong with it goes to `findings`, and it counts as empty then."""
    name = relative(path, folder)
    twice: list[str] = []

    def pairs(items: list[tuple[str, Any]]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key, value in items:
            if key in found:
                twice.append(key)
            else:
                found[key] = value  # rapidjson, too, finds the first
        return found

    def broken(what: str, hint: str = "") -> dict[str, Any]:
        # An unreadable file is an empty one to the engine: every key takes its default.
        findings.append(Finding(ERROR, name, None, what, hint))
        return {}

    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        return broken(f"it cannot be read: {error}")
    if text.startswith(_BOM):
        return broken(
            "it begins with a byte order mark, which MNN's JSON reader refuses", "save it as plain UTF-8"
        )
    try:
        content = json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        return broken(
            f"line {error.lineno}, column {error.colno}: {error.msg}; the engine takes defaults for all keys",
            "JSON has no comments and no comma after the last entry",
        )
    except RecursionError:
        return broken("it is nested too deeply to be a config")
    if not isinstance(content, dict):
        return broken("it holds no object ({...})")
    findings += [
        Finding(WARNING, name, key, f"{key} is given twice; the first one counts", "take one of them out")
        for key in dict.fromkeys(twice)
    ]
    return content


def _merge(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(first)
    for key, value in second.items():
        mine = merged.get(key)
        merged[key] = _merge(mine, value) if isinstance(mine, dict) and isinstance(value, dict) else value
    return merged
