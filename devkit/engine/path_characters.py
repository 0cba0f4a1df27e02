"""Characters in folders that CMake's generators cannot build with, refused before CMake runs.

Measured with CMake 3.25.1 and 4.4.5, ninja 1.11 and 1.13, GNU make 4.3: a project with a shared library
and a program, in a folder of each punctuation character. What is listed never builds. Others
(`_SUSPECT`) break only what a project writes itself, such as commands without
VERBATIM: those are a hint when a build has failed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from devkit.errors import BuildError

_ALWAYS: Mapping[str, str] = {
    '"': "CMake writes it unescaped into the projects of its own compiler checks",
    ";": "CMake takes it for the end of a list's item",
    "|": "ninja and make take it for the separator of a rule's inputs",
    "\\": "CMake takes it for a slash",
    "\n": "CMake's cache has one value a line",
    "$(": "ninja and make take it for a variable of theirs",
}
# Programs of this machine find the libraries of their build by RUNPATH; CMake writes none for Android.
_IN_RUNPATH: Mapping[str, str] = {
    ",": "compilers split -Wl,-rpath,FOLDER at it",
    ":": "it ends a folder in the list in which a program looks for its libraries",
}
_BY_GENERATOR: Mapping[str, Mapping[str, str]] = {
    "Unix Makefiles": {
        ":": "make takes it for the end of a rule's targets",
        "?": "make takes it for a pattern",
        "[": "CMake crashes when it writes make's dependencies",
        "]": "CMake crashes when it writes make's dependencies",
        "\t": "make takes it for a blank between two files",
    },
}
_SUSPECT = "#<>[]()'&*?`$^\t"


def check_folders(generator: str, folders: Mapping[str, Path], *, has_runpath: bool) -> None:
    """Refuse folders that cannot be built in.

    Args:
        generator: CMake's name of it.
        folders: what each is ("the engine's source folder") → where.
        has_runpath: whether programs will hold the folder of their libraries.

    Raises:
        BuildError: a path has such a character; names the path, the character and what it does.
    """
    if os.name == "nt":
        return
    causes = {**_ALWAYS, **(_IN_RUNPATH if has_runpath else {}), **_BY_GENERATOR.get(generator, {})}
    for what, folder in folders.items():
        for character, cause in causes.items():
            if character in str(folder):
                raise BuildError(
                    f"{what} has {_shown(character)} in its path, with which {generator} cannot build",
                    evidence=f"{str(folder)!r}\n{_shown(character)}: {cause}",
                    hints=[_hint(what, folder, causes)],
                )


def suspects(folder: Path) -> tuple[str, ...]:
    """Characters in a path that projects often do not expect, as people read them."""
    return tuple(_shown(character) for character in _SUSPECT if character in str(folder))


def _hint(what: str, folder: Path, causes: Mapping[str, str]) -> str:
    culprit = next(part for part in _folders(folder) if any(c in part.name for c in causes))
    return f"rename or move the folder {str(culprit)!r}: letters, digits, . _ - and blanks are always fine"


def _folders(folder: Path) -> Iterator[Path]:
    yield from reversed(folder.parents)
    yield folder


def _shown(character: str) -> str:
    names = {"\n": "a line feed", "\t": "a tab"}
    return names.get(character, f"a {character}")
