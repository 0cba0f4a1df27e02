"""What the searches for an NDK and for a QNN SDK share: named folders, known places, disagreements."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import ToolMissing
from devkit.paths import expand_user

SETTINGS_HINT = "devkit config show --origin   says who asks for it"


@dataclass(frozen=True)
class Candidate:
    """An SDK that something names: a flag, a variable or a known place."""

    origin: str
    path: Path
    revision: str

    def __str__(self) -> str:
        return f"{self.origin} ({self.revision})"


def named_folders(
    key: str, explicit: Path | None, variables: Sequence[str], environ: Mapping[str, str]
) -> list[tuple[str, Path]]:
    """What the setting `key` and the variables name, in the order in which they are believed."""
    named = [] if explicit is None else [(f"{key} {quoted(explicit)}", expand_user(explicit))]
    return named + [(name, expand_user(environ[name])) for name in variables if environ.get(name)]


def each_once(candidates: Iterable[Candidate]) -> Iterator[Candidate]:
    """The candidates without those that are another name of an earlier one's folder."""
    seen: set[str] = set()
    for candidate in candidates:
        real = os.path.realpath(candidate.path)
        if real not in seen:
            seen.add(real)
            yield candidate


def disagreements(path: Path, others: Sequence[Candidate]) -> tuple[str, ...]:
    """What names another folder than `path`, grouped by real path, with revisions."""
    groups: dict[str, list[Candidate]] = {}
    for other in others:
        groups.setdefault(os.path.realpath(other.path), []).append(other)
    groups.pop(os.path.realpath(path), None)
    return tuple(" / ".join(c.origin for c in group) + f" ({group[0].revision})" for group in groups.values())


def choose_version(
    version: str,
    pointed: Sequence[Candidate],
    discovered: Iterable[Candidate],
    *,
    what: str,
    install: str,
    matches: Callable[[str], bool],
    prefer: Callable[[Candidate], bool] = lambda _: True,
) -> tuple[Candidate, tuple[Candidate, ...]]:
    """The first candidate of a version, and what else is named.

    Args:
        pointed: what settings and variables name.
        discovered: what lies in known places.
        what: "NDK" or "QNN SDK", for messages.
        install: the command that installs one, without the version.
        matches: whether a revision is the wanted one.
        prefer: of several that match, one for which this is true comes first.

    Raises:
        ToolMissing: there is none; lists what is there.
    """
    everything = [*pointed, *discovered]
    matching = [c for c in everything if matches(c.revision)]
    for chosen in sorted(matching, key=lambda c: not prefer(c)):
        return chosen, tuple(c for c in pointed if c is not chosen)
    there = "\n".join(f"{c.revision}  {quoted(c.path)}  ({c.origin})" for c in everything)
    raise ToolMissing(
        f"{what} {version} is not installed",
        evidence=there or f"no {what} was found at all",
        hints=[f"{install} {version}", SETTINGS_HINT],
    )


def subfolders(folder: Path) -> list[Path]:
    """The folders in a folder, without those whose names begin with a dot: unfinished installations."""
    try:
        return sorted(c for c in folder.iterdir() if c.is_dir() and not c.name.startswith("."))
    except OSError:
        return []


def quoted(path: Path) -> str:
    """A path as messages show it: blanks must be seen."""
    return f"'{path}'"
