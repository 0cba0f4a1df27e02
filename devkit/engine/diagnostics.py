"""Errors and warnings of compilers, linkers and CMake in a build's output, with file and line."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

SHOWN = 10

# A name without an extension (C++'s own headers) must at least be a path.
_COMPILER = re.compile(
    r"^(?P<file>\.{0,2}/[^:]+|[A-Za-z]:[\\/][^:]+|[^\s:\[-][^:]*\.\w+):(?P<line>\d+)(?::(?P<column>\d+))?: "
    r"(?P<severity>fatal error|error|warning): (?P<message>.*?)(?: \[(?P<flag>-W[^\]]+)\])?$"
)
# GNU ld, of code with debug information: /src/a.cpp:3: undefined reference to `foo()'.
_GNU_LD = re.compile(
    r"^(?:\S*ld(?:\.\w+)?: )?(?P<file>[^\s:][^:]*\.\w+):(?P<line>\d+): "
    r"(?P<message>(?:undefined reference to|multiple definition of) .*)"
)
# Of code without it: /usr/bin/ld: express/libMNN_Express.so: undefined reference to `foo()'.
_GNU_LD_FILE = re.compile(
    r"^\S*ld(?:\.\w+)?: (?P<file>[^\s:][^:]*): "
    r"(?P<message>(?:undefined reference to|multiple definition of) .*)"
)
_LLD = re.compile(r"^(?:\S*ld(?:\.lld|64\.lld)?): (?P<severity>error|warning): (?P<message>.*)")
_LLD_PLACE = re.compile(r"^>>> (?:referenced by|defined at) \S+ \((?P<file>[^()]+):(?P<line>\d+)\)")
_CMAKE = re.compile(
    r"^CMake (?P<severity>Error|Warning|Deprecation Warning)(?: \(dev\))? at (?P<file>.+?):(?P<line>\d+) \("
)


@dataclass(frozen=True)
class Diagnostic:
    """One error or warning. `line` 0: the tool did not name one; `flag` is the -W… behind it."""

    severity: str
    file: str
    line: int
    message: str
    flag: str = ""
    column: int = 0

    def as_dict(self) -> dict[str, object]:
        """The diagnostic as `devkit build --json` prints it."""
        return {
            "severity": self.severity,
            "file": self.file,
            "line": self.line,
            "column": self.column,
            "message": self.message,
            "flag": self.flag,
        }

    def text(self, source: Path) -> str:
        """One line: file, relative to the source folder when it is below it, line and message."""
        place = os.path.relpath(self.file, source) if _is_below(self.file, source) else self.file
        flag = f" [{self.flag}]" if self.flag else ""
        if not self.file:
            return f"{self.message}{flag}"
        return f"{place}:{self.line}: {self.message}{flag}" if self.line else f"{place}: {self.message}{flag}"


def find_diagnostics(text: str, build_dir: Path) -> tuple[Diagnostic, ...]:
    """All errors and warnings, in their order, each once: headers warn in every file that reads them.

    Args:
        build_dir: where relative names start.
    """
    found: dict[Diagnostic, None] = {}
    lines = text.splitlines()
    for number, line in enumerate(lines):
        diagnostic = _read(line, lines[number + 1 :], build_dir)
        if diagnostic is not None:
            found[diagnostic] = None
    return tuple(found)


def summarize(
    diagnostics: Iterable[Diagnostic], source: Path, severity: str, *, shown: int = SHOWN, more: bool = False
) -> list[str]:
    """'12 warnings in 4 files', and the first of them with file and line; empty when there are none.

    Args:
        shown: how many are listed; 0 only counts.
        more: they come on top of others that have been shown.
    """
    wanted = [d for d in diagnostics if d.severity == severity]
    if not wanted:
        return []
    files = len({d.file for d in wanted})
    plural = "s" if len(wanted) > 1 else ""
    head = (
        f"{len(wanted)} {'more ' if more else ''}{severity}{plural} in {files} file{'s' if files > 1 else ''}"
    )
    lines = [head, *(f"  {d.text(source)}" for d in wanted[:shown])]
    return lines + ([f"  … and {len(wanted) - shown} more"] if 0 < shown < len(wanted) else [])


def _read(line: str, rest: Sequence[str], build_dir: Path) -> Diagnostic | None:
    found = _COMPILER.match(line)
    if found:
        severity = "warning" if found["severity"] == "warning" else "error"
        return Diagnostic(
            severity, _absolute(found["file"], build_dir), int(found["line"]), found["message"],
            found["flag"] or "", int(found["column"] or 0),
        )  # fmt: skip
    found = _GNU_LD.match(line)
    if found:
        return Diagnostic("error", _absolute(found["file"], build_dir), int(found["line"]), found["message"])
    found = _GNU_LD_FILE.match(line)
    if found:
        return Diagnostic("error", _absolute(found["file"], build_dir), 0, found["message"])
    found = _LLD.match(line)
    if found:
        place = _LLD_PLACE.match(rest[0]) if rest else None
        file, number = (place["file"], int(place["line"])) if place else ("", 0)
        return Diagnostic(found["severity"], _absolute(file, build_dir), number, found["message"])
    found = _CMAKE.match(line)
    if found:
        severity = "error" if found["severity"] == "Error" else "warning"
        # CMake names files from its source folder, which is said in full elsewhere.
        return Diagnostic(severity, found["file"], int(found["line"]), _paragraph(rest))
    return None


def _paragraph(lines: Sequence[str]) -> str:
    """The indented text below a CMake message, as one line."""
    words: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith(" "):
            break
        if not line.strip() and words:
            break
        words += line.split()
    return " ".join(words)


def _absolute(file: str, build_dir: Path) -> str:
    return os.path.normpath(os.path.join(build_dir, file)) if file else ""


def _is_below(file: str, folder: Path) -> bool:
    return os.path.isabs(file) and Path(file).is_relative_to(folder)
