"""Graphs and tensors of context binaries, as the SDK's libQnnSystem.so tells them."""

from __future__ import annotations

import json
import platform
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit import process
from devkit.errors import OperationTimeout, ToolMissing
from devkit.ndk.qnn_sdk import HOST_TARGET, QnnSdk, tool_environment

LIBRARY = "libQnnSystem.so"
TIMEOUT_S = 60.0
# QnnTypes.h: the width stands in the lowest byte, in decimal digits.
_KINDS = {0: "int", 1: "uint", 2: "float", 3: "sfixed", 4: "ufixed", 5: "bool"}
# QNN_SYSTEM_CONTEXT_ERROR_MALFORMED_BINARY
_MALFORMED = 30010


@dataclass(frozen=True)
class Tensor:
    """An input or output. `quantized` has scale and offset, or the encoding's number; None without."""

    name: str
    data_type: str
    dimensions: tuple[int, ...]
    quantized: dict[str, Any] | None = None

    @property
    def shown(self) -> str:
        scale = self.quantized.get("scale") if self.quantized else None
        more = f" scale {scale:g} offset {self.quantized['offset']}" if self.quantized and scale else ""
        return f"{self.name} {self.data_type} {'×'.join(map(str, self.dimensions)) or 'scalar'}{more}"


@dataclass(frozen=True)
class ContextGraph:
    """A graph of a context binary."""

    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]

    def as_dict(self) -> dict[str, Any]:
        def tensors(listed: tuple[Tensor, ...]) -> list[dict[str, Any]]:
            return [
                {"name": t.name, "data_type": t.data_type, "dimensions": list(t.dimensions), **_extra(t)}
                for t in listed
            ]

        return {"name": self.name, "inputs": tensors(self.inputs), "outputs": tensors(self.outputs)}


@dataclass(frozen=True)
class ContextInfo:
    """What libQnnSystem says of one file; `error` is why it says nothing.

    Attributes:
        soc_model: QNN's number of the chip, where the file has it.
        blob_bytes: size of the part that the backend loads.
    """

    graphs: tuple[ContextGraph, ...] = ()
    soc_model: int | None = None
    blob_bytes: int | None = None
    error: str | None = None
    malformed: bool = False

    def as_dict(self) -> dict[str, Any]:
        return {
            "graphs": [graph.as_dict() for graph in self.graphs],
            "soc_model": self.soc_model,
            "blob_bytes": self.blob_bytes,
            "error": self.error,
        }


def system_library(sdk: QnnSdk) -> Path | None:
    """The SDK's libQnnSystem.so for this machine; None where it has none, or it does not run here."""
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        return None
    try:
        return sdk.find_file(LIBRARY, HOST_TARGET)
    except ToolMissing:
        return None


def read_graphs(sdk: QnnSdk, library: Path, files: Sequence[Path]) -> dict[Path, ContextInfo]:
    """Ask the library for each file, in a process of its own: a crash is an answer, too."""
    found: dict[Path, ContextInfo] = {}
    waiting = list(files)
    while waiting:
        answered, why = _ask(sdk, library, waiting)
        found.update(answered)
        waiting = waiting[len(answered) :]
        if waiting:
            # The first that was not answered is the one it ended on; the others may be fine.
            found[waiting.pop(0)] = ContextInfo(error=why)
            if not answered and why.startswith("it cannot be loaded"):
                return {**found, **{file: ContextInfo(error=why) for file in waiting}}
    return found


def _ask(sdk: QnnSdk, library: Path, files: Sequence[Path]) -> tuple[dict[Path, ContextInfo], str]:
    script = Path(__file__).with_name("system_child.py")
    argv: list[str | Path] = [sys.executable, "-I", script, library, *files]
    try:
        done = process.run(argv, env=tool_environment(sdk), check=False, timeout_s=TIMEOUT_S)
    except OperationTimeout:
        return {}, f"{LIBRARY} did not answer in {TIMEOUT_S:g} s"
    answers: dict[Path, ContextInfo] = {}
    for line in done.text.splitlines():
        if line.startswith('{"file"') and len(answers) < len(files):
            answers[files[len(answers)]] = _info(json.loads(line))
    if done.exit_code < 0:
        name = signal.Signals(-done.exit_code).name
        return answers, f"{LIBRARY} crashed on it ({name})"
    last = process.tail(done.stderr, 1)
    return answers, f"it cannot be loaded: {last}" if done.exit_code else "it gave no answer"


def _info(answer: dict[str, Any]) -> ContextInfo:
    if "error" in answer:
        error = str(answer["error"])
        return ContextInfo(error=error, malformed=error.endswith(f"error {_MALFORMED}"))
    graphs = tuple(
        ContextGraph(str(graph["name"]), _tensors(graph["inputs"]), _tensors(graph["outputs"]))
        for graph in answer["graphs"]
    )
    return ContextInfo(graphs, answer["soc_model"], answer["blob_bytes"])


def _tensors(listed: list[dict[str, Any]]) -> tuple[Tensor, ...]:
    return tuple(
        Tensor(str(t["name"]), data_type(t["data_type"]), tuple(t["dimensions"]), t["quantized"])
        for t in listed
    )


def data_type(number: int) -> str:
    """float32 of 0x0232, as QnnTypes.h numbers them."""
    kind, width = number >> 8, f"{number & 0xFF:x}".lstrip("0")
    return f"{_KINDS[kind]}{width}" if kind in _KINDS and width.isdigit() else f"0x{number:04x}"


def _extra(tensor: Tensor) -> dict[str, Any]:
    return {"quantized": tensor.quantized} if tensor.quantized else {}
