"""Tables of small QNN benchmarks: online MatMul, precision, static and switched weights.

Their layout is the same: a title, `key : value` lines, a header whose columns carry their unit
(`exec(ms)`), a ruler, rows. Columns are read by the header, so that added ones need no change here.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.results.model import FAILED, NUMBER, WARNING, Finding, number
from devkit.results.parser import Parser

_TITLE = re.compile(r"^QNN \S.*(?:Benchmark|example)\s*$", re.IGNORECASE)
_KEY_VALUE = re.compile(r"^(?P<key>[a-z][a-z_0-9]*(?:\[[\d:]+\])?)\s*: (?P<value>.*)$")
_COLUMN = re.compile(r"^(?P<name>[A-Za-z_]\w*)(?:\((?P<unit>[^()]+)\))?$")
_VALUE = re.compile(rf"(?P<value>{NUMBER})(?:±(?P<spread>{NUMBER}))?")
_SECTION = re.compile(r"Results|\w+ Results|\w+_(?:summary|status)")
_FIRST_COLUMNS = ("precision", "stage", "mode", "case")
_BARE_VALUES = {"max_err", "mean_err", "max_abs_err", "mean_abs_err", "avg_mean_err", "cases"}
_WORTH = ("max_abs_err", "mean_abs_err")
_COMPARED = re.compile(
    rf"^(?P<case>\S+) pass= (?P<passed>True|False) atol= (?P<atol>{NUMBER}) "
    rf"max_abs_err= (?P<max>{NUMBER}) mean_abs_err= (?P<mean>{NUMBER})\s*$"
)
# The benchmarks' own words for a case that this backend rightly refuses.
_NOT_RUN = {"UNSUPPORTED", "SKIP", "SKIPPED", "N/A"}
_MAX_HEAD = 40
_NO_CELL = {"-", "--", "n/a", "N/A", "none"}


class QnnTables(Parser):
    """Names are the columns'; labels the row's words and the lines above the table."""

    name = "qnn_benchmark"
    programs = (r"qnn_\w*benchmark(?:\.exe)?", r"qnn_online_matmul(?:\.exe)?")
    signature = _TITLE

    def __init__(self) -> None:
        super().__init__()
        self._head: dict[str, str] = {}
        self._columns: list[tuple[str, str | None]] | None = None
        self._section = ""
        self._findings: list[Finding] = []
        self._odd_rows = 0

    def line(self, text: str) -> None:
        text = text.rstrip()
        words = text.split()
        if not words:
            self._columns = None
        elif _TITLE.match(text):
            self._head, self._columns, self._section = {"benchmark": text.strip()}, None, ""
        elif columns := _header(words):
            self._columns = columns
        elif set(text) == {"-"}:
            return
        elif _SECTION.fullmatch(text.strip()):
            self._section = "" if text.strip() == "Results" else text.strip()
            self._columns = None
        elif self._columns is not None:
            self._row(text, words)
        elif pair := _KEY_VALUE.match(text):
            self._pair(pair["key"], pair["value"].strip())
        elif compared := _COMPARED.match(text):
            labels = {"case": compared["case"], "valid": "PASS" if compared["passed"] == "True" else "FAIL"}
            for name, column in (("max_abs_err", "max"), ("mean_abs_err", "mean"), ("atol", "atol")):
                self.add(name, number(compared[column]), "", labels)
            self._judge(labels, text)

    def findings(self) -> Sequence[Finding]:
        if not self._odd_rows:
            return self._findings
        odd = Finding(
            "odd-row", WARNING, f"{self._odd_rows} row(s) of the table do not fit its header",
            "columns ran into each other, or another output ran into the line",
        )  # fmt: skip
        return [*self._findings, odd]

    def _pair(self, key: str, value: str) -> None:
        if key in _WORTH and _VALUE.fullmatch(value):
            self.add(key, number(value), "", self._head)
        elif key == "validation":
            self._judge({"valid": value}, f"{key}: {value}")
        elif not key.startswith("output") and len(self._head) < _MAX_HEAD:
            self._head[key] = value[:200]

    def _row(self, text: str, words: list[str]) -> None:
        assert self._columns is not None
        labels: dict[str, str] = dict(self._head)
        if self._section:
            labels["section"] = self._section
        values: list[tuple[str, str, float | None, float | None]] = []
        if len(words) != len(self._columns):
            numbers = sum(1 for word in words if _VALUE.fullmatch(word))
            # A log line in between is none of the table's.
            if numbers > len(words) // 2 and not _NOT_RUN.intersection(words):
                self._odd_rows += 1
            return
        for (name, unit), word in zip(self._columns, words, strict=True):
            if unit is None and name not in _BARE_VALUES:
                labels[name] = word
            elif found := _VALUE.fullmatch(word):
                spread = number(found["spread"]) if found["spread"] else None
                values.append((name, unit or "", number(found["value"]), spread))
            elif word not in _NO_CELL:
                self._odd_rows += 1
                return
        for name, unit, value, spread in values:
            self.add(name, value, unit, labels, spread)
        self._judge(labels, text)

    def _judge(self, labels: dict[str, str], line: str) -> None:
        if len(self._findings) >= 20:
            return
        case = " ".join(labels[k] for k in ("precision", "weight", "mode", "case") if k in labels)
        status, valid = labels.get("status", "OK"), labels.get("valid", "PASS")
        if status != "OK" and status not in _NOT_RUN:
            self._findings.append(
                Finding(
                    "case-failed", FAILED, f"{case or 'the case'} ended as {status}",
                    "the lines before the table say why; the first of QNN's is the cause", line=line.strip(),
                )
            )  # fmt: skip
        elif valid == "FAIL" or valid.startswith("FAIL "):
            self._findings.append(
                Finding(
                    "inaccurate", WARNING, f"{case or 'the result'} differs too much from the reference",
                    "quantization parameters, or a backend that computes in another precision than asked for",
                    line=line.strip(),
                )
            )  # fmt: skip


def _header(words: list[str]) -> list[tuple[str, str | None]] | None:
    if len(words) < 2 or words[0] not in _FIRST_COLUMNS:
        return None
    found = [_COLUMN.match(word) for word in words]
    if None in found or not any(m and (m["unit"] or m["name"] in _BARE_VALUES) for m in found):
        return None
    return [(m["name"], m["unit"]) for m in found if m]
