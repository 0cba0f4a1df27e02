"""qnn-net-run and qnn-profile-viewer of the QNN SDK."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.results.model import FAILED, NUMBER, Finding, number
from devkit.results.parser import Parser


class QnnNetRun(Parser):
    """It prints no numbers but where it stands; only its last sentence says that all inputs were run."""

    name = "qnn-net-run"
    programs = (r"qnn-net-run(?:\.exe)?",)
    signature = re.compile(r"\bqnn-net-run (?:build version|pid)\b")

    _STAGES = (
        ("Composing Graphs", "compose"),
        ("Creating context from binary file", "load context"),
        ("Finalizing Graphs", "finalize"),
        ("Executing Graphs", "execute"),
    )
    # The second is LPAI's direct mode.
    _DONE = re.compile(r"\bFinished Executing Graphs\b|\bNonRPC net-run SUCCESS\b")
    _VERSION = re.compile(r"qnn-net-run build version: (?P<version>\S+)")

    def __init__(self) -> None:
        super().__init__()
        self._stage = ""
        self._started = False
        self._done = 0
        self._version: dict[str, str] = {}

    def line(self, text: str) -> None:
        if self._DONE.search(text):
            self._done += 1
            return
        if version := self._VERSION.search(text):
            self._version = {"version": version["version"]}
        self._started = self._started or "qnn-net-run" in text
        for words, stage in self._STAGES:
            if words in text:
                self._stage, self._started = stage, True

    def finish(self) -> None:
        if self._done:
            self.add("finished_executions", self._done, "", self._version)

    def findings(self) -> Sequence[Finding]:
        if self._done or not self._started:
            return ()
        where = f"in the step `{self._stage}`" if self._stage else "before the first step"
        return [
            Finding(
                "net-run-unfinished",
                FAILED,
                f"qnn-net-run ended {where}: it never said that the graphs were executed",
                "the first error line of QNN above is the cause",
                ("qnn-net-run --log_level info says more",),
                values={"stage": self._stage},
                consequence=True,
            )
        ]


class QnnProfileViewer(Parser):
    """The statistics of a profile: lines `event: number unit` below a headline of each stage."""

    name = "qnn-profile-viewer"
    programs = (r"qnn-profile-viewer(?:\.exe)?",)
    signature = re.compile(r"^Qnn Init/Prepare/Finalize/.*Statistics:")

    _SECTION = re.compile(r"^(?P<stage>[A-Z][\w -]*?) Stats(?: \((?P<kind>\w+)\))?:\s*$")
    _GRAPH = re.compile(r"^(?:---+\s*)?Graph \d+ \((?P<graph>.*)\):\s*$")
    _VALUE = re.compile(
        rf"^\s*(?P<event>\S.*?):\s+(?P<value>{NUMBER})\s*(?P<unit>us|ms|cycles|count|inf/sec|bytes)\s*$"
    )

    def __init__(self) -> None:
        super().__init__()
        self._labels: dict[str, str] = {}

    def line(self, text: str) -> None:
        if section := self._SECTION.match(text):
            self._labels = {"stage": section["stage"]}
            if section["kind"]:
                self._labels["statistic"] = section["kind"]
        elif graph := self._GRAPH.match(text):
            self._labels = {**self._labels, "graph": graph["graph"]}
        elif self._labels and (value := self._VALUE.match(text)):
            self.add(value["event"], number(value["value"]), value["unit"], self._labels)
