"""Models that were compiled for an NPU: their graphs' files, and chunk_limits against the exported shapes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devkit.models.files_check import what_is_wrong
from devkit.models.findings import ERROR, NOTE, WARNING, Finding
from devkit.models.folder import ModelConfig, relative
from devkit.models.mnn_file import MnnFile, NpuGraph

# A context binary begins with a header of some kilobytes; what is smaller was left by an export that failed
# and went on (generate_llm_qnn.py of early 2026 did).
_LEAST_GRAPH_BYTES = 1024


def check_npu(config: ModelConfig, models: Mapping[str, MnnFile]) -> list[Finding]:
    """All findings about NPU graphs of one config, and about chunk_limits."""
    graphs = [(model, graph) for model in models.values() for graph in model.npu]
    found = [finding for model, graph in graphs for finding in _files(config, model, graph)]
    llm = models.get("llm_model")
    found += _limits(config, llm.npu if llm else ())
    if llm and llm.npu and config.value("backend_type") != "cpu":
        found.append(
            Finding(
                WARNING, config.place("backend_type"), "backend_type",
                f"backend_type is {config.value('backend_type')}, but what is left beside the NPU's graphs "
                "was exported for the CPU",
                '"backend_type": "cpu": the plugin ops find the NPU themselves',
            )
        )  # fmt: skip
    unused = not graphs and (config.base / "qnn" / "llm.mnn").is_file()
    if unused and not (config.folder / "config_qnn.json").is_file():
        hint = "take the config_qnn.json that generate_llm_qnn.py writes"
        found.append(
            Finding(NOTE, "qnn/llm.mnn", "llm_model", "a model for the NPU is there but not used", hint)
        )
    return found


def _files(config: ModelConfig, model: MnnFile, graph: NpuGraph) -> list[Finding]:
    """Each graph's file: it is sought below npu_model_dir, which is the model folder by default."""
    if graph.path is None:
        return []
    path = config.base / str(config.value("npu_model_dir") or "") / graph.path
    shown = relative(path, config.folder)
    if not path.is_file():
        what = f"it does not exist, but {relative(model.path, config.folder)} runs its graph on the NPU"
        return [
            Finding(
                ERROR,
                shown,
                "npu_model_dir",
                what,
                "copy the folder with the .bin files too, or run generate_llm_qnn.py again",
            )
        ]
    problem = what_is_wrong(path)
    size = path.stat().st_size
    if problem is None and size < _LEAST_GRAPH_BYTES:
        problem = (
            f"{size} bytes cannot hold a compiled graph",
            "the export broke off: run generate_llm_qnn.py again",
        )
    return [Finding(ERROR, shown, None, *problem)] if problem else []


def _limits(config: ModelConfig, graphs: tuple[NpuGraph, ...]) -> list[Finding]:
    given = config.merged.get("chunk_limits")
    place = config.place("chunk_limits")

    def finding(severity: str, what: str, hint: str) -> list[Finding]:
        return [Finding(severity, place, "chunk_limits", what, hint)]

    exported = _exported(graphs)
    wanted = f'"chunk_limits": {sorted(exported, reverse=True)}' if len(exported) > 1 else ""
    if given is None:
        if graphs and exported:
            return finding(
                ERROR,
                f"it is missing, but the NPU's graphs take only {_spoken(exported)} tokens at a time",
                wanted,
            )
        return []
    limits = _numbers(given)
    if limits is None or len(limits) < 2:
        severity = ERROR if graphs else WARNING
        return finding(
            severity,
            f"{given!r} is ignored: a list of at least two numbers above 0 is read",
            wanted or "[128, 1]",
        )
    found: list[Finding] = []
    if config.value("chunk"):
        found.append(
            Finding(
                NOTE, config.place("chunk"), "chunk", "chunk has no effect beside chunk_limits", "take it out"
            )
        )
    if 1 not in limits:
        found += finding(
            WARNING,
            f"{given} has no 1: every generated token is computed as {min(limits)}",
            f"{[*sorted(limits, reverse=True), 1]}",
        )
    if exported and set(limits) - set(exported):
        extra = sorted(set(limits) - set(exported), reverse=True)
        found += finding(
            ERROR,
            f"{_spoken(extra)} is no shape of the NPU's graphs, which take {_spoken(exported)} tokens",
            wanted,
        )
    elif exported and set(exported) - set(limits):
        unused = sorted(set(exported) - set(limits), reverse=True)
        found += finding(NOTE, f"the NPU's graphs also take {_spoken(unused)} tokens at a time", wanted)
    elif graphs and not exported:
        dimensions = {number for graph in graphs for shape in graph.shapes for number in shape}
        missing = sorted(set(limits) - dimensions, reverse=True)
        if dimensions and missing:
            found += finding(
                ERROR,
                f"no graph was exported with {_spoken(missing)} tokens",
                "export with --chunk_size, or change chunk_limits",
            )
    return found


def _exported(graphs: tuple[NpuGraph, ...]) -> tuple[int, ...]:
    """The numbers of tokens that all graphs were exported with; empty when they do not tell."""
    lengths = [set(graph.lengths) for graph in graphs if graph.lengths]
    return tuple(sorted(set.intersection(*lengths), reverse=True)) if lengths else ()


def _numbers(value: Any) -> list[int] | None:
    if not isinstance(value, list):
        return None
    numbers = [n for n in value if isinstance(n, int) and not isinstance(n, bool) and n > 0]
    return numbers if len(numbers) == len(value) else None


def _spoken(numbers: tuple[int, ...] | list[int]) -> str:
    words = [str(number) for number in numbers]
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
