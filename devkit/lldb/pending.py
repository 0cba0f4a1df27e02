"""Why a breakpoint has no code: told after a launch for those at which LLDB has found none."""

from __future__ import annotations

import difflib
import posixpath
from collections.abc import Collection, Sequence
from pathlib import Path

from devkit.lldb.recipes import parse_breakpoint
from devkit.symbols import read_elf
from devkit.symbols.compile_units import read_units
from devkit.symbols.functions import Functions, read_functions

_HEADERS = (".h", ".hh", ".hpp", ".hxx", ".inl", ".inc", ".ipp", ".tcc", ".cuh")
_SHOWN = 4


def explain_pending(
    points: Sequence[str],
    files: Sequence[Path],
    compiled: Collection[str] = (),
    *,
    foreign: Sequence[Path] = (),
) -> list[str]:
    """One sentence for each breakpoint, true if LLDB finds no place for it.

    Args:
        points: as parse_breakpoint takes them.
        files: the program and its libraries on this machine.
        foreign: libraries that are not built here; a function may be in one of them.
        compiled: the sources that the build compiles, if that is known.

    Raises:
        FileError: a file cannot be read.
    """
    names = _names(files)
    functions = (
        read_functions((*files, *foreign)) if any(_line(text) is None for text in points) else Functions()
    )
    return [
        _function(text, functions, names) if _line(text) is None else _place(text, files, names, compiled)
        for text in points
    ]


def _line(text: str) -> int | None:
    line = parse_breakpoint(text)[1]
    return line if isinstance(line, int) else None


def _function(name: str, functions: Functions, names: str) -> str:
    if functions.has(name):
        return f"{name} is in the symbols of {names}, but LLDB does not find it by that name"
    nearest = functions.nearest(name)
    why = f"no function {name} in {names}" + (f"; the nearest is {nearest}" if nearest else "")
    if functions.stripped:
        why += f" ({_names(functions.stripped)}: no symbol table, so only what is exported is known)"
    return why


def _place(text: str, files: Sequence[Path], names: str, compiled: Collection[str]) -> str:
    wanted = posixpath.basename(str(parse_breakpoint(text)[0]).replace("\\", "/"))
    units = {file: {posixpath.basename(unit.path) for unit in read_units(file)} for file in files}
    having = [file for file, found in units.items() if wanted in found]
    if having:
        return (
            f"{wanted} is compiled into {_names(having)}, but has no code at line {_line(text)} or below: "
            "the file has changed since, or the build leaves that part out"
        )
    known = sorted(set().union(*units.values()))
    blind = [file for file in files if not read_elf(file).has_debug_info]
    if not known:
        return f"no debug information in {names}: build with --type debug, or break at functions"
    if any(posixpath.basename(source) == wanted for source in compiled):
        return (
            f"{wanted} is compiled by this build, but without debug information (-g), or into a library that "
            f"is not deployed; {len(known)} sources have it"
        )
    if wanted.endswith(_HEADERS):
        return f"{wanted} is a header: nothing in {names} has code of its line {_line(text)}"
    nearest = difflib.get_close_matches(wanted, known, n=1)
    why = f"no source {wanted} among the {len(known)} with debug information in {names}"
    why += f"; the nearest is {nearest[0]}" if nearest else ""
    return why + (f" ({_names(blind)}: no debug information)" if blind else "")


def _names(files: Sequence[Path]) -> str:
    shown = [file.name for file in files[:_SHOWN]]
    more = len(files) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")
