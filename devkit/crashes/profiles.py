"""simpleperf's texts: `report` (columns or --csv) and `report-sample`, whose unknown addresses get names.

Layouts: system/extras/simpleperf, cmd_report.cpp and cmd_report_sample.cpp. Columns depend on the options of
the report, so they are taken from its header line.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable

from devkit.crashes.model import DEBUGGERD, PROFILE, Crash, Frame, Stack

_EVENT = re.compile(r"Event: (?P<event>\S{1,100}) \(type \d{1,9}, config \d{1,19}\)")
_SAMPLES = re.compile(r"(?:Samples|Event count): (?P<count>\d{1,19})$")
_HEADER = re.compile(r"(?:Overhead|Children)(?P<sign>,| {1,99})")
# Two blanks and more stand between columns; some names hold one.
_COLUMN = re.compile(r"\S+(?: \S+)*")
# What it shows of an address without a name.
UNNAMED = re.compile(r"(?P<module>[^\s,\[\]]{1,500})\[\+(?P<address>[0-9a-f]{1,16})\]")
_SAMPLE = re.compile(r"sample (?P<number>\d{1,12}):$")
_FIELD = re.compile(r" {2,8}(?P<name>\w{1,40}): (?P<value>.{0,4000})$")
_HEX = re.compile(r"[0-9a-f]{1,16}")
_LIBRARY, _SYMBOL = "Shared Object", "Symbol"
_MOST_ROWS = 2000
_MOST_SAMPLES = 512
_MOST_DEPTH = 512


class ProfileReader:
    """Takes the lines of a text; hands each event's report, or all samples, on as one.

    Args:
        found: is given each when its first line comes; the reader goes on filling it.
    """

    def __init__(self, found: Callable[[Crash], None]) -> None:
        self._found = found
        self._event = ""
        self._counts: list[str] = []
        self._columns: list[tuple[str, int]] = []  # name, and where it begins; of CSV its number
        self._is_csv = False
        self._crash: Crash | None = None
        self._sample: dict[str, str] | None = None
        self._samples: Crash | None = None

    def line(self, text: str, number: int) -> bool:
        """Take a line; whether it belongs to a profile."""
        if text.startswith("Event: ") and (event := _EVENT.match(text)):
            self._event, self._counts, self._columns, self._crash = event["event"], [], [], None
            return True
        if text.startswith("sample ") and (sample := _SAMPLE.match(text)):
            self._begin_sample(int(sample["number"]), number)
            return True
        if self._sample is not None:
            return self._field(text)
        if not self._event:
            return False
        if self._columns:
            return self._row(text, number)
        if _SAMPLES.match(text):
            self._counts.append(text.strip())
            return True
        if header := _HEADER.match(text):
            return self._header(text, header["sign"] == ",")
        return not text.strip()

    def _header(self, text: str, is_csv: bool) -> bool:
        if _SYMBOL not in text:
            return False
        self._is_csv = is_csv
        if is_csv:
            self._columns = [(name, at) for at, name in enumerate(text.strip().split(","))]
        else:
            self._columns = [(c[0], c.start()) for c in _COLUMN.finditer(text)]
        return True

    def _row(self, text: str, number: int) -> bool:
        cells = self._cells(text) if text[:1].isdigit() else {}
        symbol, module = cells.get(_SYMBOL), cells.get(_LIBRARY)
        if not symbol:
            if text.strip():
                self._event, self._columns = "", []  # the table has ended
                return False
            return True
        if self._crash is None:
            self._crash = Crash(PROFILE, number, what=self._event, details=list(self._counts))
            self._crash.stacks.append(Stack(self._event))
            self._found(self._crash)
        frames = self._crash.frames
        if len(frames) < _MOST_ROWS:
            frames.append(_frame(len(frames), text.strip(), symbol, module))
        return True

    def _cells(self, text: str) -> dict[str, str]:
        if self._is_csv:
            try:
                [cells] = csv.reader([text])
            except (csv.Error, ValueError):
                return {}
            return {name: cells[at] for name, at in self._columns if at < len(cells)}
        ends = [start for _, start in self._columns[1:]] + [len(text)]
        return {name: text[start:end].strip() for (name, start), end in zip(self._columns, ends, strict=True)}

    def _begin_sample(self, count: int, number: int) -> None:
        self._sample = {}
        if self._samples is None:
            self._samples = Crash(PROFILE, number, what="samples")
            self._found(self._samples)
        if len(self._samples.stacks) < _MOST_SAMPLES:
            self._samples.stacks.append(Stack(f"sample {count}"))
        else:
            self._sample = {"": ""}  # the others are not kept

    def _field(self, text: str) -> bool:
        sample = self._sample
        assert sample is not None and self._samples is not None
        field = _FIELD.match(text)
        if field is None:
            if text.strip() == "callchain:":
                return True
            self._sample = None
            return not text.strip()
        if "" in sample:
            return True
        name, value = field["name"], field["value"]
        stack = self._samples.stacks[-1]
        if name in ("thread_name", "event_type"):
            stack.title += f", {value}"
        sample[name] = value
        if name == "symbol" and len(stack.frames) < _MOST_DEPTH:
            module = sample.get("file")
            address = sample.get("vaddr_in_file", "")
            stack.frames.append(
                _frame(len(stack.frames), f"{value} ({module})", value, module, address=address)
            )
        return True


def _frame(number: int, text: str, symbol: str, module: str | None, *, address: str = "") -> Frame:
    unnamed = UNNAMED.fullmatch(symbol)
    if unnamed is not None:
        address = unnamed["address"]
    return Frame(
        number, text, DEBUGGERD,
        pc=int(address, 16) if _HEX.fullmatch(address) else None,
        module=module, function=None if unnamed else symbol,
    )  # fmt: skip
