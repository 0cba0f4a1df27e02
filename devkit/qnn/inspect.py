"""What QNN files say of themselves, and whether they belong together, to a chip and to an SDK."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.ndk.qnn_sdk import QnnSdk, is_sdk
from devkit.ndk.qnn_version import short_version
from devkit.qnn.checks import BROKEN, PHONE_ABI, WARNING, Check, Surroundings, run_checks
from devkit.qnn.inventory import MACHINE, Inventory, take_inventory
from devkit.qnn.model_graphs import Graph, find_graphs
from devkit.qnn.system_library import ContextInfo, read_graphs, system_library

if TYPE_CHECKING:
    from devkit.device.soc import SocFacts


@dataclass(frozen=True)
class Inspection:
    """Everything that was found in one place.

    Attributes:
        inside: what libQnnSystem says of each context binary; empty without an SDK whose library runs here.
    """

    place: Path
    inventory: Inventory
    graphs: tuple[Graph, ...]
    checks: tuple[Check, ...]
    inside: Mapping[Path, ContextInfo] = field(default_factory=dict)

    @property
    def broken(self) -> bool:
        """Whether these files will not run together, or not on the chip or SDK they were held against."""
        return any(check.state == BROKEN for check in self.checks)

    @property
    def empty(self) -> bool:
        """Whether nothing of QNN is there."""
        return not (self.inventory.qnn() or self.inventory.contexts or self.graphs)

    def as_dict(self) -> dict[str, Any]:
        return {
            "place": str(self.place),
            "status": "broken" if self.broken else "ok",
            "libraries": [library.as_dict() for library in self.inventory.qnn()],
            "contexts": [
                {
                    **context.as_dict(),
                    "inside": info.as_dict() if (info := self.inside.get(context.path)) else None,
                }
                for context in self.inventory.contexts
            ],
            "graphs": [graph.as_dict() for graph in self.graphs],
            "checks": [check.as_dict() for check in self.checks],
        }


def inspect(
    place: Path,
    *,
    soc: SocFacts | None = None,
    sdk_version: str | None = None,
    reader: QnnSdk | None = None,
) -> Inspection:
    """Look at a context binary, a library, a model folder, or a folder with files for a phone.

    Args:
        soc: the chip they are meant for.
        sdk_version: the QNN SDK whose libraries will load the context binaries: 2.42.0.251225.
        reader: the SDK whose libQnnSystem.so is asked for graphs and tensors.

    Raises:
        UsageError: there is no such place.
        FileError: a file cannot be read.
    """
    inventory = take_inventory(place)
    graphs, found = find_graphs(place) if place.is_dir() or place.suffix == ".mnn" else ([], [])
    checks = run_checks(_names(place, inventory), inventory, Surroundings(soc))
    if sdk_version is not None:
        checks += _against_sdk(inventory, sdk_version)
    inside: dict[Path, ContextInfo] = {}
    files = [context.path for context in inventory.contexts]
    if reader is not None and files and (library := system_library(reader)) is not None:
        inside = read_graphs(reader, library, files)
        checks += [*_readable(inventory, inside, reader.version), *_names_inside(place, graphs, inside)]
    return Inspection(place, inventory, tuple(graphs), (*found, *checks), inside)


def _names(place: Path, inventory: Inventory) -> list[str]:
    if not place.is_dir():
        return ["arch", "context"]
    if is_sdk(place):
        return ["versions"]  # it has files for many machines and all chips
    names = ["versions", "arch", "context"]
    if any(library.path.name == "libQnnHtp.so" for library in inventory.libraries) or inventory.parts("Stub"):
        names[1:1] = ["stub", "skel"]
    machines = {library.elf.machine for library in inventory.libraries if library.elf}
    abis = {library.elf.abi for library in inventory.libraries if library.elf}
    if PHONE_ABI in abis or MACHINE in machines:
        names.insert(len(names) - 1, "abi")
    return names


def _readable(inventory: Inventory, inside: Mapping[Path, ContextInfo], version: str) -> Iterator[Check]:
    """Files that libQnnSystem cannot read: damaged, unless they are of a newer QNN than the library."""
    for context in inventory.contexts:
        info = inside.get(context.path)
        if info is None or info.error is None:
            continue
        name = context.path.name
        newer = _numbers(short_version(context.facts.build_id)) > _numbers(version)
        if info.malformed and not newer:
            yield Check(
                "context", BROKEN, f"{name} is damaged: libQnnSystem.so of {version} calls it malformed",
                str(context.path), "it was cut off, or the export broke off: make or copy it again",
            )  # fmt: skip
        else:
            yield Check(
                "inside", WARNING, f"the graphs of {name} are not known: {info.error}", str(context.path)
            )


def _names_inside(place: Path, graphs: list[Graph], inside: Mapping[Path, ContextInfo]) -> Iterator[Check]:
    """The graphs that a plugin op asks for against those that its file holds."""
    base = place if place.is_dir() else place.parent
    for graph in graphs:
        info = inside.get(base / graph.file) if graph.file else None
        if info is None or not info.graphs:
            continue
        there = {one.name for one in info.graphs}
        missing = [name for name in graph.graphs if name not in there]
        if missing:
            yield Check(
                "graphs", BROKEN,
                f"{graph.file} holds no graph {', '.join(missing)}, which {graph.model} asks for; it holds "
                f"{', '.join(sorted(there))}",
                graph.file, "the file is of another export: take the whole qnn/ folder of one",
            )  # fmt: skip


def _against_sdk(inventory: Inventory, version: str) -> list[Check]:
    found = []
    mine = _numbers(version)
    for context in inventory.contexts:
        made = short_version(context.facts.build_id)
        if _numbers(made) > mine:
            found.append(
                Check(
                    "sdk", BROKEN, f"{context.path.name} was made by QNN {made}, the SDK is {version}",
                    str(context.path), "make it again with this SDK, or load it with newer libraries",
                )
            )  # fmt: skip
        elif _numbers(made) < mine:
            found.append(
                Check(
                    "sdk", WARNING, f"{context.path.name} was made by QNN {made}, the SDK is {version}",
                    str(context.path), "an older context binary usually loads; export again if it does not",
                )
            )  # fmt: skip
    return found


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:3] if part.isdigit())
