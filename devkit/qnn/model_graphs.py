"""A model folder's compiled graphs against its plugin graph (qnn/llm.mnn), with what each says of itself."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit.errors import FileError
from devkit.models import ERROR, NOTE
from devkit.models.files_check import check_files, what_is_wrong
from devkit.models.folder import find_configs, read_config, relative
from devkit.models.mnn_file import MnnFile, NpuGraph, read_mnn
from devkit.models.npu_check import check_npu
from devkit.ndk.qnn_version import ContextFacts, read_context
from devkit.qnn.checks import BROKEN, OK, WARNING, Check

# Where generate_llm_qnn.py puts what it makes, below the model folder.
_QNN_FOLDER = "qnn"


@dataclass(frozen=True)
class Graph:
    """One plugin op and the file it runs.

    Attributes:
        model: the .mnn file it stands in.
        file: the context binary, or None where the op names none.
        size: bytes of that file; None when it is not there.
        graphs: names of the graphs in the file, one for each shape.
        lengths: the numbers of tokens they take; empty where they have one shape.
        facts: what the file says; None when it says nothing.
    """

    model: str
    name: str
    file: str | None
    size: int | None
    graphs: tuple[str, ...]
    lengths: tuple[int, ...]
    facts: ContextFacts | None

    def as_dict(self) -> dict[str, Any]:
        facts = self.facts
        return {
            "model": self.model,
            "name": self.name,
            "file": self.file,
            "size": self.size,
            "graphs": list(self.graphs),
            "tokens": list(self.lengths),
            "build_id": facts.build_id if facts else None,
            "soc": facts.soc if facts else None,
            "arch": facts.arch if facts else None,
            "vtcm_mb": facts.vtcm_mb if facts else None,
        }


def find_graphs(place: Path) -> tuple[list[Graph], list[Check]]:
    """The graphs of a model folder, its qnn/ folder or one .mnn file, and what is wrong with them.

    Returns:
        nothing for a folder without plugin ops.

    Raises:
        FileError: a file cannot be read.
    """
    folder = place if place.is_dir() else _begin(place)
    graphs: dict[tuple[str, str], Graph] = {}
    checks: list[Check] = []
    for model, base in _models(folder) if place.is_dir() else _alone([place]):
        for op in model.npu:
            graph = _graph(model, op, base, folder)
            graphs.setdefault((graph.model, graph.name), graph)
    if not graphs:
        return [], []
    for path in _configs(folder) if place.is_dir() else ():
        config = read_config(path)
        _, models = check_files(config)
        if not any(model.npu for model in models.values()):
            continue
        for finding in check_npu(config, models):
            if finding.severity != NOTE:
                state = BROKEN if finding.severity == ERROR else WARNING
                checks.append(
                    Check("graphs", state, f"{finding.file}: {finding.what}", finding.file, finding.hint)
                )
    known = {check.file for check in checks}
    checks += [check for check in _files(list(graphs.values()), folder) if check.file not in known]
    if not any(check.state == BROKEN for check in checks):
        count = len({graph.file for graph in graphs.values()})
        checks.insert(0, Check("graphs", OK, f"{len(graphs)} plugin ops, {count} graph files: all are there"))
    return list(graphs.values()), checks


def _configs(folder: Path) -> tuple[Path, ...]:
    return find_configs(folder) if any(folder.glob("*config*.json")) else ()


def _begin(model: Path) -> Path:
    """Where a plugin graph's paths begin without a config: at the model folder, `qnn/graph0.bin`."""
    return model.parent.parent if model.parent.name == _QNN_FOLDER else model.parent


def _models(folder: Path) -> Iterator[tuple[MnnFile, Path]]:
    """The .mnn files with plugin ops, each with the folder that its graphs' paths begin at."""
    seen: set[Path] = set()
    for path in _configs(folder):
        config = read_config(path)
        base = config.base / str(config.value("npu_model_dir") or "")
        for model in check_files(config)[1].values():
            if model.npu and model.path not in seen:
                seen.add(model.path)
                yield model, base
    if not seen:
        yield from _alone(sorted([*folder.glob("*.mnn"), *folder.glob(f"{_QNN_FOLDER}/*.mnn")]))


def _alone(files: Iterable[Path]) -> Iterator[tuple[MnnFile, Path]]:
    for path in files:
        try:
            model = read_mnn(path)
        except FileError:
            continue  # another engine's file, or weights: not for this command to judge
        if model.npu:
            yield model, _begin(path)


def _graph(model: MnnFile, op: NpuGraph, base: Path, root: Path) -> Graph:
    path = base / op.path if op.path is not None else None
    there = path is not None and path.is_file()
    return Graph(
        relative(model.path, root),
        op.name,
        relative(path, root) if path else None,
        path.stat().st_size if path and there else None,
        op.graphs,
        op.lengths,
        read_context(path) if path and there else None,
    )


def _files(graphs: list[Graph], folder: Path) -> Iterator[Check]:
    for file in dict.fromkeys(graph.file for graph in graphs if graph.file is not None):
        graph = next(graph for graph in graphs if graph.file == file)
        if graph.size is None:
            yield Check("graphs", BROKEN, f"{file} is missing, but {graph.model} runs it", file,
                        "copy the folder with the .bin files too, or export again")  # fmt: skip
        elif problem := what_is_wrong(folder / file):
            yield Check("graphs", BROKEN, f"{file}: {problem[0]}", file, problem[1])
        elif graph.facts is None:
            yield Check("graphs", WARNING,
                        f"{file} carries no QNN version: most likely no context binary", file,
                        "the export broke off? export again")  # fmt: skip
    used = {graph.file for graph in graphs}
    for path in sorted(folder.glob(f"{_QNN_FOLDER}/*.bin")):
        name = relative(path, folder)
        if name not in used and read_context(path) is not None:
            yield Check("graphs", WARNING, f"{name} belongs to no plugin op", name,
                        "an older export left it: it need not travel")  # fmt: skip
