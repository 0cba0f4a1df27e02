"""CMake's file API: what a build folder will make, and from which cache; see cmake-file-api(7)."""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit.errors import BuildError

_CLIENT = "client-devkit"
_QUERIES = ("codemodel-v2", "cache-v2", "toolchains-v1")
_KINDS = {
    "EXECUTABLE": "executable",
    "SHARED_LIBRARY": "shared",
    "MODULE_LIBRARY": "module",
    "STATIC_LIBRARY": "static",
}


@dataclass(frozen=True)
class Artifact:
    """A file that a target makes. kind: executable, shared, module or static."""

    path: Path
    kind: str
    target: str

    @property
    def name(self) -> str:
        """The file's name."""
        return self.path.name


def write_query(build_dir: Path) -> None:
    """Ask CMake to describe the build the next time it configures."""
    folder = build_dir / ".cmake" / "api" / "v1" / "query" / _CLIENT
    folder.mkdir(parents=True, exist_ok=True)
    for query in _QUERIES:
        (folder / query).touch()


@dataclass(frozen=True)
class Target:
    """A target of the project.

    Attributes:
        artifact: the file it makes, whether built yet or not; None for those that make none.
        sources: its source files that are not generated, those of its object libraries too.
    """

    name: str
    artifact: Artifact | None
    sources: tuple[Path, ...]


def read_targets(build_dir: Path) -> tuple[Target, ...]:
    """All targets that the project defines, ordered by name.

    Raises:
        BuildError: CMake has not described this folder.
    """
    codemodel = _reply(build_dir, "codemodel-v2")
    source = Path(codemodel["paths"]["source"])
    loaded = {target["id"]: target for target in _targets(build_dir)}
    found = [
        Target(target["name"], _artifact(build_dir, target), _sources(source, target, loaded))
        for target in loaded.values()
    ]
    return tuple(sorted(found, key=lambda target: target.name))


def read_artifacts(build_dir: Path) -> tuple[Artifact, ...]:
    """Programs and libraries of all targets, whether built yet or not, ordered by target.

    Raises:
        BuildError: CMake has not described this folder.
    """
    return tuple(target.artifact for target in read_targets(build_dir) if target.artifact is not None)


def read_target_names(build_dir: Path) -> tuple[str, ...]:
    """Names of all targets that the project defines, custom ones too.

    Raises:
        BuildError: CMake has not described this folder.
    """
    codemodel = _reply(build_dir, "codemodel-v2")
    return tuple(sorted(target["name"] for target in codemodel["configurations"][0]["targets"]))


def read_cache(build_dir: Path) -> dict[str, tuple[str, str]]:
    """The cache as CMake saw it: name → (type, value).

    Raises:
        BuildError: CMake has not described this folder.
    """
    cache = _reply(build_dir, "cache-v2")
    return {entry["name"]: (entry["type"], entry["value"]) for entry in cache["entries"]}


def _artifact(build_dir: Path, target: dict[str, Any]) -> Artifact | None:
    if target["type"] not in _KINDS:
        return None
    for entry in target.get("artifacts", ()):
        # Import libraries and .pdb files are listed beside the product.
        if Path(entry["path"]).name == target.get("nameOnDisk", Path(entry["path"]).name):
            return Artifact(_below(build_dir, entry["path"]), _KINDS[target["type"]], target["name"])
    return None


def _sources(source: Path, target: dict[str, Any], loaded: dict[str, dict[str, Any]]) -> tuple[Path, ...]:
    objects = [target]
    for current in objects:
        for dependency in current.get("dependencies", ()):
            below = loaded.get(dependency["id"])
            if below is not None and below["type"] == "OBJECT_LIBRARY" and below not in objects:
                objects.append(below)
    return tuple(
        source / entry["path"]
        for part in objects
        for entry in part.get("sources", ())
        if not entry.get("isGenerated") and "compileGroupIndex" in entry
    )


def _targets(build_dir: Path) -> list[dict[str, Any]]:
    reply = _reply_folder(build_dir)
    codemodel = _reply(build_dir, "codemodel-v2")
    return [_load(reply / target["jsonFile"]) for target in codemodel["configurations"][0]["targets"]]


def _reply(build_dir: Path, query: str) -> dict[str, Any]:
    folder = _reply_folder(build_dir)
    # The newest index has the last name in alphabetical order.
    indexes = sorted(folder.glob("index-*.json"))
    answer = _load(indexes[-1])["reply"].get(_CLIENT, {}).get(query, {}) if indexes else {}
    if "jsonFile" not in answer:
        raise BuildError(
            f"CMake did not describe the build in {build_dir}",
            evidence=answer.get("error") or f"no answer to {query} in {folder}",
            # CMake writes its answer in silence and ends with 0 also when the disk is full.
            hints=[f"check the free space: df {shlex.quote(str(build_dir))}", "devkit build --clean"],
        )
    return _load(folder / answer["jsonFile"])


def _reply_folder(build_dir: Path) -> Path:
    return build_dir / ".cmake" / "api" / "v1" / "reply"


def _load(file: Path) -> dict[str, Any]:
    try:
        loaded: dict[str, Any] = json.loads(file.read_bytes())
    except (OSError, ValueError) as error:
        raise BuildError(
            f"CMake's description of the build cannot be read: {file.name}",
            evidence=str(error),
            hints=["devkit build --clean"],
        ) from None
    return loaded


def _below(build_dir: Path, path: str) -> Path:
    # Outside the build folder CMake gives absolute paths, which win here.
    return build_dir / path
