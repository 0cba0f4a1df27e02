"""CMake's language as text: commands with the `if()`s around them, judged with a cache's values.

A file API tells what a build does; only the text tells what a build does *not* do, and why.
"""

from __future__ import annotations

import fnmatch
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LEXER = re.compile(
    r"""(?P<bracket_comment>\#\[(?P<e1>=*)\[.*?\](?P=e1)\])
      | (?P<comment>\#[^\n]*)
      | (?P<space>\s+)
      | (?P<open>\()
      | (?P<close>\))
      | "(?P<quoted>(?:[^"\\]|\\.)*)"
      | \[(?P<e2>=*)\[(?P<bracket>.*?)\](?P=e2)\]
      | (?P<plain>(?:[^\s()#"\\]|\\.)+)
      | (?P<odd>.)""",
    re.VERBOSE | re.DOTALL,
)
_TRUE = ("1", "ON", "YES", "TRUE", "Y")
_FALSE = ("0", "OFF", "NO", "FALSE", "N", "IGNORE", "NOTFOUND", "")
_UNARY = (
    "DEFINED",
    "EXISTS",
    "TARGET",
    "COMMAND",
    "POLICY",
    "TEST",
    "IS_DIRECTORY",
    "IS_SYMLINK",
    "IS_ABSOLUTE",
)
_BINARY = re.compile(
    r"MATCHES|IN_LIST|PATH_EQUAL|IS_NEWER_THAN|(STR|VERSION_)?(EQUAL|LESS|GREATER|LESS_EQUAL|GREATER_EQUAL)"
)
_SKIPPED_FOLDERS = ("build", ".git", "node_modules", "__pycache__")


@dataclass(frozen=True)
class Condition:
    """An `if()` around a command; `negated` in its else part."""

    words: tuple[str, ...]
    negated: bool
    file: Path
    line: int

    @property
    def text(self) -> str:
        """The condition as one line."""
        inner = " ".join(self.words).replace("( ", "(").replace(" )", ")")
        return f"NOT ({inner})" if self.negated else inner

    @property
    def variables(self) -> tuple[str, ...]:
        """Plain names in it, in order."""
        words = [w for w in self.words if re.fullmatch(r"[A-Za-z_]\w*", w)]
        return tuple(w for w in words if w not in ("AND", "OR", "NOT", *_UNARY) and not _BINARY.fullmatch(w))

    def holds(self, values: Mapping[str, str]) -> bool | None:
        """Whether it holds with these values; None when that cannot be told."""
        result = _Evaluator(self.words, values).result()
        return None if result is None else result != self.negated


@dataclass(frozen=True)
class Command:
    """A command of a CMake file, and the conditions around it."""

    name: str
    arguments: tuple[str, ...]
    file: Path
    line: int
    conditions: tuple[Condition, ...]


def cmake_files(source: Path) -> Iterator[Path]:
    """All CMakeLists.txt and *.cmake of a source folder, without build folders."""
    for folder, subfolders, names in os.walk(source):
        subfolders[:] = sorted(
            s for s in subfolders
            if s not in _SKIPPED_FOLDERS and not os.path.isfile(os.path.join(folder, s, "CMakeCache.txt"))
        )  # fmt: skip
        for name in sorted(names):
            if name == "CMakeLists.txt" or name.endswith(".cmake"):
                yield Path(folder, name)


def read_commands(file: Path) -> list[Command]:
    """The commands of one file. What cannot be read or understood is left out."""
    try:
        text = file.read_text("utf-8", "replace")
    except OSError:
        return []
    commands: list[Command] = []
    around: list[list[Condition]] = []
    for name, words, line in _calls(text):
        lowered = name.lower()
        if lowered == "if":
            around.append([Condition(words, False, file, line)])
        elif lowered in ("elseif", "else") and around:
            before = [Condition(c.words, True, c.file, c.line) for c in around[-1][-1:]]
            around[-1] = [*around[-1][:-1], *before]
            if lowered == "elseif":
                around[-1].append(Condition(words, False, file, line))
        elif lowered == "endif" and around:
            around.pop()
        else:
            conditions = tuple(condition for level in around for condition in level)
            commands.append(Command(lowered, words, file, line, conditions))
    return commands


def names_file(command: Command, file: Path, source: Path) -> bool:
    """Whether an argument of the command is this file, or a pattern that matches it."""
    recursive = command.name == "file" and "GLOB_RECURSE" in command.arguments
    return any(_matches(a, command.file.parent, file, source, recursive) for a in command.arguments)


def names_folder(command: Command, folder: Path, source: Path) -> bool:
    """Whether the command reads the CMake file of this folder."""
    if command.name == "add_subdirectory":
        return bool(command.arguments) and _matches(
            command.arguments[0], command.file.parent, folder, source, False
        )
    if command.name == "include":
        return any(
            _matches(argument, command.file.parent, folder / "CMakeLists.txt", source, False)
            for argument in command.arguments[:1]
        )
    return False


def _matches(argument: str, here: Path, file: Path, source: Path, recursive: bool) -> bool:
    if not argument or argument.isupper():
        return False
    pattern = argument
    for name in ("CMAKE_CURRENT_LIST_DIR", "CMAKE_CURRENT_SOURCE_DIR"):
        pattern = pattern.replace("${" + name + "}", str(here))
    for name in ("CMAKE_SOURCE_DIR", "PROJECT_SOURCE_DIR"):
        pattern = pattern.replace("${" + name + "}", str(source))
    if "${" in pattern:
        # A folder that is not known here: the rest of the path must fit, and be telling enough.
        rest = re.split(r"\$\{[^}]*\}", pattern)[-1]
        if not rest.startswith("/") or len(rest) < 4:
            return False
        return fnmatch.fnmatchcase(file.as_posix(), "*" + rest)
    path = os.path.normpath(os.path.join(here, pattern))
    if not re.search(r"[*?\[]", pattern):
        return path == str(file)
    folder, last = os.path.split(path)
    if recursive:
        return str(file).startswith(folder + os.sep) and fnmatch.fnmatchcase(file.name, last)
    return str(file.parent) == folder and fnmatch.fnmatchcase(file.name, last)


def _calls(text: str) -> Iterator[tuple[str, tuple[str, ...], int]]:
    name, line, depth = "", 0, 0
    words: list[str] = []
    at_line, position = 1, 0
    for found in _LEXER.finditer(text):
        at_line += text.count("\n", position, found.start())
        position = found.start()
        kind = found.lastgroup
        if found.group("open") is not None:
            depth += 1
            if depth > 1:
                words.append("(")
        elif found.group("close") is not None:
            if depth == 1:
                yield name, tuple(words), line
                words = []
            elif depth > 1:
                words.append(")")
            depth = max(0, depth - 1)
        elif kind in ("bracket_comment", "comment", "space", "odd"):
            continue
        else:
            groups = (found.group("quoted"), found.group("bracket"), found.group("plain"))
            word = next((g for g in groups if g is not None), "")
            if depth:
                words += [word] if found.group("quoted") is not None else word.split(";")
            else:
                name, line = word, at_line


class _Evaluator:
    """CMake's condition syntax with three values."""

    def __init__(self, words: Sequence[str], values: Mapping[str, str]) -> None:
        self._words = list(words)
        self._values = values

    def result(self) -> bool | None:
        value = self._or()
        return None if self._words else value

    def _or(self) -> bool | None:
        value = self._and()
        while self._words and self._words[0] == "OR":
            self._words.pop(0)
            other = self._and()
            value = True if True in (value, other) else None if None in (value, other) else False
        return value

    def _and(self) -> bool | None:
        value = self._not()
        while self._words and self._words[0] == "AND":
            self._words.pop(0)
            other = self._not()
            value = False if False in (value, other) else None if None in (value, other) else True
        return value

    def _not(self) -> bool | None:
        if self._words and self._words[0] == "NOT":
            self._words.pop(0)
            value = self._not()
            return None if value is None else not value
        return self._primary()

    def _primary(self) -> bool | None:
        if not self._words:
            return None
        word = self._words.pop(0)
        if word == "(":
            value = self._or()
            if self._words and self._words[0] == ")":
                self._words.pop(0)
            return value
        if word in _UNARY and self._words:
            name = self._words.pop(0)
            return True if word == "DEFINED" and name in self._values else None
        if self._words and _BINARY.fullmatch(self._words[0]):
            del self._words[:2]
            return None
        text = self._values.get(word, word if word.upper() in (*_TRUE, *_FALSE) else None)
        if text is None:
            return None
        return not (text.upper() in _FALSE or text.upper().endswith("-NOTFOUND"))
