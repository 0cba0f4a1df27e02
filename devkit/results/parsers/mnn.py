"""MNN's benchmark.out and MNNV2Basic.out."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.results.model import NUMBER, Finding, number
from devkit.results.parser import Parser, fell_back

# MNNForwardType.h; 13 is the CPU with its instruction set extensions.
FORWARD_TYPES = {
    "0": "CPU", "1": "METAL", "2": "CUDA", "3": "OPENCL", "4": "AUTO", "5": "NN (QNN, NNAPI, CoreML)",
    "6": "OPENGL", "7": "VULKAN", "13": "CPU",
}  # fmt: skip


class BenchmarkOut(Parser):
    """max, min and avg of each model."""

    name = "benchmark.out"
    logcat_tag = "MNNJNI"
    programs = (r"benchmark(?:\.out|\.exe)",)
    signature = re.compile(r"^MNN benchmark\s*$")

    _MODEL = re.compile(
        rf"^\[ - \] (?P<model>\S.*?)\s+max\s*=\s*(?P<max>{NUMBER})\s*ms\s+min\s*=\s*(?P<min>{NUMBER})\s*ms"
        rf"\s+avg\s*=\s*(?P<avg>{NUMBER})\s*ms"
    )
    _HEAD = re.compile(r"^Forward type: (?P<type>\S+)(?P<rest>(?: \w+=\S+)*)")

    def __init__(self) -> None:
        super().__init__()
        self._labels: dict[str, str] = {}

    def line(self, text: str) -> None:
        if head := self._HEAD.match(text):
            pairs = (word.partition("=") for word in head["rest"].split())
            self._labels = {"backend": head["type"], **{key: value for key, _, value in pairs}}
        elif model := self._MODEL.match(text):
            labels = {"model": model["model"], **self._labels}
            for statistic in ("avg", "min", "max"):
                self.add(f"time_{statistic}", number(model[statistic]), "ms", labels)


class V2Basic(Parser):
    """Times of a run, and of each operator where they were asked for."""

    name = "MNNV2Basic.out"
    logcat_tag = "MNNJNI"
    programs = (r"MNNV2Basic(?:\.out|\.exe)?",)
    signature = re.compile(r"^Use extra forward type: \d+")
    headline = ("load_time", "memory", "time_avg", "time_min", "time_max")

    _FORWARD = re.compile(r"^Use extra forward type: (?P<type>\d+)")
    _SESSION = re.compile(
        rf"Session Info: memory use (?P<memory>{NUMBER}) MB, flops is (?P<flops>{NUMBER}) M, "
        r"backendType is (?P<type>\d+)"
    )
    _LOAD = re.compile(rf"^test_main, +\d+, +cost time: (?P<ms>{NUMBER}) ms")
    _TIMES = re.compile(
        rf"^Avg= *(?P<avg>{NUMBER}) ms, +(?:OpSum = *(?P<ops>{NUMBER}) ms *)?,? *"
        rf"min= *(?P<min>{NUMBER}) ms, +max= *(?P<max>{NUMBER}) ms"
    )
    _OP = re.compile(
        rf"^\s*(?P<op>\S.*?)\s*\[(?P<type>\w+)\] run (?P<runs>\d+) average cost (?P<ms>{NUMBER}) ms, "
        rf"(?P<share>{NUMBER}) %(?:, FlopsRate: (?P<flops>{NUMBER}) %)?"
    )

    def __init__(self) -> None:
        super().__init__()
        self._asked = ""
        self._findings: list[Finding] = []

    def line(self, text: str) -> None:
        # The common case first: a model has thousands of operators.
        if "average cost" in text and (op := self._OP.match(text)):
            labels = {"op": op["op"], "type": op["type"], "runs": op["runs"]}
            self.add("op_time", number(op["ms"]), "ms", labels)
            self.add("op_time_share", number(op["share"]), "%", labels)
            if op["flops"]:
                self.add("op_flops_share", number(op["flops"]), "%", labels)
        elif forward := self._FORWARD.match(text):
            self._asked = forward["type"]
        elif load := self._LOAD.match(text):
            self.add("load_time", number(load["ms"]), "ms")
        elif session := self._SESSION.search(text):
            self.add("memory", number(session["memory"]), "MB")
            self.add("flops", number(session["flops"]), "MFLOP")
            asked, used = (FORWARD_TYPES.get(t, f"type {t}") for t in (self._asked or "0", session["type"]))
            if asked not in (used, "AUTO", "CPU") and not self._findings:
                self._findings.append(fell_back(asked, used, text.strip()))
        elif times := self._TIMES.match(text):
            self.add("time_avg", number(times["avg"]), "ms")
            self.add("time_min", number(times["min"]), "ms")
            self.add("time_max", number(times["max"]), "ms")
            if times["ops"]:
                self.add("op_time_sum", number(times["ops"]), "ms")

    def findings(self) -> Sequence[Finding]:
        return self._findings
