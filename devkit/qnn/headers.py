"""Types, constants and functions out of the SDK's own headers (include/QNN), with their comments."""

from __future__ import annotations

import ast
import difflib
import operator
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit.errors import FileError, UsageError
from devkit.ndk.qnn_sdk import QnnSdk
from devkit.qnn.docs_index import keep, kept_for, stamp_of

_BLOCK = re.compile(r"\btypedef\s+(?P<kind>struct|enum|union)\b[^{;]*\{")
_PLAIN = re.compile(r"\btypedef\s+(?P<what>[^{};]+);")
_DEFINE = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)(?P<value>(?:\\\n|[^\n])*)", re.MULTILINE)
_FUNCTION = re.compile(r"\bQNN_\w*API\s+(?P<what>[^;{}#]*?\b(?P<name>Qnn\w+)\s*\([^;{}]*\))\s*;")
_POINTER = re.compile(r"\(\s*\*\s*(\w+)\s*\)")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_ENUMERATOR = re.compile(r"(?P<name>[A-Za-z_]\w*)\s*(?:=\s*(?P<value>[^,}]+))?\s*(?:,|$)")
_MEMBER = re.compile(
    r"(?P<open>(?:union|struct)\b[^{;]*\{)|(?P<close>\}\s*(?P<label>\w*)\s*;)"
    r"|(?P<doc>///?<?[^\n]*|/\*.*?\*/)|(?P<what>[^;{}/]+);",
    re.DOTALL,
)
_OPERATORS: dict[type[ast.operator], Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.LShift: operator.lshift,
    ast.BitOr: operator.or_,
}
_DEEPEST = 20
_LONGEST_COMMENT = 16_000
# What pads an enum to 32 bits is no error.
_NO_ERROR = ("_UNDEFINED", "_MIN_ERROR", "_MAX_ERROR")


@dataclass(frozen=True)
class Declaration:
    """One thing that a header declares.

    Attributes:
        kind: struct, union, enum, typedef, define or function.
        text: its own comment.
        source: the declaration as it stands in the header.
        header: relative to include/QNN.
        members: of a struct or union their name, type, comment and depth of nesting; of an enum its values.
    """

    name: str
    kind: str
    text: str
    source: str
    header: str
    line: int
    members: tuple[dict[str, Any], ...] = ()

    def as_dict(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "kind": self.kind,
            "text": self.text,
            "header": self.header,
            "line": self.line,
            "members": list(self.members),
            "source": self.source,
        }


def find_declaration(sdk: QnnSdk, name: str) -> Declaration:
    """A type, constant, enumerator or function by its name; for an enumerator the enum that has it.

    Raises:
        UsageError: no header has it.
        FileError: a header cannot be read.
    """
    headers = _read(sdk)
    found = next((d for d in headers if d.name == name), None)
    found = found or next((d for d in headers if any(m.get("name") == name for m in _values(d))), None)
    found = found or next((d for d in headers if d.name.lower() == name.lower()), None)
    if found is None:
        names = [d.name for d in headers] + [m["name"] for d in headers for m in _values(d)]
        raise UsageError(
            f"no header of this QNN SDK declares {name!r}",
            evidence=f"{len(headers)} declarations in {sdk.path / 'include/QNN'}",
            hints=[f"did you mean {near}?" for near in difflib.get_close_matches(name, names, n=1)],
        )
    return found


def names_of_error(sdk: QnnSdk, number: int) -> list[str]:
    """What the SDK's headers call an error code; some numbers have a name in several components.

    Raises:
        FileError: a header cannot be read.
    """
    return [
        member["name"]
        for declaration in _read(sdk)
        for member in _values(declaration)
        if member["value"] == number
        and "_ERROR_" in member["name"]
        and not member["name"].endswith(_NO_ERROR)
    ]


def used_types(declaration: Declaration, sdk: QnnSdk) -> list[str]:
    """Other types of the SDK that a declaration is made of."""
    known = {d.name for d in _read(sdk) if d.kind in ("struct", "union", "enum", "typedef")}
    words = re.findall(r"\bQnn\w+", _COMMENT.sub("", declaration.source))
    return [word for word in dict.fromkeys(words) if word in known and word != declaration.name]


def _values(declaration: Declaration) -> tuple[dict[str, Any], ...]:
    return declaration.members if declaration.kind == "enum" else ()


_REMEMBERED: dict[Path, list[Declaration]] = {}


def _read(sdk: QnnSdk) -> list[Declaration]:
    root = sdk.path / "include/QNN"
    if root not in _REMEMBERED:
        headers = sorted(root.rglob("*.h"), key=lambda p: (len(p.parts), p.name))
        stamp = stamp_of(headers)
        kept = kept_for(root, stamp)
        if kept is None:
            kept = {"declarations": [found.as_dict() for found in _parse(root, headers)]}
            keep(root, stamp, kept)
        _REMEMBERED[root] = [
            Declaration(**{**row, "members": tuple(row["members"])}) for row in kept["declarations"]
        ]
    return _REMEMBERED[root]


def _parse(root: Path, headers: list[Path]) -> Iterator[Declaration]:
    texts = {}
    for path in headers:
        try:
            texts[path.relative_to(root).as_posix()] = path.read_text("utf-8", "replace")
        except OSError as error:
            raise FileError(f"{path} cannot be read", evidence=error.strerror) from None
    numbers = _Numbers(texts.values())
    for header, text in texts.items():
        yield from _declarations(header, text, numbers)


class _Numbers:
    """The values of constants, as far as they are sums of numbers and other constants."""

    def __init__(self, texts: Any) -> None:
        self._said: dict[str, str] = {}
        for text in texts:
            for define in _DEFINE.finditer(text):
                self._said.setdefault(define["name"], _COMMENT.sub("", define["value"]).strip())
            code = _without_comments(text)
            for block in _BLOCK.finditer(code):
                if block["kind"] == "enum":
                    for name, value in _enumerators(code[block.end() : _closing(code, block.end())]):
                        if value:
                            self._said.setdefault(name, value)

    def value(self, text: str, depth: int = 0) -> int | None:
        """What an expression is worth; None when it is more than a sum of known constants."""
        if depth > _DEEPEST:
            return None

        def known(match: re.Match[str]) -> str:
            said = self._said.get(match[0])
            inner = self.value(said, depth + 1) if said else None
            return str(inner) if inner is not None else match[0]

        plain = re.sub(r"\b(0[xX][0-9a-fA-F]+|\d+)[uUlL]+\b", r"\1", text)
        plain = re.sub(r"\b[A-Za-z_]\w*\b", known, plain)
        try:
            return _evaluate(ast.parse(plain.strip(), mode="eval").body)
        except (SyntaxError, ValueError):
            return None


def _evaluate(node: ast.expr) -> int:
    if isinstance(node, ast.Constant) and isinstance(node.value, int):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _OPERATORS:
        return int(_OPERATORS[type(node.op)](_evaluate(node.left), _evaluate(node.right)))
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluate(node.operand)
    raise ValueError("not a sum of constants")


def _declarations(header: str, text: str, numbers: _Numbers) -> Iterator[Declaration]:
    code = _without_comments(text)
    inside: list[tuple[int, int]] = []
    for block in _BLOCK.finditer(code):
        close = _closing(code, block.end())
        end = code.find(";", close)
        name = code[close + 1 : end].strip()
        if not name or end < 0:
            continue
        inside.append((block.start(), end))
        body = text[block.end() : close]
        members = tuple(_enum_members(body, numbers) if block["kind"] == "enum" else _members(body))
        yield _declaration(name, block["kind"], header, text, block.start(), end + 1, members)
    for plain in _PLAIN.finditer(code):
        if any(begin <= plain.start() < end for begin, end in inside):
            continue
        pointer = _POINTER.search(plain["what"])
        name = pointer[1] if pointer else (re.findall(r"\w+", plain["what"]) or [""])[-1]
        yield _declaration(name, "typedef", header, text, plain.start(), plain.end())
    for define in _DEFINE.finditer(code):
        if define["value"].strip():
            yield _declaration(define["name"], "define", header, text, define.start(), define.end())
    for function in _FUNCTION.finditer(code):
        yield _declaration(function["name"], "function", header, text, function.start("what"), function.end())


def _declaration(
    name: str, kind: str, header: str, text: str, begin: int, end: int, members: Any = ()
) -> Declaration:
    line = text.count("\n", 0, begin) + 1
    return Declaration(
        name, kind, _comment_before(text, begin), text[begin:end].strip(), header, line, members
    )


def _closing(text: str, at: int) -> int:
    """Where the brace closes that was opened before `at`."""
    depth = 1
    for token in re.compile(r"[{}]").finditer(text, at):
        depth += 1 if token[0] == "{" else -1
        if not depth:
            return token.start()
    return len(text)


def _without_comments(text: str) -> str:
    """The same text with blanks for comments: what they say of typedefs and braces is no code."""
    return _COMMENT.sub(lambda comment: re.sub(r"[^\n]", " ", comment[0]), text)


def _comment_before(text: str, at: int) -> str:
    """The comment that ends right before a declaration; other lines in between are none of it."""
    before = text[max(0, at - _LONGEST_COMMENT) : at].rstrip()
    word = before[before.rfind("\n") + 1 :].strip()
    if word.startswith("QNN_") and word.endswith("API"):
        before = before[: before.rindex(word)].rstrip()
    while (last := before.rpartition("\n")[2].strip()).startswith("// clang-format"):
        before = before[: before.rindex(last)].rstrip()
    if before.endswith("*/"):
        return _plain(before[before.rfind("/*") :])
    lines: list[str] = []
    for line in reversed(before.splitlines()):
        if not line.strip().startswith("///") or not line.strip(" /"):
            break
        lines.insert(0, line)
    return _plain("\n".join(lines))


def _plain(comment: str) -> str:
    """A comment's words: without its marks and doxygen's commands."""
    lines = [
        re.sub(r"^\s*(?:/\*+|\*+/|\*|///?<?)?\s?|\s*\*+/\s*$", "", line) for line in comment.splitlines()
    ]
    text = "\n".join(re.sub(r"[@\\]brief\s*", "", line).rstrip() for line in lines).strip("\n")
    return re.sub(r"[@\\](param\[\w+\]|param|return|note|c|p)\b ?", r"\1 ", text).strip()


def _enumerators(body: str) -> Iterator[tuple[str, str]]:
    for found in _ENUMERATOR.finditer(_COMMENT.sub("", body).strip()):
        yield found["name"], (found["value"] or "").strip()


def _enum_members(body: str, numbers: _Numbers) -> Iterator[dict[str, Any]]:
    comments = _comments_of(body)
    before = -1
    for name, said in _enumerators(body):
        value = numbers.value(said) if said else before + 1
        before = value if value is not None else before
        yield {"name": name, "value": value, "text": comments.get(name, "")}


def _comments_of(body: str) -> dict[str, str]:
    """The comment before each enumerator."""
    found: dict[str, str] = {}
    comment: list[str] = []
    for line in body.splitlines():
        line = line.strip()
        if line.startswith(("//", "/*", "*")):
            comment += [line] if line.strip("/* ") else []
        elif name := re.match(r"\w+", line):
            found[name[0]] = " ".join(_plain(part) for part in comment)
            comment = []
    return found


def _members(body: str) -> Iterator[dict[str, Any]]:
    depth = 0
    comment: list[str] = []
    for token in _MEMBER.finditer(body):
        if token["doc"]:
            comment.append(_plain(token["doc"]).replace("\n", " "))
            continue
        said = " ".join(comment).strip()
        comment = []
        if token["open"]:
            yield {"name": "", "type": token["open"].split()[0].rstrip("{"), "text": said, "depth": depth}
            depth += 1
        elif token["close"]:
            depth = max(0, depth - 1)
        else:
            words = " ".join(token["what"].split())
            named = _POINTER.search(words) or re.search(r"(\w+)\s*(?:\[[^\]]*\])*$", words)
            if named:
                kind = words if "(" in words else words[: named.start(1)].strip() + words[named.end(1) :]
                yield {"name": named[1], "type": kind, "text": said, "depth": depth}
