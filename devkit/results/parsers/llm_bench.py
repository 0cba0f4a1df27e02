"""MNN's llm_bench: its Markdown table, and the JSON that `-j FILE` writes."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from devkit.results.model import NUMBER, WARNING, Finding, number
from devkit.results.parser import Parser

_SPEED = re.compile(rf"(?P<value>{NUMBER})(?:\s*(?:±|\+/-|\ufffd+)\s*(?P<spread>{NUMBER}))?")
_SPEED_COLUMNS = ("t/s", "speed(tok/s)", "tok/s")
_UNIT_OF_COLUMN = re.compile(r"^(?P<name>.*\S)\s*\((?P<unit>ms|s|us|tok/s|MB|MiB)\)$")
# BackendConfig: what llm_bench prints as a word in its table, and as a number in JSON.
_PRECISIONS = {"0": "Normal", "1": "High", "2": "Low", "3": "Low_BF16"}
_TESTS = {"prefill": ("pp", "prompt_len"), "decode": ("tg", "generate_len")}
# rapidjson writes what printf would for numbers that are none.
_NOT_JSON = re.compile(r"(?<=[:,\[])\s*-?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)


class LlmBench(Parser):
    """Names are those of its tests: pp512 (prefill of 512 tokens), tg128 (128 tokens generated)."""

    name = "llm_bench"
    programs = (r"llm_bench(?:\.exe)?",)
    signature = re.compile(r'^(?:\|\s*model\s*\|.*\|\s*test\s*\|.*|\{\s*"model"\s*:.*"results"\s*:.*)')
    long_lines = True

    def __init__(self) -> None:
        super().__init__()
        self._columns: list[str] | None = None
        self._json_lines: list[str] = []
        self._json_size = 0
        self._odd_rows = 0
        self._json_broken = False

    def line(self, text: str) -> None:
        stripped = text.strip()
        if self._json_lines and stripped.startswith("|"):
            self._forget_json()  # it only looked like JSON
        if self._json_lines:
            self._more_json(text)
        elif stripped.startswith(('{"', "[{")) or stripped in ("{", "["):
            self._more_json(stripped)
        elif stripped.startswith("|"):
            self._table_line(stripped)

    def finish(self) -> None:
        self._json_broken = bool(self._json_lines)

    def findings(self) -> Sequence[Finding]:
        if self._json_broken or self._odd_rows:
            what = "its JSON" if self._json_broken else f"{self._odd_rows} row(s) of the table"
            return [
                Finding(
                    "truncated-output",
                    WARNING,
                    f"{what} could not be read",
                    "the program was ended while it wrote, or another output ran into the line",
                )
            ]
        return ()

    # The table

    def _table_line(self, text: str) -> None:
        cells = [cell.strip() for cell in text.strip("|").split("|")]
        if "test" in cells and any(c in _SPEED_COLUMNS for c in cells):
            self._columns = cells
        elif self._columns is None or all(set(cell) <= set("-: ") for cell in cells):
            return
        elif len(cells) != len(self._columns) or not text.endswith("|"):
            self._odd_rows += 1
        else:
            self._row(dict(zip(self._columns, cells, strict=True)))

    def _row(self, row: dict[str, str]) -> None:
        speed = next(c for c in _SPEED_COLUMNS if c in row)
        numbers: dict[str, tuple[str, str]] = {}
        labels: dict[str, str] = {}
        for column, cell in row.items():
            if column in (speed, "test"):
                continue
            found = _UNIT_OF_COLUMN.match(column)
            if found and _SPEED.fullmatch(cell):
                numbers[found["name"]] = (cell, found["unit"])
            else:
                labels[column] = cell
        tests = row["test"].split("+")
        parts = [_SPEED.fullmatch(part.strip()) for part in re.split(r"<br\s*/?>", row[speed])]
        if None in parts or len(parts) > len(tests):
            self._odd_rows += 1
            return
        if len(parts) < len(tests):
            # One speed for the whole of a combined test.
            tests = ["+".join(tests)]
        for test, part in zip(tests, parts, strict=True):
            assert part is not None
            spread = number(part["spread"]) if part["spread"] else None
            combined = {"test": row["test"]} if len(parts) > 1 else {}
            self.add(test, number(part["value"]), "tok/s", {**labels, **combined}, spread)
        for name, (cell, unit) in numbers.items():
            found = _SPEED.fullmatch(cell)
            assert found is not None
            self.add(name, number(found["value"]), unit, {**labels, "test": row["test"]})

    # The JSON

    def _more_json(self, text: str) -> None:
        self._json_lines.append(text)
        self._json_size += len(text)
        # Only an end of an object can complete it: a document of many lines is not read over and over.
        if text.rstrip().endswith(("}", "]")) and (text[:1] in "}]{[" or self._json_size < 20_000):
            try:
                documents = list(_documents("\n".join(self._json_lines)))
            except ValueError:
                documents = []
            if documents:
                self._forget_json()
                for document in documents:
                    self._document(document)
        if self._json_size > 8_000_000 or (self._json_lines and len(self._json_lines) > 100_000):
            self._forget_json()
            self._odd_rows += 1

    def _forget_json(self) -> None:
        self._json_lines.clear()
        self._json_size = 0

    def _document(self, document: Any) -> None:
        for run in document if isinstance(document, list) else [document]:
            if isinstance(run, Mapping) and isinstance(run.get("results"), list):
                labels = _run_labels(run)
                for result in run["results"]:
                    if isinstance(result, Mapping):
                        self._result(result, labels)

    def _result(self, result: Mapping[str, Any], labels: dict[str, str]) -> None:
        prefix, length = _TESTS.get(str(result.get("type")), (str(result.get("type")), ""))
        name = f"{prefix}{result[length]}" if length in result else prefix
        if "tps" in result:
            self.add(name, _float(result["tps"]), "tok/s", labels, _float(result.get("std")))
        elif isinstance(result.get("time"), int | float):
            self.add(name, _float(result["time"]), "s", labels, _float(result.get("std")))


def _documents(text: str) -> Iterator[Any]:
    """The JSON documents that stand one behind the other."""
    text = _NOT_JSON.sub("null", text)
    decoder = json.JSONDecoder(parse_constant=lambda _name: None)
    position = 0
    while position < len(text):
        try:
            document, position = decoder.raw_decode(text, position)
        except RecursionError:
            raise ValueError("too deep") from None
        yield document
        while position < len(text) and text[position].isspace():
            position += 1


def _run_labels(run: Mapping[str, Any]) -> dict[str, str]:
    labels = {
        str(key): str(value)
        for key, value in run.items()
        if isinstance(value, str | int | float) and key not in ("results", "modelSize")
    }
    if "precision" in labels:
        labels["precision"] = _PRECISIONS.get(labels["precision"], labels["precision"])
    size = run.get("modelSize")
    if isinstance(size, int | float) and not isinstance(size, bool):
        labels["modelSize"] = f"{size * 1024:.2f} MiB"  # it writes GiB
    return labels


def _float(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    # An integer of a thousand digits is no double.
    return value if abs(value) < 1e300 else None
