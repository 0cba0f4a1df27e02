"""What `simpleperf report` and `report-sample` print, for when somebody has only the text.

Which columns there are depends on the options, so they are taken from the header line. Percentages are
rounded: weights made of them are near the truth. Stacks of `report -g` are not read: they are only shares.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from devkit.errors import FileError
from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.model import NONE, Meta, Profile

_PREAMBLE = re.compile(r"^(Cmdline|Arch|Event|Samples|Event count): ?(.*)$")
_EVENT = re.compile(r"^(\S+)(?: \(type (\d+), config (\d+|0x[0-9a-f]+)\))?")
_UNKNOWN_SYMBOL = re.compile(r"^.*\[\+([0-9a-f]+)\]$")
_SAMPLE = re.compile(r"^sample(?: \d+)?:\s*$", re.MULTILINE)
_COLUMN = re.compile(r"\S+(?: \S+)*")
_SELF = ("SelfEventCount", "EventCount")
_SHARES = ("Self", "Overhead")
# Percent have two places: of an event count that is not told, each counts as one.
_PARTS = 10_000


@dataclass
class _Section:
    """One event of a report: its rows by column."""

    event: str = ""
    kind: int = -1
    config: int = -1
    total: int = 0
    rows: list[Mapping[str, str]] = field(default_factory=list)


def is_report(text: str) -> bool:
    """Whether a text looks like one of simpleperf's."""
    head = text[:65536]
    return bool(_SAMPLE.search(head)) or (
        re.search(r"^Event: ", head, re.MULTILINE) is not None
        and re.search(r"^Samples: ", head, re.MULTILINE) is not None
    )


def read_report(path: Path) -> Profile:
    """Read such a text.

    Raises:
        FileError: it is none, or holds no samples.
    """
    try:
        text = path.read_text("utf-8", errors="replace")
    except OSError as error:
        raise FileError(f"{path} cannot be read", evidence=error.strerror) from None
    profile = _read_samples(text) if _SAMPLE.search(text) else _read_sections(text)
    if not len(profile):
        raise FileError(
            f"the report {path} holds no samples",
            evidence=next((line for line in text.splitlines() if line.startswith("Samples:")), None),
            hints=["simpleperf report --csv -i perf.data", "or give devkit the perf.data itself"],
        )
    return profile


# ---- report


def _read_sections(text: str) -> Profile:
    builder = ProfileBuilder()
    preamble: dict[str, str] = {}
    for section in _sections(text, preamble):
        unit = "ns" if (section.kind, section.config) in ((1, 0), (1, 1)) else "count"
        unit = "cycles" if (section.kind, section.config) == (0, 0) else unit
        event = builder.event(section.event or "unknown", unit)
        for row in section.rows:
            weight = _weight(row, section.total)
            if weight <= 0:
                continue  # Children of a call graph: what it did itself is nothing.
            pid, tid = (_number(row, name) for name in ("Pid", "Tid"))
            thread = builder.thread(pid, tid or pid, row.get("Command", ""))
            module = builder.module(row["Shared Object"]) if row.get("Shared Object") else NONE
            frame = _symbol_frame(builder, row.get("Symbol", ""), module)
            builder.sample(builder.stack([frame]), thread, weight, 0, event)
    return builder.finish(
        Meta(
            command=tuple(preamble.get("Cmdline", "").split()),
            recorder="simpleperf report",
            arch=preamble.get("Arch", ""),
        )
    )


def _sections(text: str, preamble: dict[str, str]) -> Iterator[_Section]:
    section = _Section()
    columns: Sequence[tuple[str, int]] = ()
    is_csv = False
    lines = iter(text.splitlines())
    for line in lines:
        found = _PREAMBLE.match(line)
        if found:
            name, value = found[1], found[2].strip()
            if name == "Event":
                if section.rows:
                    yield section
                section, columns = _Section(), ()
                event = _EVENT.match(value)
                if event:
                    section.event = event[1]
                    section.kind, section.config = (
                        int(event[2] or -1),
                        int(event[3] or "-1", 0 if "x" in (event[3] or "") else 10),
                    )
            elif name == "Event count":
                section.total = int(value) if value.isdecimal() else 0
            preamble.setdefault(name, value)
        elif not line.strip() or (columns and line[0].isspace()):
            continue  # A call graph is drawn below its row.
        elif not columns:
            is_csv = "," in line
            if is_csv:
                columns = [(name.strip(), 0) for name in next(csv.reader(io.StringIO(line)))]
            else:
                columns = [(match[0], match.start()) for match in _COLUMN.finditer(line)]
            if not {"Symbol", "Shared Object", "Command"} & {name for name, _ in columns}:
                columns = ()
        else:
            names = [name for name, _ in columns]
            values = next(csv.reader(io.StringIO(line))) if is_csv else _cut(line, [at for _, at in columns])
            section.rows.append(dict(zip(names, values, strict=False)))
    if section.rows:
        yield section


def _cut(line: str, starts: Sequence[int]) -> list[str]:
    """The columns of a line; the last one may be longer than its head."""
    ends = [*starts[1:], len(line)]
    return [line[start:end].strip() for start, end in zip(starts, ends, strict=True)]


def _weight(row: Mapping[str, str], total: int) -> int:
    for name in _SELF:
        if row.get(name, "").isdecimal():
            return int(row[name])
    for name in _SHARES:
        try:
            return round(float(row[name].rstrip("%")) * (total or _PARTS) / 100)
        except (KeyError, ValueError):
            continue
    return 0


# ---- report-sample


def _read_samples(text: str) -> Profile:
    builder = ProfileBuilder()
    lost = 0
    pids: dict[int, int] = {}
    blocks = list(_blocks(text))
    for kind, pairs, _ in blocks:
        if kind == "thread":
            pids[_number(pairs, "thread_id")] = _number(pairs, "process_id")
        elif kind == "lost_situation":
            lost = _number(pairs, "lost_count")
    for kind, pairs, chain in blocks:
        if kind != "sample":
            continue
        tid = _number(pairs, "thread_id")
        thread = builder.thread(pids.get(tid, tid), tid, pairs.get("thread_name", ""))
        places = [pairs, *chain] if "file" in pairs or "symbol" in pairs else chain
        frames = [_place_frame(builder, place) for place in reversed(places)]
        name = pairs.get("event_type", "unknown")
        unit = {"cpu-cycles": "cycles", "cpu-clock": "ns", "task-clock": "ns"}.get(
            name.partition(":")[0], "count"
        )
        builder.sample(
            builder.stack(frames),
            thread,
            _number(pairs, "event_count"),
            _number(pairs, "time"),
            builder.event(name, unit),
        )
    return builder.finish(Meta(recorder="simpleperf report-sample", lost=lost))


def _blocks(text: str) -> Iterator[tuple[str, dict[str, str], list[dict[str, str]]]]:
    """(kind, its lines, the entries of its call chain) of each block."""
    kind, pairs, chain = "", {}, []  # type: tuple[str, dict[str, str], list[dict[str, str]]]
    for line in text.splitlines():
        depth = len(line) - len(line.lstrip())
        name, colon, value = line.strip().partition(":")
        if not colon:
            continue
        if depth == 0:
            if kind:
                yield kind, pairs, chain
            kind, pairs, chain = name.partition(" ")[0], {}, []
        elif depth <= 2:
            pairs[name] = value.strip()
        else:
            if name == "vaddr_in_file" or not chain:
                chain.append({})
            chain[-1][name] = value.strip()
    if kind:
        yield kind, pairs, chain


def _place_frame(builder: ProfileBuilder, place: Mapping[str, str]) -> int:
    module = builder.module(place["file"]) if place.get("file") else NONE
    address = (
        int(place["vaddr_in_file"], 16) if re.fullmatch("[0-9a-f]+", place.get("vaddr_in_file", "")) else NONE
    )
    name = place.get("symbol", "")
    if _UNKNOWN_SYMBOL.match(name) or name == "unknown":
        name = ""
    return builder.frame(name, module, address=address)


def _symbol_frame(builder: ProfileBuilder, symbol: str, module: int) -> int:
    unknown = _UNKNOWN_SYMBOL.match(symbol)
    if unknown:
        return builder.frame("", module, address=int(unknown[1], 16))
    return builder.frame(symbol, module)


def _number(pairs: Mapping[str, str], name: str) -> int:
    value = pairs.get(name, "")
    return int(value) if value.isascii() and value.isdigit() else 0
