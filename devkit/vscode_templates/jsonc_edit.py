"""Edits of JSON with comments that leave every byte outside the edited item alone, and can be undone.

Each function takes a text and gives a text. What an insertion cannot take back by looking at the
text alone (a bracket that moved to a line of its own) it returns as a `Closed` to be remembered.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from devkit.vscode_templates.jsonc import Document, Item, Node, parse


@dataclass(frozen=True)
class Closed:
    """An insertion put a container's closing bracket on a line of its own.

    Attributes:
        anchor: what stood last in the container before.
        inserted: the line break and indentation put before the bracket.
    """

    anchor: str
    inserted: str


def skeleton(text: str, newline: str) -> str:
    """What to append to a text without any value, so that it holds an empty object."""
    start = newline if text.strip("\ufeff \t\r\n") and not text.endswith(("\n", "\r")) else ""
    return start + "{" + newline + "}" + newline


def insert(text: str, path: Sequence[str], key: str | None, value: Any) -> tuple[str, Closed | None]:
    """Add a member (or an element, when `key` is None) at the end of the container at `path`.

    It goes after the comments that stand there, on a line of its own; a trailing comma stays the
    container's custom.
    """
    document = parse(text)
    container = _container(document, path)
    newline, closing = document.newline, container.end - 1
    base = document.lead(container.start)
    anchor, label = _last_content(document, container)
    last = container.items[-1] if container.items else None
    if last is not None and document.starts_line(last.start):
        indent = document.lead(last.start)
    else:
        indent = base + document.indent_unit
    rendered = render(value, indent, document.indent_unit, newline)
    if key is not None:
        rendered = json.dumps(key, ensure_ascii=False) + ": " + rendered
    if last is not None and last.comma is not None:
        rendered += ","
    tail = text[anchor:closing]
    closed = None if "\n" in tail or "\r" in tail else Closed(label, newline + base)
    added = newline + indent + rendered + (closed.inserted if closed else "")
    comma = last.end if last is not None and last.comma is None else None
    before = text[:anchor] if comma is None else text[:comma] + "," + text[comma:anchor]
    return before + added + text[anchor:], closed


def replace(text: str, path: Sequence[str], index: int, value: Any) -> str:
    """Put another value in an item's place."""
    document = parse(text)
    item = _container(document, path).items[index]
    indent = document.lead(item.start)
    rendered = render(value, indent, document.indent_unit, document.newline)
    return text[: item.node.start] + rendered + text[item.end :]


def put_back(text: str, path: Sequence[str], index: int, raw: str) -> str:
    """Put the very text of a former value in an item's place."""
    item = _container(parse(text), path).items[index]
    return text[: item.node.start] + raw + text[item.end :]


def remove(text: str, path: Sequence[str], index: int) -> str:
    """Take an item out, with the blanks before it and the comma that only it needed."""
    document = parse(text)
    container = _container(document, path)
    item = container.items[index]
    cuts = [(item.start, item.end)]
    if item.comma is not None:
        cuts.append((item.comma, item.comma + 1))
    elif index > 0:
        comma = container.items[index - 1].comma
        assert comma is not None
        cuts.append((comma, comma + 1))
    start = len(text[: item.start].rstrip(" \t\r\n"))
    following = text[cuts[1][1] if item.comma is not None else item.end :]
    line_comment = any(end == start and text.startswith("//", first) for first, end in document.comments)
    if not line_comment or following.startswith(("\n", "\r")):
        cuts[0] = (start, item.end)
    for first, end in sorted(cuts, reverse=True):
        text = text[:first] + text[end:]
    return text


def reopen(text: str, path: Sequence[str], closed: Closed) -> str:
    """Undo what `insert` did to the closing bracket, if the container is again what it was."""
    document = parse(text)
    container = document.find(path)
    if container is None or container.kind == "scalar":
        return text
    anchor, label = _last_content(document, container)
    if label != closed.anchor or not text.startswith(closed.inserted, anchor):
        return text
    return text[:anchor] + text[anchor + len(closed.inserted) :]


def render(value: Any, indent: str, unit: str, newline: str) -> str:
    """A value as text, whose lines after the first start with `indent`."""
    if isinstance(value, list | dict) and not value:
        return "[]" if isinstance(value, list) else "{}"
    text = json.dumps(value, indent=unit, ensure_ascii=False)
    return text.replace("\n", newline + indent)


def _container(document: Document, path: Sequence[str]) -> Node:
    node = document.find(path)
    assert node is not None and node.kind != "scalar", path
    return node


def _last_content(document: Document, container: Node) -> tuple[int, str]:
    """Where the last thing in a container ends, and a name for that thing."""
    closing = container.end - 1
    position, label = container.start + 1, "nothing"
    if container.items:
        last: Item = container.items[-1]
        position = last.end if last.comma is None else last.comma + 1
        label = f"item {len(container.items)}: {last.key or ''}"
    for start, end in document.comments:
        if position <= start < closing:
            position, label = end, "comment: " + document.text[start:end]
    return position, label
