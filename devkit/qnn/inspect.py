"""What QNN files say of themselves, and whether they belong together, to a chip and to an SDK."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.ndk.qnn_sdk import is_sdk
from devkit.ndk.qnn_version import short_version
from devkit.qnn.checks import BROKEN, PHONE_ABI, WARNING, Check, Surroundings, run_checks
from devkit.qnn.inventory import MACHINE, Inventory, take_inventory
from devkit.qnn.model_graphs import Graph, find_graphs

if TYPE_CHECKING:
    from devkit.device.soc import SocFacts


@dataclass(frozen=True)
class Inspection:
    """Everything that was found in one place."""

    place: Path
    inventory: Inventory
    graphs: tuple[Graph, ...]
    checks: tuple[Check, ...]

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
            "contexts": [context.as_dict() for context in self.inventory.contexts],
            "graphs": [graph.as_dict() for graph in self.graphs],
            "checks": [check.as_dict() for check in self.checks],
        }


def inspect(place: Path, *, soc: SocFacts | None = None, sdk_version: str | None = None) -> Inspection:
    """Look at a context binary, a library, a model folder, or a folder with files for a phone.

    Args:
        soc: the chip they are meant for.
        sdk_version: the QNN SDK whose libraries will load the context binaries: 2.42.0.251225.

    Raises:
        UsageError: there is no such place.
        FileError: a file cannot be read.
    """
    inventory = take_inventory(place)
    graphs, found = find_graphs(place) if place.is_dir() or place.suffix == ".mnn" else ([], [])
    checks = run_checks(_names(place, inventory), inventory, Surroundings(soc))
    if sdk_version is not None:
        checks += _against_sdk(inventory, sdk_version)
    return Inspection(place, inventory, tuple(graphs), (*found, *checks))


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
