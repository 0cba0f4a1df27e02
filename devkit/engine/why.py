"""Whether and how a build compiles a file, and if not, which option keeps it out."""

from __future__ import annotations

import itertools
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import process
from devkit.engine import compile_commands
from devkit.engine.buildfolder import read_cache_file
from devkit.engine.cmake_text import Command, Condition, cmake_files, names_file, names_folder, read_commands
from devkit.engine.cmake_tools import find_make_program
from devkit.engine.compile_commands import Entry
from devkit.engine.editor_view import ExistingBuild
from devkit.errors import DevkitError

HEADERS = (".h", ".hpp", ".hh", ".hxx", ".inl", ".inc", ".cuh")
DEPS_TIMEOUT_S = 30
_MAX_DEPTH = 12
# Set by CMake itself, never an option.
_PLATFORM = ("ANDROID", "UNIX", "WIN32", "MSVC", "APPLE", "IOS", "MINGW", "CYGWIN")
_NOT_COMPILING = ("set_source_files_properties", "set_property", "message", "install", "configure_file")
_SHOWN_INCLUDERS = 3


@dataclass(frozen=True)
class Guard:
    """A condition on the way from the project to the file. `holds` is None when it cannot be told."""

    condition: Condition
    holds: bool | None
    values: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Mention:
    """A place in CMake's files that names the file (or reads the folder it belongs to)."""

    command: Command
    guards: tuple[Guard, ...]

    @property
    def closed(self) -> tuple[Guard, ...]:
        """Those that keep the file out."""
        return tuple(guard for guard in self.guards if guard.holds is False)


@dataclass(frozen=True)
class Why:
    """The answer.

    Attributes:
        entry: how it is compiled, if it is.
        included_by: for a header: compiled files that include it.
        mentions: for a file that is not compiled: where CMake's files name it, the nearest to being
            compiled first.
        options: cache options that would let it in, name → value to set.
    """

    file: Path
    source: Path
    build: ExistingBuild
    entry: Entry | None
    included_by: tuple[str, ...] = ()
    mentions: tuple[Mention, ...] = ()
    options: tuple[tuple[str, str], ...] = ()

    @property
    def compiled(self) -> bool:
        """Whether the build compiles it, or something that includes it."""
        return self.entry is not None or bool(self.included_by)

    def as_dict(self) -> dict[str, object]:
        """The answer as `devkit build --why FILE --json` prints it."""
        return {
            "file": str(self.file),
            "build": self.build.name,
            "compiled": self.compiled,
            "target": self.entry.target if self.entry else None,
            "arguments": list(self.entry.arguments) if self.entry else None,
            "included_by": list(self.included_by),
            "named_in": [f"{m.command.file}:{m.command.line}" for m in self.mentions],
            "guards": [
                {
                    "condition": guard.condition.text,
                    "at": f"{guard.condition.file}:{guard.condition.line}",
                    "holds": guard.holds,
                    "values": dict(guard.values),
                }
                for mention in self.mentions[:1]
                for guard in mention.guards
            ],
            "options": dict(self.options),
        }

    def lines(self) -> list[str]:
        """The answer for people."""
        name = _relative(self.file, self.source)
        if self.entry is not None:
            return _compiled_lines(name, self.build, self.entry)
        if self.included_by:
            shown = ", ".join(_relative(Path(f), self.source) for f in self.included_by[:_SHOWN_INCLUDERS])
            more = len(self.included_by) - _SHOWN_INCLUDERS
            return [
                f"{name} is a header that {len(self.included_by)} files of {self.build.name} include",
                f"  {shown}" + (f" and {more} more" if more > 0 else ""),
            ]
        return self._not_compiled_lines(name)

    def _not_compiled_lines(self, name: str) -> list[str]:
        lines = [f"{name} is not compiled in {self.build.name}: editors cannot index it from this build"]
        if not self.mentions:
            return [*lines, "  no CMakeLists.txt names it or its folder"]
        mention = self.mentions[0]
        where = f"{_relative(mention.command.file, self.source)}:{mention.command.line}"
        lines.append(f"  {where}: {mention.command.name}() names it or its folder")
        for guard in mention.guards:
            state = {True: "holds", False: "does not hold", None: "cannot be told"}[guard.holds]
            values = ", ".join(f"{variable} is {value or 'empty'}" for variable, value in guard.values)
            place = f"{_relative(guard.condition.file, self.source)}:{guard.condition.line}"
            lines.append(f"  {place}: if({guard.condition.text}) {state}" + (f": {values}" if values else ""))
        if not mention.closed and any(guard.holds is None for guard in mention.guards):
            lines.append("  what cannot be told may keep it out")
        elif not mention.closed:
            lines.append("  nothing keeps it out: build again, or the profile does not build its target")
        if self.options:
            lines.append("  try: " + " ".join(f"-D {name}={value}" for name, value in self.options))
        return lines


def explain_file(file: Path, source: Path, build: ExistingBuild) -> Why:
    """Look a file up in a build.

    Args:
        file: absolute path of a source or header, which need not exist (a generated one).

    Raises:
        FileError: the build's compile_commands.json cannot be read.
    """
    source = Path(os.path.realpath(source))
    file = Path(os.path.realpath(file))
    database = compile_commands.read_database(build.database)
    entry = next((e for e in database.entries if e.real == str(file)), None)
    if entry is not None:
        return Why(file, source, build, entry)
    if file.suffix.lower() in HEADERS:
        including = _including(file, build)
        if including:
            return Why(file, source, build, None, included_by=including)
    mentions = _mentions(file, source, _known_values(build))
    options = _options_to_set(mentions[0]) if mentions else ()
    return Why(file, source, build, None, mentions=mentions, options=options)


def _compiled_lines(name: str, build: ExistingBuild, entry: Entry) -> list[str]:
    words = entry.arguments[1:]
    defines = [w[2:] for w in words if w.startswith("-D") and len(w) > 2]
    includes = [w[2:] for w in words if w.startswith("-I") and len(w) > 2]
    skipped = ("-o", "-c", "-MD", "-MMD", "-MT", "-MF")
    flags = [
        w for before, w in zip(("", *words), words, strict=False)
        if not w.startswith(("-D", "-I")) and w not in skipped
        and before not in ("-o", "-c", "-MT", "-MF") and w != entry.file
    ]  # fmt: skip
    return [
        f"{name} is compiled in {build.name}",
        f"  target:   {entry.target or 'unknown'}",
        f"  compiler: {entry.compiler}",
        f"  flags:    {shlex.join(flags)}",
        f"  defines:  {shlex.join(defines) or 'none'}",
        *(f"  include:  {folder}" for folder in includes),
    ]


def _including(header: Path, build: ExistingBuild) -> tuple[str, ...]:
    """Sources that read the header when they were last compiled, as ninja remembers it."""
    if not (build.folder / "build.ninja").is_file():
        return ()
    try:
        generator, ninja = find_make_program(os.environ)
        if generator != "Ninja":
            return ()
        argv = [str(ninja), "-C", str(build.folder), "-t", "deps"]
        answer = process.run(argv, check=False, timeout_s=DEPS_TIMEOUT_S)
    except DevkitError:
        return ()
    found: list[str] = []
    first, wanted = "", str(header)
    for line in answer.text.splitlines():
        if not line.startswith("    "):
            first = ""  # the line that names the object file
            continue
        path = os.path.join(build.folder, line.strip())
        first = first or path
        # The names end alike before their real paths do: a call to the system for few of them.
        if path.endswith("/" + header.name) and os.path.realpath(path) == wanted and first != path:
            found.append(os.path.realpath(first))
    return tuple(sorted(set(found)))


def _known_values(build: ExistingBuild) -> dict[str, str]:
    values = read_cache_file(build.folder)
    if os.name != "posix":
        return values
    there = {"ANDROID": build.kind == "ndk", "UNIX": True}
    return {**{name: "ON" if there.get(name) else "OFF" for name in _PLATFORM}, **values}


def _mentions(file: Path, source: Path, values: Mapping[str, str]) -> tuple[Mention, ...]:
    commands = [command for found in cmake_files(source) for command in read_commands(found)]
    naming = [c for c in commands if c.name not in _NOT_COMPILING and names_file(c, file, source)]
    if not naming:
        # A header that no list names: what reads the nearest folder with a CMakeLists.txt.
        folder = next((f for f in file.parents if (f / "CMakeLists.txt").is_file()), source)
        if folder == source or source not in folder.parents:
            return ()
        naming = [c for c in commands if names_folder(c, folder, source)]
    mentions = []
    for command in naming:
        conditions = [*_conditions_of_folder(command.file, source, commands, 0), *command.conditions]
        guards = tuple(_judge(condition, values) for condition in conditions)
        mentions.append(Mention(command, guards))
    return tuple(sorted(mentions, key=lambda mention: len(mention.closed)))


def _conditions_of_folder(
    file: Path, source: Path, commands: Sequence[Command], depth: int
) -> list[Condition]:
    """The conditions under which a CMakeLists.txt is read at all."""
    folder = file.parent
    if folder == source or depth > _MAX_DEPTH:
        return []
    for command in commands:
        if command.file != file and names_folder(command, folder, source):
            above = _conditions_of_folder(command.file, source, commands, depth + 1)
            return [*above, *command.conditions]
    return []


def _judge(condition: Condition, values: Mapping[str, str]) -> Guard:
    known = tuple((name, values[name]) for name in condition.variables if name in values)
    return Guard(condition, condition.holds(values), known)


def _options_to_set(mention: Mention) -> tuple[tuple[str, str], ...]:
    """The fewest switches (one or two) that open each closed condition."""
    found: dict[str, str] = {}
    for guard in mention.closed:
        values = {**dict(guard.values), **found}
        names = [name for name, _ in guard.values if name not in _PLATFORM]
        for count in (0, 1, 2):
            opening = next(
                (
                    dict(zip(chosen, switches, strict=True))
                    for chosen in itertools.combinations(names, count)
                    for switches in itertools.product(("ON", "OFF"), repeat=count)
                    if guard.condition.holds({**values, **dict(zip(chosen, switches, strict=True))})
                ),
                None,
            )
            if opening is not None:
                found |= opening
                break
    return tuple(found.items())


def _relative(path: Path, source: Path) -> str:
    return str(path.relative_to(source)) if path.is_relative_to(source) else str(path)
