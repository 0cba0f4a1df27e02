"""JSON with comments as VS Code reads it, parsed into spans of the text: nothing is ever re-serialised.

Edits are in `jsonc_edit`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_DEPTH = 200  # nobody's settings; keeps the parser off Python's recursion limit
BOM = "\ufeff"

_TOKEN = re.compile(
    r"""(?P<space>[ \t\r\n]+)
      | (?P<comment>//[^\r\n]*|/\*.*?\*/)
      | (?P<punctuation>[{}\[\]:,])
      | (?P<string>"(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9a-fA-F]{4})*")
      | (?P<number>-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)
      | (?P<word>true|false|null)""",
    re.VERBOSE | re.DOTALL,
)
_WORDS = {"true": True, "false": False, "null": None}
_CLOSING = {"object": "}", "array": "]"}


class JsoncError(ValueError):
    """The text is not JSON with comments. `line` and `column` count from 1."""

    def __init__(self, what: str, line: int, column: int) -> None:
        super().__init__(f"line {line}, column {column}: {what}")
        self.what = what
        self.line = line
        self.column = column


@dataclass(frozen=True)
class Node:
    """A value and where it stands: text[start:end].

    Attributes:
        kind: "object", "array" or "scalar".
        scalar: a scalar's value.
        items: an object's members or an array's elements.
    """

    kind: str
    start: int
    end: int
    scalar: Any = None
    items: tuple[Item, ...] = ()

    @property
    def value(self) -> Any:
        """The value as Python's json would give it; of a key given twice the last counts."""
        if self.kind == "object":
            return {item.key: item.node.value for item in self.items}
        if self.kind == "array":
            return [item.node.value for item in self.items]
        return self.scalar

    def member(self, key: str) -> Item | None:
        """The member that counts under this key: the last one, as in VS Code."""
        return next((item for item in reversed(self.items) if item.key == key), None)

    def index(self, item: Item) -> int:
        """The position of one of `items`."""
        return next(i for i, other in enumerate(self.items) if other is item)


@dataclass(frozen=True)
class Item:
    """A member (with key) or an element (without). `comma`: where its comma stands, if it has one."""

    key: str | None
    start: int
    node: Node
    comma: int | None

    @property
    def end(self) -> int:
        """Where its value ends; the comma is not part of it."""
        return self.node.end


@dataclass(frozen=True)
class Document:
    """A parsed text. `root` is None when there is nothing but blanks and comments."""

    text: str
    root: Node | None
    comments: tuple[tuple[int, int], ...]

    @property
    def newline(self) -> str:
        """The line ending that the text uses first."""
        found = re.search(r"\r\n|\r|\n", self.text)
        return found.group() if found else "\n"

    @property
    def indent_unit(self) -> str:
        """What one level is indented with; VS Code's four blanks where nothing can be seen."""
        for item in self.root.items if self.root else ():
            lead = self.lead(item.start)
            if lead and self.starts_line(item.start):
                return lead
        return "    "

    def lead(self, position: int) -> str:
        """The blanks and tabs that begin the line of a position."""
        line = self.text[self._line_start(position) :]
        return line[: len(line) - len(line.lstrip(" \t"))]

    def starts_line(self, position: int) -> bool:
        """Whether only blanks stand before the position on its line."""
        return not self.text[self._line_start(position) : position].strip(" \t")

    def has_comment(self, start: int, end: int) -> bool:
        """Whether a comment stands in text[start:end]."""
        return any(start <= first < end for first, _ in self.comments)

    def find(self, path: Sequence[str]) -> Node | None:
        """The value under the keys of `path`, or None."""
        node = self.root
        for key in path:
            item = node.member(key) if node is not None and node.kind == "object" else None
            node = item.node if item else None
        return node

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, counted from 1."""
        return _position(self.text, offset)

    def duplicates(self) -> tuple[tuple[str, int], ...]:
        """Keys of the outermost object that are given more than once, with the line of the last."""
        if self.root is None or self.root.kind != "object":
            return ()
        seen: dict[str, int] = {}
        found: dict[str, int] = {}
        for item in self.root.items:
            if str(item.key) in seen:
                found[str(item.key)] = self.position(item.start)[0]
            seen[str(item.key)] = item.start
        return tuple(found.items())

    def _line_start(self, position: int) -> int:
        start = max(self.text.rfind("\n", 0, position), self.text.rfind("\r", 0, position)) + 1
        return start + 1 if start == 0 and self.text.startswith(BOM) else start


def parse(text: str) -> Document:
    """Parse a whole file's text.

    Accepted beyond JSON: `//` and `/* */` comments, one trailing comma, a byte order mark.

    Raises:
        JsoncError: anything else; says where.
    """
    return _Parser(text).document()


@dataclass(frozen=True)
class _Token:
    kind: str
    start: int
    end: int


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._comments: list[tuple[int, int]] = []
        self._tokens = self._tokenize()
        self._next = 0

    def document(self) -> Document:
        root = None
        if self._peek().kind != "end":
            root = self._value(0)
            if self._peek().kind != "end":
                self._fail("nothing may follow the outermost value", self._peek())
        return Document(self._text, root, tuple(self._comments))

    def _tokenize(self) -> list[_Token]:
        tokens: list[_Token] = []
        position = len(BOM) if self._text.startswith(BOM) else 0
        while position < len(self._text):
            found = _TOKEN.match(self._text, position)
            if found is None:
                self._fail_at(self._reason(position), position)
            kind = str(found.lastgroup)
            if kind == "comment":
                self._comments.append(found.span())
            elif kind != "space":
                name = found.group() if kind == "punctuation" else kind
                tokens.append(_Token(name, *found.span()))
            position = found.end()
        tokens.append(_Token("end", len(self._text), len(self._text)))
        return tokens

    def _reason(self, position: int) -> str:
        character = self._text[position]
        if character == '"':
            return "this text has no closing quote on its line, or an unknown \\escape"
        if self._text.startswith("/*", position):
            return "this comment is never closed"
        if character == "'":
            return "texts need double quotes"
        return f"{character!r} cannot stand here"

    def _value(self, depth: int) -> Node:
        token = self._take()
        if depth > MAX_DEPTH:
            self._fail(f"nested more than {MAX_DEPTH} levels deep", token)
        if token.kind == "{":
            return self._container("object", token, depth)
        if token.kind == "[":
            return self._container("array", token, depth)
        text = self._text[token.start : token.end]
        if token.kind == "word":
            return Node("scalar", token.start, token.end, _WORDS[text])
        if token.kind in ("string", "number"):
            return Node("scalar", token.start, token.end, json.loads(text))
        if token.kind == "end":
            self._fail("the file ends in the middle of a value", token)
        self._fail(f"a value is missing before {token.kind!r}", token)

    def _container(self, kind: str, opening: _Token, depth: int) -> Node:
        items: list[Item] = []
        while self._peek().kind != _CLOSING[kind]:
            if items and items[-1].comma is None:
                if self._peek().kind == "end":
                    line = _position(self._text, opening.start)[0]
                    self._fail(f"{_CLOSING[kind]!r} is missing for line {line}", self._peek())
                self._fail("a comma is missing before this", self._peek())
            key, start = None, self._peek().start
            if kind == "object":
                token = self._take()
                if token.kind != "string":
                    self._fail("a name in double quotes must stand here", token)
                key = json.loads(self._text[token.start : token.end])
                if self._peek().kind != ":":
                    self._fail("a colon must follow the name", self._peek())
                self._take()
            node = self._value(depth + 1)
            comma = self._take().start if self._peek().kind == "," else None
            items.append(Item(key, start, node, comma))
        closing = self._take()
        return Node(kind, opening.start, closing.end, items=tuple(items))

    def _peek(self) -> _Token:
        return self._tokens[self._next]

    def _take(self) -> _Token:
        token = self._tokens[self._next]
        if token.kind != "end":
            self._next += 1
        return token

    def _fail(self, what: str, token: _Token) -> NoReturn:
        self._fail_at(what, token.start)

    def _fail_at(self, what: str, offset: int) -> NoReturn:
        raise JsoncError(what, *_position(self._text, offset))


def _position(text: str, offset: int) -> tuple[int, int]:
    before = text[len(BOM) if text.startswith(BOM) else 0 : offset]
    lines = re.split(r"\r\n|\r|\n", before)
    return len(lines), len(lines[-1]) + 1
