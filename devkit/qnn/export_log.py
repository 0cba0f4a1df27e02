"""The log of MNN's generate_llm_qnn.py: which step failed first, whatever the script printed at its end.

Revisions of early 2026 go on after a failing step, print `End` and end with 0 (alibaba/MNN#4212, #4118,
#4475): what the later steps say only follows.
"""

from __future__ import annotations

import re

from devkit.qnn.knowledge import export_failures, export_steps
from devkit.results import FAILED, WARNING, Finding
from devkit.results.findings import fill

_STEP = re.compile(r"^Step ?(\d)\s*: ?(?P<title>.*)")
_SIGNATURES = ("Convert for QNN, QualComn's NPU", "Write config to npu_postreat.json")
_CHIP = re.compile(r"^soc_id: ?(?P<soc_id>\d+) ?; ?dsp_arch: ?(?P<arch>v?\d+)", re.IGNORECASE)
_UNKNOWN_OP = re.compile(r"Not registered type (?P<op>\d+), (?:\S*/)?(?P<name>[^/\s]+?)\.?\s*$")


class ExportLog:
    """Reads the lines of a log; `recognised` says whether it is one of the export.

    Attributes:
        chip: soc_id and dsp_arch that the export was made for, where the log says them.
    """

    def __init__(self) -> None:
        self.recognised = False
        self.chip: tuple[int, str] | None = None
        self._step = ""
        self._failures: list[Finding] = []
        self._unknown: dict[tuple[str, str], Finding] = {}
        self._counts: dict[tuple[str, str], int] = {}

    def line(self, text: str, number: int) -> None:
        """Take the next line."""
        if step := _STEP.match(text):
            self.recognised, self._step = True, step.group(1)
            return
        if text.startswith(_SIGNATURES):
            self.recognised = True
        if chip := _CHIP.match(text):
            arch = chip["arch"].lower()
            self.chip = (int(chip["soc_id"]), arch if arch.startswith("v") else f"v{arch}")
        elif unknown := _UNKNOWN_OP.search(text):
            key = (unknown["op"], unknown["name"])
            self._counts[key] = self._counts.get(key, 0) + 1
            self._unknown.setdefault(
                key,
                Finding("qnn-op-unsupported", WARNING, "", "", (), text.strip(), number, unknown.groupdict()),
            )
        elif self._step or self.recognised:
            self._failure(text, number)

    def findings(self) -> list[Finding]:
        """The first failure of the log, later ones as consequences; operations that QNN does not know.

        Nothing when this is no log of the export.
        """
        if not self.recognised:
            return []
        return [*self._failures, *self._operations()]

    def _operations(self) -> list[Finding]:
        found = []
        for (op, name), finding in self._unknown.items():
            count = self._counts[op, name]
            layers = f"{count} layers use" if count > 1 else "one layer uses"
            meaning = f"{layers} op type {op} ({name}), which QNN does not know"
            values = {**finding.values, "layers": str(count)}
            found.append(
                Finding(
                    finding.kind, WARNING, meaning, line=finding.line, line_number=finding.line_number,
                    values=values,
                )
            )  # fmt: skip
        return found

    def _failure(self, text: str, number: int) -> None:
        step = export_steps().get(self._step, {"name": "the export", "program": "the export"})
        for failure in export_failures():
            if match := failure.pattern.search(text):
                given = {name: value for name, value in match.groupdict().items() if value}
                values = {**given, "step": step["name"], "program": step["program"]}
                meaning = f"{step['name']} failed: {fill(failure.meaning, values)}"
                self._failures.append(
                    Finding(
                        failure.kind, FAILED, meaning, line=text.strip()[:400], line_number=number,
                        values=values, consequence=bool(self._failures),
                    )
                )  # fmt: skip
                return
