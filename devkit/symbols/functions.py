"""The functions that ELF files define, by the names a debugger takes: `MNN::Transformer::Llm::load`."""

from __future__ import annotations

import difflib
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from devkit.errors import FileError

_TELLING_NAME = 10
_FUNCTIONS = (2, 10)  # STT_FUNC, STT_GNU_IFUNC
_SUBSTITUTION = re.compile(r"S(?:[0-9A-Z]*_|[tabsiod])")
_STANDARD = {
    "Sa": "allocator", "Sb": "basic_string", "Ss": "string", "Si": "istream", "So": "ostream",
    "Sd": "iostream",
}  # fmt: skip
_LENGTH = re.compile(r"\d+")
_NUMBER = re.compile(r"n?\d*E")


@dataclass
class Functions:
    """The functions of some files.

    `stripped` are those of the files that have no symbol table: what they hold but do not export is unknown.
    """

    mangled: set[str] = field(default_factory=set)
    stripped: list[Path] = field(default_factory=list)
    _names: frozenset[str] | None = None

    def has(self, name: str) -> bool:
        """Whether a breakpoint of that name has a place: `Llm::load` is found in any namespace."""
        parts = name.split("::")
        if len(parts) == 1 and name in self.mangled:
            return True
        pieces = [f"{len(part)}{part}" for part in parts]
        if len(parts) > 1 and parts[-1].lstrip("~") == parts[-2]:
            pieces = pieces[:-1]  # constructors are not spelled out
        ending = "::" + name
        # Only what can be it is taken apart: an engine has a hundred thousand functions.
        return any(
            ("::" + found).endswith(ending)
            for symbol in self.mangled
            if all(piece in symbol for piece in pieces) and (found := qualified_name(symbol)) is not None
        )

    def nearest(self, name: str) -> str | None:
        """The present function that `name` most likely means, or None."""
        if self._names is None:
            self._names = frozenset(found for s in self.mangled if (found := qualified_name(s)))
        scope, _, function = name.rpartition("::")
        scope = scope.rpartition("::")[2]
        members: dict[str, dict[str, str]] = {}
        for full in self._names:
            around, _, last = full.rpartition("::")
            members.setdefault(around.rpartition("::")[2], {})[last] = full
        alike = [known for known in members if known.lower() == scope.lower()]
        scopes = alike or difflib.get_close_matches(scope, members, n=3, cutoff=0.75)
        for candidate in scopes:
            if close := difflib.get_close_matches(function, members[candidate], n=1, cutoff=0.6):
                return members[candidate][close[0]]
        # The same function of something else: classes are renamed, and split. `load` says nothing.
        if len(function) < _TELLING_NAME:
            return None
        same = sorted(functions[function] for functions in members.values() if function in functions)
        return min(same, key=len) if same else None


def read_functions(files: Iterable[Path]) -> Functions:
    """The functions that are defined in these files.

    Raises:
        FileError: one cannot be read, or is no usable ELF file.
    """
    functions = Functions()
    for file in files:
        symbols, complete = _read(file)
        functions.mangled.update(symbols)
        if not complete:
            functions.stripped.append(file)
    return functions


def qualified_name(symbol: str) -> str | None:
    """Scope and name of a mangled function, without template arguments and parameters.

    None for what has no name of its own that one would type: lambdas, operators, thunks. The grammar is
    that of the Itanium C++ ABI, section 5.1 (Mangling).
    """
    symbol, _, clone = symbol.partition(".")
    if clone.startswith("cold"):
        return None
    if not symbol.startswith("_Z"):
        return symbol or None
    try:
        return "::".join(_components(symbol[2:]))
    except (ValueError, IndexError):
        return None


def _components(text: str) -> list[str]:
    if not text.startswith("N"):
        at = 2 if text.startswith("St") else 0
        at += text[at] == "L"
        return [*(["std"] if text.startswith("St") else []), _source_name(text, at)[0]]
    return _nested(text, 0)[0]


def _nested(text: str, at: int) -> tuple[list[str], int]:
    """The components of a nested name that starts with its N at `at`, and the place behind its E."""
    at += 1
    while text[at] in "rVKRO":
        at += 1
    parts: list[str] = []
    while text[at] != "E":
        if text[at].isdigit():
            part, at = _source_name(text, at)
            parts.append(part)
        elif text[at] == "L" and text[at + 1].isdigit():
            at += 1  # internal linkage
        elif text[at] == "B":
            at = _source_name(text, at + 1)[1]
        elif text[at] == "I":
            at = _after_arguments(text, at)
        elif text[at] in "CD" and text[at + 1].isdigit():
            parts.append(("~" if text[at] == "D" else "") + parts[-1])
            at += 2
        elif found := _SUBSTITUTION.match(text, at):
            parts += ["std", *([_STANDARD[found[0]]] if found[0] in _STANDARD else [])]
            at = found.end()
        else:
            raise ValueError(text)
    return parts, at + 1


def _source_name(text: str, at: int) -> tuple[str, int]:
    found = _LENGTH.match(text, at)
    if found is None:
        raise ValueError(text)
    end = found.end() + int(found[0])
    if end > len(text):
        raise ValueError(text)
    return text[found.end() : end], end


def _after_arguments(text: str, at: int) -> int:
    """Behind the E that ends the template arguments starting at `at`."""
    depth = 0
    while True:
        if text[at].isdigit():
            at = _source_name(text, at)[1]
            continue
        if found := _SUBSTITUTION.match(text, at):
            at = found.end()
            continue
        if text[at] == "L":
            at = _after_literal(text, at)
            continue
        if text[at] == "A" or text[at : at + 2] == "Dv":
            at = text.index("_", at)  # arrays and vectors: a number that is no length
        elif text[at] == "T":
            at = text.index("_", at)
        elif text[at : at + 2] in ("DT", "Dt") or text[at] in "INJF":
            depth += 1
            at += text[at] == "D"
        elif text[at] in "XZU":
            raise ValueError(text)  # expressions, lambdas
        elif text[at] == "E":
            depth -= 1
            if depth == 0:
                return at + 1
        at += 1


def _after_literal(text: str, at: int) -> int:
    """Behind a literal: L, its type, its number, E."""
    at += 1
    if text[at] == "N":
        at = _nested(text, at)[1]
    elif text[at].isdigit():
        at = _source_name(text, at)[1]
    else:
        at += 1
    found = _NUMBER.match(text, at)
    if found is None:
        raise ValueError(text)
    return found.end()


def _read(file: Path) -> tuple[set[str], bool]:
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    try:
        with file.open("rb") as stream:
            elf = ELFFile(stream)
            order = "<" if elf.little_endian else ">"
            names: set[str] = set()
            complete = False
            for section in elf.iter_sections():
                if section["sh_type"] in ("SHT_SYMTAB", "SHT_DYNSYM"):
                    complete = complete or section["sh_type"] == "SHT_SYMTAB"
                    strings = elf.get_section(section["sh_link"]).data()
                    names.update(_defined(section.data(), strings, order, int(elf.elfclass)))
            return names, complete
    except OSError as error:
        raise FileError(f"{file} cannot be read", evidence=str(error)) from None
    except (
        ELFError,
        ValueError,
        KeyError,
        AssertionError,
        AttributeError,
        IndexError,
        struct.error,
    ) as error:
        # pyelftools meets damaged files with whatever its parsing trips over.
        raise FileError(
            f"{file} is not a usable ELF file", evidence=f"{type(error).__name__}: {error}"
        ) from None


def _defined(table: bytes, strings: bytes, order: str, bits: int) -> Iterator[str]:
    # Elf64_Sym: name info other shndx value size; Elf32_Sym: name value size info other shndx.
    layout = struct.Struct(order + ("IBBHQQ" if bits == 64 else "IIIBBH"))
    info_at, section_at = (1, 3) if bits == 64 else (3, 5)
    for entry in layout.iter_unpack(table[: len(table) // layout.size * layout.size]):
        if entry[info_at] & 15 in _FUNCTIONS and entry[section_at]:
            start = entry[0]
            yield strings[start : strings.index(b"\0", start)].decode("utf-8", "replace")
