"""Addresses in ELF files to functions and source lines, by llvm-symbolizer or addr2line, many at a time."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from devkit import process
from devkit.errors import ToolFailed, ToolMissing
from devkit.symbols.elf import ElfInfo
from devkit.symbols.line_cache import LineCache
from devkit.symbols.location import Location

_TIMEOUT_S = 600.0
_TRIPLES = {
    "aarch64": "aarch64-linux-gnu", "arm": "arm-linux-gnueabihf", "x86_64": "x86_64-linux-gnu",
    "i386": "i686-linux-gnu", "riscv64": "riscv64-linux-gnu",
}  # fmt: skip
_VERSIONED = re.compile(r"llvm-symbolizer-(\d+)(?:\.exe)?")
# A symbolizer that asks servers for debug information may hang for minutes, and would say where one works.
_ENVIRONMENT = {"DEBUGINFOD_URLS": "", "LC_ALL": "C"}
_NO_NAME = ("", "??")


Request = tuple[ElfInfo, int]


class Symbolizer:
    """Asks one tool about all addresses at once: reading the debug information is what takes the time.

    Args:
        tool: llvm-symbolizer of an NDK; None: one of this machine is looked for, then binutils' addr2line.
        cache: where answers are kept for the next time.

    Attributes:
        failed: files that the tool broke off at, with what it said; the others were answered.
    """

    def __init__(self, tool: Path | None = None, cache: LineCache | None = None) -> None:
        self._tool = tool or find_symbolizer()
        self._cache = cache
        self._known: dict[tuple[Path, int], tuple[Location, ...]] = {}
        self.failed: dict[Path, str] = {}

    def symbolize(self, requests: Iterable[Request]) -> dict[tuple[Path, int], tuple[Location, ...]]:
        """The locations of each address (virtual, of the file), the innermost inlined function first.

        Addresses of which the file says nothing have no locations.

        Raises:
            ToolMissing: this machine has no such tool for the file's machine.
            ToolFailed: the tool broke off at every file.
        """
        wanted = {(info.path, address): info for info, address in requests}
        files = {info.path: info for info in wanted.values()}
        if self._cache is not None:
            for path, info in files.items():
                for address, locations in self._cache.load(info, self._identity).items():
                    self._known.setdefault((path, address), locations)
        asked = [(info, key[1]) for key, info in wanted.items() if key not in self._known]
        if asked:
            self._known.update(self._ask(asked))
            if self._cache is not None:
                self._keep({info.path: info for info, _ in asked})
        return {key: self._known.get(key, ()) for key in wanted}

    def _ask(self, asked: Sequence[Request]) -> dict[tuple[Path, int], tuple[Location, ...]]:
        """All in one process; where that breaks off, each file by itself, so that one damaged file is one."""
        try:
            return self._answers(asked)
        except ToolFailed as error:
            paths = list(dict.fromkeys(info.path for info, _ in asked))
            if len(paths) == 1:
                self.failed[paths[0]] = error.what
                raise
            found: dict[tuple[Path, int], tuple[Location, ...]] = {}
            for path in paths:
                try:
                    found.update(self._answers([item for item in asked if item[0].path == path]))
                except ToolFailed as own:
                    self.failed[path] = own.what
            if len(self.failed) >= len(paths):
                raise
            return found

    def _answers(self, asked: Sequence[Request]) -> dict[tuple[Path, int], tuple[Location, ...]]:
        return _by_llvm(self._tool, asked) if self._tool is not None else _by_addr2line(asked)

    def _keep(self, files: Mapping[Path, ElfInfo]) -> None:
        assert self._cache is not None
        for path, info in files.items():
            lines = {address: found for (of, address), found in self._known.items() if of == path}
            if path not in self.failed:
                self._cache.store(info, self._identity, lines)

    @property
    def _identity(self) -> str:
        """Another tool, or another version of it, may name things otherwise."""
        if self._tool is None:
            return "addr2line"
        try:
            status = self._tool.stat()
        except OSError:
            return str(self._tool)
        return f"{self._tool}:{status.st_size}:{status.st_mtime_ns}"


def find_symbolizer() -> Path | None:
    """llvm-symbolizer of this machine, of PATH or beside this Python; else the newest `llvm-symbolizer-N`."""
    # A virtual environment need not be on PATH for its devkit to run.
    search = os.pathsep.join([os.environ.get("PATH", ""), os.path.dirname(sys.executable)])
    plain = shutil.which("llvm-symbolizer", path=search)
    if plain:
        return Path(plain)
    found: list[tuple[int, Path]] = []
    for folder in search.split(os.pathsep):
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
