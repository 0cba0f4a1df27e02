"""compile_commands.json: reading what build tools write, and several builds as one list for an editor.

See https://clang.llvm.org/docs/JSONCompilationDatabase.html for the format.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from devkit.errors import FileError

_LAUNCHERS = ("ccache", "sccache", "distcc", "icecc", "gomacc")
_RESPONSE_DEPTH = 8  # a response file that names itself ends here
# Two arguments that a hand-written file may give as one, with the blank in it.
_GLUED = re.compile(
    r"(-target|--target|--sysroot|-isystem|-iquote|-idirafter|-include|-x|-arch|-I|-D|-U)\s+(\S.*)", re.DOTALL
)
_FOLDER_FLAGS = ("-isystem", "-iquote", "-idirafter", "-I")
_QUOTING = re.compile(r"[\"'\\]")
_WORD = re.compile(r"""(?:[^\s"'\\]+|\\.|"[^"\\]*(?:\\.[^"\\]*)*"|'[^']*')+|["'\\]""", re.DOTALL)
_PART = re.compile(r"""\\(.)|"([^"\\]*(?:\\.[^"\\]*)*)"|'([^']*)'|([^\s"'\\]+)""", re.DOTALL)


@dataclass(frozen=True)
class Entry:
    """How one source file is compiled.

    Attributes:
        file: absolute path.
        directory: where the compiler runs.
        arguments: the compiler's whole command line, response files read.
        output: the object file as the build names it, or nothing.
        real: the file's path without symbolic links: what makes two entries the same.
    """

    file: str
    directory: str
    arguments: tuple[str, ...]
    output: str | None
    real: str

    @property
    def compiler(self) -> str:
        """The compiler as the command line names it."""
        return self.arguments[0] if self.arguments else ""

    @property
    def target(self) -> str | None:
        """The CMake target, as the object file's path tells."""
        for text in (self.output or "", *self.arguments):
            found = re.search(r"CMakeFiles/([^/]+)\.dir/", text)
            if found:
                return found.group(1)
        return None


@dataclass(frozen=True)
class Database:
    """Entries, one a file, ordered by file; and what was odd about them."""

    entries: tuple[Entry, ...]
    warnings: tuple[str, ...] = ()

    @property
    def compilers(self) -> tuple[str, ...]:
        """The different compilers, in the order of their names."""
        return tuple(sorted({entry.compiler for entry in self.entries if entry.compiler}))

    def dump(self) -> bytes:
        """The file's content: one entry a line, always the same for the same entries."""
        lines = [
            json.dumps(
                {"directory": e.directory, "file": e.file, "arguments": list(e.arguments)}
                | ({"output": e.output} if e.output else {}),
                ensure_ascii=False,
            )
            for e in self.entries
        ]
        text = "[\n" + ",\n".join(lines) + ("\n" if lines else "") + "]\n"
        return text.encode("utf-8", "surrogateescape")


def read_database(file: Path, *, root: Path | None = None) -> Database:
    """Read a compile_commands.json.

    Both forms, `command` and `arguments`, are read. Relative paths become absolute, response files
    and compiler launchers are resolved. Files that do not exist (not generated yet) stay.

    Args:
        root: the source folder as its user names it; paths that lead into it by another name
            (a symbolic link) are rewritten to this one, so that an editor knows a file by one name.

    Raises:
        FileError: it cannot be read or is no such file.
    """
    try:
        content = json.loads(file.read_bytes())
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=str(error)) from None
    except ValueError as error:
        raise FileError(
            f"{file} is not valid JSON", evidence=str(error), hints=["build again: it is written then"]
        ) from None
    if not isinstance(content, list):
        raise FileError(f"{file} holds no list of compile commands")
    reader = _Reader(root)
    entries = [entry for raw in content if (entry := reader.entry(raw, file.parent)) is not None]
    return Database(_one_a_file(entries), tuple(dict.fromkeys(reader.warnings)))


def merge(databases: Sequence[Database]) -> Database:
    """One entry for each file; the first database that has the file decides."""
    warnings = dict.fromkeys(warning for database in databases for warning in database.warnings)
    entries = _one_a_file(entry for database in databases for entry in database.entries)
    return Database(entries, tuple(warnings))


def split_command(command: str) -> list[str]:
    """A shell command line as words: as a POSIX shell splits it; some ten times faster than shlex."""
    if not _QUOTING.search(command):
        return command.split()
    words = _WORD.findall(command)
    if '"' in words or "'" in words or "\\" in words:
        raise ValueError("a quote is not closed")
    return [_unquote(word) if _QUOTING.search(word) else word for word in words]


@dataclass
class _Reader:
    root: Path | None
    warnings: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._real_folders: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._flags: dict[str, str] = {}
        self._root_name = os.path.abspath(self.root) if self.root else ""
        self._root_real = os.path.realpath(self.root) if self.root else ""

    def entry(self, raw: Any, folder: Path) -> Entry | None:
        try:
            directory = str(folder / raw.get("directory", ""))
            if "arguments" in raw:
                arguments = [str(word) for word in raw["arguments"]]
            else:
                arguments = split_command(raw["command"])
            written = str(raw["file"])
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            self.warnings.append(f"an entry of {folder / 'compile_commands.json'} was left out: {error!r}")
            return None
        file = os.path.normpath(os.path.join(directory, written))
        real = self._real(file)
        name = self._named(os.path.dirname(file)) + os.sep + os.path.basename(file)
        words = self._without_launcher(self._expanded(arguments, directory, 0))
        if any(" " in word or "\t" in word for word in words):
            words = [word for argument in words for word in self._unglued(argument)]
        words = [name if word == written else word for word in self._folders(words)]
        output = str(raw["output"]) if raw.get("output") else None
        return Entry(name, self._named(directory), tuple(words), output, real)

    def _expanded(self, arguments: Iterable[str], directory: str, depth: int) -> list[str]:
        words: list[str] = []
        for argument in arguments:
            if not argument.startswith("@") or depth > _RESPONSE_DEPTH:
                words.append(argument)
                continue
            try:
                text = Path(directory, argument[1:]).read_text("utf-8", "surrogateescape")
                words += self._expanded(split_command(text), directory, depth + 1)
            except (OSError, ValueError):
                self.warnings.append(f"the response file {argument[1:]} of {directory} cannot be read (yet)")
                words.append(argument)
        return words

    def _without_launcher(self, words: list[str]) -> list[str]:
        named = len(words) > 1 and os.path.basename(words[0]).removesuffix(".exe") in _LAUNCHERS
        return words[1:] if named and not words[1].startswith("-") else words

    def _unglued(self, argument: str) -> list[str]:
        found = _GLUED.fullmatch(argument)
        if found is None:
            return [argument]
        self.warnings.append(f"{argument!r} is one argument in a compile command; taken as two")
        return [found.group(1), found.group(2)]

    def _folders(self, words: Sequence[str]) -> list[str]:
        """The words with include folders by the name that the source folder goes by."""
        if not self._root_name:
            return list(words)
        renamed: list[str] = []
        previous = ""
        for word in words:
            if previous in _FOLDER_FLAGS:
                renamed.append(self._named(word))
            elif word[:2] in ("-I", "-i") and word not in _FOLDER_FLAGS:
                renamed.append(self._named_flag(word))
            else:
                renamed.append(word)
            previous = word
        return renamed

    def _named_flag(self, word: str) -> str:
        name = self._flags.get(word)
        if name is None:
            flag = next((flag for flag in _FOLDER_FLAGS if word.startswith(flag)), word)
            name = self._flags[word] = flag + self._named(word[len(flag) :])
        return name

    def _named(self, folder: str) -> str:
        """A folder's path by way of the root's name, when it lies below the root."""
        name = self._names.get(folder)
        if name is None:
            name = folder
            known = folder == self._root_name or folder.startswith(self._root_name + os.sep)
            if self._root_real and os.path.isabs(folder) and not known:
                real = self._real_folder(folder)
                if real == self._root_real or real.startswith(self._root_real + os.sep):
                    name = self._root_name + real[len(self._root_real) :]
            self._names[folder] = name
        return name

    def _real(self, file: str) -> str:
        if os.path.islink(file):
            return os.path.realpath(file)
        return self._real_folder(os.path.dirname(file)) + os.sep + os.path.basename(file)

    def _real_folder(self, folder: str) -> str:
        real = self._real_folders.get(folder)
        if real is None:
            real = self._real_folders[folder] = os.path.realpath(folder)
        return real


def _one_a_file(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    found: dict[str, Entry] = {}
    for entry in entries:
        found.setdefault(entry.real, entry)
    return tuple(sorted(found.values(), key=lambda entry: entry.file))


@lru_cache(maxsize=4096)
def _unquote(word: str) -> str:
    return "".join(
        escaped or re.sub(r'\\(["\\$`])', r"\1", double) or single or plain
        for escaped, double, single, plain in _PART.findall(word)
    )


def show_arguments(arguments: Sequence[str]) -> str:
    """A command line for a POSIX shell."""
    return shlex.join(arguments)
