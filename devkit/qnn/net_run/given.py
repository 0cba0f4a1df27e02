"""What a user gives net-run: inputs of each inference, and references for its outputs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit import paths
from devkit.config import FileMapping
from devkit.errors import FileError, UsageError
from devkit.qnn.net_run.arrays import raw_bytes

INPUT_LIST = "input_list.txt"
_ENTRY = re.compile(r"(?:(?P<name>[^:=/\\]+):=)?(?P<file>.+)")


@dataclass(frozen=True)
class Input:
    """One tensor of one inference: the graph's name for it, where it was said, and its file."""

    file: Path
    name: str | None = None


@dataclass(frozen=True)
class Reference:
    """What an output should be: of the inference with this number, by its name where there are several."""

    file: Path
    inference: int
    name: str | None = None


def parse_references(words: Sequence[str]) -> list[Reference]:
    """`--reference FILE` in the order of the inferences; `NAME=FILE` for one of several outputs.

    Raises:
        UsageError: a file does not exist.
    """
    found: list[Reference] = []
    counts: dict[str | None, int] = {}
    for word in words:
        name, equals, rest = word.partition("=")
        path = paths.expand_user(rest if equals else word)
        if not path.is_file():
            raise UsageError(f"the reference {path} does not exist")
        key = name if equals else None
        found.append(Reference(path.absolute(), counts.get(key, 0), key))
        counts[key] = counts.get(key, 0) + 1
    return found


def parse_inputs(words: Sequence[str]) -> list[list[Input]]:
    """Inferences from `--input A.raw,B.raw`, `--input NAME:=A.raw`, or a list as qnn-net-run reads it (.txt).

    Raises:
        UsageError: a file does not exist.
        FileError: a list cannot be read.
    """
    found = []
    for word in words:
        path = paths.expand_user(word)
        if path.suffix == ".txt" and path.is_file():
            try:
                lines = path.read_text("utf-8").splitlines()
            except (OSError, UnicodeDecodeError) as error:
                raise FileError(f"{path} cannot be read", evidence=str(error)) from None
            entries = [line.split() for line in lines if line.strip() and line[0] not in "#%"]
            found += [[_input(entry, path.parent) for entry in line] for line in entries]
        else:
            found.append([_input(entry, Path()) for entry in word.split(",")])
    return found


def _input(entry: str, base: Path) -> Input:
    match = _ENTRY.fullmatch(entry)
    file = base / paths.expand_user(match["file"] if match else entry)
    if not file.is_file():
        raise UsageError(
            f"the input {file} does not exist",
            hints=["--input A.raw,B.raw is one inference with two inputs", "--input NAME:=A.raw names one"],
        )
    return Input(file.absolute(), match["name"] if match else None)


def stage_inputs(inferences: Sequence[Sequence[Input]], folder: Path) -> list[FileMapping]:
    """Write the inputs and their list as they are to lie beside the program on the phone.

    Raises:
        FileError: one cannot be read, or the folder cannot be written.
    """
    lines, files = [], []
    try:
        for number, inputs in enumerate(inferences):
            words = []
            for index, one in enumerate(inputs):
                name = f"{number}_{index}.raw"
                paths.write_atomically(folder / "input" / name, raw_bytes(one.file))
                files.append(FileMapping(folder / "input" / name, f"input/{name}"))
                words.append(f"{one.name}:=input/{name}" if one.name else f"input/{name}")
            lines.append(" ".join(words))
        paths.write_atomically(folder / INPUT_LIST, "\n".join(lines) + "\n")
    except OSError as error:
        raise FileError(f"{error.filename} cannot be written", evidence=error.strerror) from None
    return [FileMapping(folder / INPUT_LIST, INPUT_LIST), *files]
