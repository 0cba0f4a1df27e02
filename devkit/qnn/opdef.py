"""One operation of QNN: its definition, and what each backend takes, out of the SDK's OpDef pages."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from devkit.qnn.html_text import CODE, HEADING, ITEM, TABLE, Block

# What the definition says of each tensor and parameter; other items belong to its description.
_FACT = re.compile(
    r"^(Mandatory|Data type|Shape|Default|Values|Constraints|Layout|Repeated|Static)\s*:\s*(.*)$"
)
_PREFIXES = ("QNN_DATATYPE_", "QNN_QUANTIZATION_ENCODING_")
DATATYPES = "Datatypes"


@dataclass(frozen=True)
class Tensor:
    """An input, an output or a parameter. `facts`: Mandatory, Data type, Shape, Default, Constraints …"""

    name: str
    text: tuple[str, ...]
    facts: dict[str, str | list[str]]

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "text": list(self.text), "facts": self.facts}


@dataclass(frozen=True)
class Operation:
    """The definition of an operation."""

    name: str
    text: tuple[str, ...]
    references: tuple[str, ...] = ()
    inputs: tuple[Tensor, ...] = ()
    parameters: tuple[Tensor, ...] = ()
    outputs: tuple[Tensor, ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "text": list(self.text),
            "references": list(self.references),
            "inputs": [tensor.as_dict() for tensor in self.inputs],
            "parameters": [tensor.as_dict() for tensor in self.parameters],
            "outputs": [tensor.as_dict() for tensor in self.outputs],
        }


@dataclass(frozen=True)
class Table:
    """A table of a supplement; the first column is the configuration (INT8, FP16, All)."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]

    def of_column(self, name: str) -> list[tuple[str, str]]:
        """The cells of one column that say something, each with its configuration."""
        at = self.columns.index(name)
        return [(row[0], row[at]) for row in self.rows if row[at]]

    def as_dict(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "rows": [
                {c: cell.splitlines() for c, cell in zip(self.columns, row, strict=True)} for row in self.rows
            ],
        }


@dataclass(frozen=True)
class Supplement:
    """What one backend takes of an operation: tables by their title, Datatypes, Constraints, Support."""

    backend: str
    tables: dict[str, Table] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        return {"backend": self.backend, **{title.lower(): t.as_dict() for title, t in self.tables.items()}}


def read_operation(blocks: Sequence[Block]) -> Operation:
    """A definition: the blocks from one operation's heading to the next one's."""
    name = blocks[0].text
    parts: dict[str, tuple[Tensor, ...]] = {}
    text, references = _description(_until_heading(blocks[1:]))
    for title, inside in _sections(blocks[1:], 3):
        parts[title.lower()] = tuple(_tensor(heading, body) for heading, body in _sections(inside, 4))
    return Operation(
        name,
        tuple(text),
        tuple(references),
        parts.get("inputs", ()),
        parts.get("parameters", ()),
        parts.get("outputs", ()),
    )


def read_supplement(backend: str, blocks: Sequence[Block]) -> Supplement:
    """What a backend's supplement says of one operation."""
    tables: dict[str, Table] = {}
    for title, inside in _sections(blocks[1:], 3):
        for block in inside:
            if block.kind == TABLE and block.rows:
                table = _table(block)
                before = tables.get(title)
                if before is not None and before.columns == table.columns:
                    table = Table(table.columns, before.rows + table.rows)
                tables[title] = table
    return Supplement(backend, tables)


def short_type(text: str) -> str:
    """UFIXED_POINT_8 of QNN_DATATYPE_UFIXED_POINT_8, also inside of sentences: columns are narrow."""
    for prefix in _PREFIXES:
        text = text.replace(prefix, "")
    return text


def _until_heading(blocks: Sequence[Block]) -> list[Block]:
    taken = []
    for block in blocks:
        if block.kind == HEADING:
            break
        taken.append(block)
    return taken


def _sections(blocks: Sequence[Block], level: int) -> Iterator[tuple[str, list[Block]]]:
    title: str | None = None
    inside: list[Block] = []
    for block in blocks:
        if block.kind == HEADING and block.level <= level:
            if title is not None:
                yield title, inside
            title, inside = (block.text, []) if block.level == level else (None, [])
        elif title is not None:
            inside.append(block)
    if title is not None:
        yield title, inside


def _description(blocks: Sequence[Block]) -> tuple[list[str], list[str]]:
    text: list[str] = []
    references: list[str] = []
    into = text
    for block in blocks:
        if block.kind != ITEM:
            into = text
        if block.text.rstrip(":") == "References":
            into = references
        elif block.kind == ITEM:
            into.append(block.text if into is references else f"- {block.text}")
        elif block.kind == CODE:
            text += [f"    {line}" for line in block.text.splitlines()]
        elif block.kind == TABLE:
            text += [" | ".join(row) for row in block.rows]
        else:
            text.append(block.text)
    return text, references


def _tensor(name: str, blocks: Sequence[Block]) -> Tensor:
    text: list[str] = []
    facts: dict[str, str | list[str]] = {}
    open_fact, level = "", 0
    for block in blocks:
        found = _FACT.match(block.text) if block.kind == ITEM else None
        if found and (not open_fact or block.level <= level):
            key, value = found.groups()
            open_fact, level = (key, block.level) if not value else ("", block.level)
            facts[key] = value or []
        elif open_fact and (block.level > level or block.kind != ITEM):
            values = facts[open_fact]
            if isinstance(values, list):
                values.append(block.text)
        else:
            open_fact = ""
            text += [f"- {block.text}"] if block.kind == ITEM else block.text.splitlines()
    return Tensor(name, tuple(text), facts)


def _table(block: Block) -> Table:
    head = block.rows[0]
    rows = []
    configuration = ""
    for row in block.rows[max(1, block.head) :]:
        cells = [*row, *[""] * (len(head) - len(row))][: len(head)]
        # An empty first cell goes on with the configuration above it.
        configuration = cells[0] = cells[0] or configuration
        rows.append(tuple(cells))
    return Table(head, tuple(rows))
