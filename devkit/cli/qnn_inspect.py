"""`devkit qnn inspect`: what QNN files say of themselves. No phone is needed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from devkit import output, paths
from devkit.errors import EXIT_CHECK_FAILED, FileError

if TYPE_CHECKING:
    from devkit.ndk.qnn_sdk import QnnSdk
    from devkit.qnn.inspect import Inspection

EXAMPLE = (
    "Example: devkit qnn inspect model/qnn/graph0.bin; devkit qnn inspect ~/models/Qwen3-QNN --soc SM8650; "
    "devkit qnn inspect pushed/ --sdk 2.42"
)


def inspect(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="FILE|DIR", help="A context binary, library or model folder, files for a phone."
        ),
    ],
    soc: Annotated[
        str | None, typer.Option(metavar="CHIP", help="The chip they are meant for (SM8650).")
    ] = None,
    sdk: Annotated[
        str | None,
        typer.Option("--sdk", metavar="VERSION|PATH", help="The SDK whose libraries will load them."),
    ] = None,
) -> None:
    """Show what context binaries, libraries and model folders of QNN were made by and for.

    Exit code 1 when they do not belong together, or not to the chip or SDK that is named.
    """
    from devkit.cli.qnn import _find
    from devkit.cli.qnn_explain import known_chip
    from devkit.qnn.inspect import inspect as look

    _, facts = known_chip(soc)
    named = _find(sdk) if sdk is not None else None
    place = paths.expand_user(place)
    found = look(place, soc=facts, sdk_version=named.version if named else None, reader=named or _some_sdk())
    if found.empty and not found.broken:
        raise FileError(
            f"nothing of QNN was found in {place}" if place.is_dir() else f"{place} is no QNN file",
            evidence="no library libQnn*.so, no context binary, no .mnn file with plugin ops for an NPU",
            hints=["devkit model check DIR looks at models for the CPU and GPU"] if place.is_dir() else [],
        )
    output.current().data(found.as_dict(), _text(found))
    if found.broken:
        raise typer.Exit(EXIT_CHECK_FAILED)


def _some_sdk() -> QnnSdk | None:
    """The SDK in use, to read graphs with; everything else needs none."""
    from devkit.cli.qnn import _find
    from devkit.errors import ToolMissing

    try:
        return _find(None)
    except ToolMissing as missing:
        output.current().detail(f"graphs are not read: {missing.what}")
        return None


def _text(found: Inspection) -> str:
    from devkit.cli.qnn_explain import check_lines

    parts = []
    in_graphs = {graph.file for graph in found.graphs}
    if found.graphs:
        rows: list[tuple[str, ...]] = [
            (
                graph.file or "-",
                output.human_bytes(graph.size) if graph.size is not None else "missing",
                graph.facts.build_id if graph.facts else "-",
                _chip(graph.facts.soc, graph.facts.arch, graph.facts.vtcm_mb) if graph.facts else "-",
                ", ".join(str(n) for n in graph.lengths) or "-",
                graph.model,
            )
            for graph in found.graphs
        ]
        parts.append(output.table(rows, ("GRAPH FILE", "SIZE", "MADE BY QNN", "FOR", "TOKENS", "RUN BY")))
    others = [c for c in found.inventory.contexts if _shown(c.path, found.place) not in in_graphs]
    if others:
        rows = [
            (
                _shown(context.path, found.place),
                output.human_bytes(context.size),
                context.facts.build_id,
                _chip(context.facts.soc, context.facts.arch, context.facts.vtcm_mb),
            )
            for context in others
        ]
        parts.append(output.table(rows, ("CONTEXT BINARY", "SIZE", "MADE BY QNN", "FOR")))
    inner: list[tuple[str, ...]] = [
        (
            _shown(path, found.place),
            graph.name,
            "; ".join(tensor.shown for tensor in graph.inputs),
            "; ".join(tensor.shown for tensor in graph.outputs),
        )
        for path, info in found.inside.items()
        for graph in info.graphs
    ]
    if inner:
        parts.append(output.table(inner, ("INSIDE", "GRAPH", "INPUTS", "OUTPUTS")))
    libraries = found.inventory.qnn()
    if libraries:
        rows = [
            (
                _shown(library.path, found.place),
                output.human_bytes(library.size),
                library.build_id or "-",
                library.elf.describe if library.elf and library.elf.abi else _other(library.elf),
            )
            for library in libraries
        ]
        parts.append(output.table(rows, ("LIBRARY", "SIZE", "VERSION INSIDE", "PROCESSOR")))
    if found.checks:
        parts.append("\n".join(check_lines(found.checks)) + "\n")
    return "\n".join(parts)


def _other(elf: object) -> str:
    machine, bits = getattr(elf, "machine", None), getattr(elf, "bits", None)
    return f"{machine}, {bits}-bit" if machine else "no ELF file"


def _chip(soc: str | None, arch: str | None, vtcm_mb: int | None) -> str:
    """SM8650, Hexagon v75, 8 MB of VTCM."""
    parts = [soc or "", f"Hexagon {arch}" if arch else "", f"{vtcm_mb} MB of VTCM" if vtcm_mb else ""]
    return ", ".join(part for part in parts if part) or "not said"


def _shown(path: Path, place: Path) -> str:
    return str(path.relative_to(place)) if place.is_dir() else path.name
