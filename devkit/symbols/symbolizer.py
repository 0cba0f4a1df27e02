"""Addresses in ELF files to functions and source lines, by llvm-symbolizer or addr2line, many at a time."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import process
from devkit.errors import ToolFailed, ToolMissing
from devkit.symbols.elf import ElfInfo

_TIMEOUT_S = 600.0
_TRIPLES = {
    "aarch64": "aarch64-linux-gnu", "arm": "arm-linux-gnueabihf", "x86_64": "x86_64-linux-gnu",
    "i386": "i686-linux-gnu", "riscv64": "riscv64-linux-gnu",
}  # fmt: skip
_VERSIONED = re.compile(r"llvm-symbolizer-(\d+)(?:\.exe)?")
# A symbolizer that asks servers for debug information may hang for minutes, and would say where one works.
_ENVIRONMENT = {"DEBUGINFOD_URLS": "", "LC_ALL": "C"}
_NO_NAME = ("", "??")


@dataclass(frozen=True)
class Location:
    """A function, and the line in it, that an address belongs to. `line` and `column` count from 1."""

    function: str | None
    file: str | None = None
    line: int | None = None
    column: int | None = None

    @property
    def place(self) -> str | None:
        """`FILE:LINE:COLUMN` as compilers print it; None without a line."""
        if not self.file or not self.line:
            return None
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {"function": self.function, "file": self.file, "line": self.line, "column": self.column}


Request = tuple[ElfInfo, int]


class Symbolizer:
    """Asks one tool about all addresses at once: reading the debug information is what takes the time.

    Args:
        tool: llvm-symbolizer of an NDK; None: one of this machine is looked for, then binutils' addr2line.
    """

    def __init__(self, tool: Path | None = None) -> None:
        self._tool = tool or find_symbolizer()
        self._known: dict[tuple[Path, int], tuple[Location, ...]] = {}

    def symbolize(self, requests: Iterable[Request]) -> dict[tuple[Path, int], tuple[Location, ...]]:
        """The locations of each address (virtual, of the file), the innermost inlined function first.

        Addresses of which the file says nothing have no locations.

        Raises:
            ToolMissing: this machine has no such tool for the file's machine.
            ToolFailed: the tool broke off.
        """
        new = {(info.path, address): info for info, address in requests}
        asked = [(info, key[1]) for key, info in new.items() if key not in self._known]
        if asked:
            if self._tool is not None:
                self._known.update(_by_llvm(self._tool, asked))
            else:
                self._known.update(_by_addr2line(asked))
        return {key: self._known.get(key, ()) for key in new}


def find_symbolizer() -> Path | None:
    """llvm-symbolizer of this machine: the one on PATH, else the newest with a version in its name."""
    plain = shutil.which("llvm-symbolizer")
    if plain:
        return Path(plain)
    found: list[tuple[int, Path]] = []
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        try:
            names = os.listdir(folder) if folder else []
        except OSError:
            continue
        for name in names:
            if match := _VERSIONED.fullmatch(name):
                found.append((int(match[1]), Path(folder, name)))
    return max(found, key=lambda item: item[0])[1] if found else None


def _by_llvm(tool: Path, asked: Sequence[Request]) -> dict[tuple[Path, int], tuple[Location, ...]]:
    lines: list[str] = []
    keys: list[tuple[Path, int]] = []
    for info, address in asked:
        quote = '"' if '"' not in str(info.path) else "'"
        if quote in str(info.path) or "\n" in str(info.path):
            continue
        lines.append(f"{quote}{info.path}{quote} {address:#x}")
        keys.append((info.path, address))
    text = ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
    argv: list[str | Path] = [tool, "--output-style=JSON", "--inlines", "--demangle"]
    done = process.run(argv, stdin=text, env=_ENVIRONMENT, timeout_s=_TIMEOUT_S, check=False)
    if done.exit_code != 0 and b"output-style" in done.stderr:
        # JSON came with LLVM 13; NDK r23 and older have none.
        argv = [tool, "--inlining", "--demangle", "--functions=linkage"]
        done = process.run(argv, stdin=text, env=_ENVIRONMENT, timeout_s=_TIMEOUT_S, check=False)
        answers = [_plain(block) for block in done.text.split("\n\n")]
    else:
        answers = [_json(line) for line in done.text.splitlines() if line.startswith("{")]
    if done.exit_code != 0 or len([a for a in answers if a is not None]) < len(keys):
        raise ToolFailed(
            f"{tool.name} did not answer for all addresses",
            evidence=process.tail(done.stderr) or f"{len(answers)} answers for {len(keys)} addresses",
            hints=[f"{tool} --version"],
        )
    return {key: answer or () for key, answer in zip(keys, answers, strict=False)}


def _json(line: str) -> tuple[Location, ...]:
    try:
        symbols = json.loads(line).get("Symbol", ())
    except (ValueError, AttributeError):
        return ()
    return _useful(
        Location(
            None if s.get("FunctionName", "") in _NO_NAME else s["FunctionName"],
            None if s.get("FileName", "") in _NO_NAME else s["FileName"],
            s.get("Line") or None,
            s.get("Column") or None,
        )
        for s in symbols
    )


def _plain(block: str) -> tuple[Location, ...] | None:
    """Pairs of lines: the function, then FILE:LINE:COLUMN."""
    lines = block.strip("\n").split("\n")
    if len(lines) < 2:
        return None
    return _useful(_location(lines[at], lines[at + 1]) for at in range(0, len(lines) - 1, 2))


def _location(function: str, place: str) -> Location:
    file, _, rest = place.partition(" (discriminator")[0].rpartition(":")
    column: str | None = None
    before, colon, line = file.rpartition(":")
    if colon and line.isdigit():
        file, column, rest = before, rest, line
    number = int(rest) if rest.isdigit() else 0
    return Location(
        None if function in _NO_NAME else function,
        None if file in _NO_NAME or not number else file,
        number or None,
        int(column) or None if column and column.isdigit() else None,
    )


def _useful(locations: Iterable[Location]) -> tuple[Location, ...]:
    kept = tuple(locations)
    return kept if any(location.function or location.line for location in kept) else ()


def _by_addr2line(asked: Sequence[Request]) -> dict[tuple[Path, int], tuple[Location, ...]]:
    by_file: dict[Path, tuple[ElfInfo, list[int]]] = {}
    for info, address in asked:
        by_file.setdefault(info.path, (info, []))[1].append(address)
    found: dict[tuple[Path, int], tuple[Location, ...]] = {}
    for path, (info, addresses) in by_file.items():
        tool = _addr2line_for(info.machine)
        text = "".join(f"{address:#x}\n" for address in addresses).encode()
        argv: list[str | Path] = [tool, "-a", "-C", "-f", "-i", "-e", path]
        done = process.run(
            argv, stdin=text, env=_ENVIRONMENT, timeout_s=_TIMEOUT_S,
            hints=["install llvm-symbolizer (the NDK has one: devkit ndk install)"],
        )  # fmt: skip
        block: list[str] = []
        key: tuple[Path, int] | None = None
        for line in [*done.text.splitlines(), "0x0"]:
            if re.fullmatch(r"0x[0-9a-f]+", line):
                if key is not None:
                    found[key] = _plain("\n".join(block)) or ()
                key, block = (path, int(line, 16)), []
            else:
                block.append(line)
    return found


def _addr2line_for(machine: str) -> Path:
    own = os.uname().machine if hasattr(os, "uname") else ""
    names = [f"{_TRIPLES[machine]}-addr2line"] if machine in _TRIPLES else []
    if machine == {"arm64": "aarch64"}.get(own, own):
        names.insert(0, "addr2line")
    for name in [*names, "llvm-addr2line"]:
        if found := shutil.which(name):
            return Path(found)
    raise ToolMissing(
        f"nothing here reads source lines of {machine} files: neither llvm-symbolizer nor addr2line",
        hints=["devkit ndk install  # brings llvm-symbolizer", "apt install llvm"],
    )
