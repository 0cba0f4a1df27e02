"""What of QNN lies in a file or folder: libraries with their versions, context binaries with their chips."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from devkit.errors import FileError, UsageError
from devkit.ndk.qnn_version import ContextFacts, is_qnn_name, read_build_id, read_context
from devkit.symbols import ElfInfo, is_elf, read_elf

_PART = re.compile(r"libQnnHtpV(?P<arch>\d+)(?P<part>Stub|Skel)\.so")
_CONTEXT_SUFFIXES = (".bin", ".serialized", ".ctx", ".qnn")
_DEPTH = 4  # lib/hexagon-v75/unsigned of an SDK
_MOST_FILES = 20_000
MACHINE = "hexagon"


@dataclass(frozen=True)
class Library:
    """A library.

    Attributes:
        build_id: the QNN version inside it, or None (libQnnSystem.so carries none, nor do others' libraries).
        elf: None for what is no ELF file.
        arch: "v75" of a Stub or a Skel.
        part: "Stub" or "Skel", else None.
    """

    path: Path
    size: int
    build_id: str | None
    elf: ElfInfo | None
    arch: str | None = None
    part: str | None = None

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "size": self.size,
            "build_id": self.build_id,
            "machine": self.elf.machine if self.elf else None,
            "abi": self.elf.abi if self.elf else None,
            "bits": self.elf.bits if self.elf else None,
            "arch": self.arch,
            "part": self.part,
        }


@dataclass(frozen=True)
class Context:
    """A context binary and what it says of itself."""

    path: Path
    size: int
    facts: ContextFacts

    def as_dict(self) -> dict[str, Any]:
        return {
            "path": str(self.path),
            "size": self.size,
            "build_id": self.facts.build_id,
            "soc": self.facts.soc,
            "arch": self.facts.arch,
            "vtcm_mb": self.facts.vtcm_mb,
        }


@dataclass(frozen=True)
class Inventory:
    """All of one file or folder. Libraries are those of QNN and, beside them, the app's own."""

    place: Path
    libraries: tuple[Library, ...] = ()
    contexts: tuple[Context, ...] = ()

    def qnn(self) -> tuple[Library, ...]:
        """The libraries of the SDK."""
        return tuple(library for library in self.libraries if is_qnn_name(library.path.name))

    def parts(self, part: str) -> tuple[Library, ...]:
        """All Stubs, or all Skels."""
        return tuple(library for library in self.libraries if library.part == part)

    def named(self, name: str) -> Library | None:
        """The first library of this name."""
        return next((library for library in self.libraries if library.path.name == name), None)


def take_inventory(place: Path) -> Inventory:
    """Look at a file, or at a folder and those below it.

    Raises:
        UsageError: there is no such place.
        FileError: a file cannot be read.
    """
    if not place.exists():
        raise UsageError(f"{place} does not exist")
    if not place.is_dir() and not place.is_file():
        raise UsageError(f"{place} is neither a file nor a folder")
    libraries, contexts = [], []
    for path in _files(place):
        if is_elf(path):
            libraries.append(_library(path))
        elif path == place or path.suffix in _CONTEXT_SUFFIXES:
            facts = read_context(path)
            if facts is not None:
                contexts.append(Context(path, path.stat().st_size, facts))
        elif is_qnn_name(path.name):
            libraries.append(Library(path, path.stat().st_size, None, None, *part_of(path.name)))
    return Inventory(place, tuple(libraries), tuple(contexts))


def _files(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    count = 0

    def refuse(error: OSError) -> None:
        raise FileError(f"{error.filename} cannot be read", evidence=error.strerror) from None

    for folder, folders, names in os.walk(place, onerror=refuse):
        depth = len(Path(folder).relative_to(place).parts)
        folders[:] = sorted(name for name in folders if not name.startswith(".")) if depth < _DEPTH else []
        for name in sorted(names):
            path = Path(folder, name)
            if path.is_file() and (path.suffix in (".so", *_CONTEXT_SUFFIXES)):
                count += 1
                if count > _MOST_FILES:
                    raise UsageError(
                        f"{place} holds more than {_MOST_FILES} files", hints=["name a smaller folder"]
                    )
                yield path


def _library(path: Path) -> Library:
    build_id = read_build_id(path) if is_qnn_name(path.name) else None
    try:
        elf: ElfInfo | None = read_elf(path)
    except FileError:
        elf = None
    return Library(path, path.stat().st_size, build_id, elf, *part_of(path.name))


def part_of(name: str) -> tuple[str | None, str | None]:
    """Architecture and part of a Stub's or Skel's name: ("v75", "Stub")."""
    found = _PART.fullmatch(name)
    return (f"v{found['arch']}", found["part"]) if found else (None, None)
