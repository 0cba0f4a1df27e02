"""Breakpoint sets with explanations: devkit's own (presets.yaml), and the user's of devkit.yaml."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit.config import nearest
from devkit.errors import ConfigError, DebugError, UsageError
from devkit.lldb.recipes import parse_breakpoint
from devkit.symbols.functions import Functions, read_functions

if TYPE_CHECKING:
    from devkit.config import Config

_SHOWN_FILES = 4


@dataclass(frozen=True)
class PresetPoint:
    """One breakpoint of a set: FILE:LINE or a function, and what a stop there tells.

    `others` are what the function is called in other releases.
    """

    place: str
    why: str = ""
    others: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preset:
    """A set of breakpoints. `origin` is "built-in", or the file and line that define it."""

    name: str
    about: str
    points: tuple[PresetPoint, ...]
    hint: str = ""
    origin: str = "built-in"

    def as_dict(self) -> dict[str, Any]:
        """The set as `--json` prints it."""
        points = [{"place": point.place, "why": point.why} for point in self.points]
        return {"name": self.name, "about": self.about, "origin": self.origin, "breakpoints": points}


@dataclass(frozen=True)
class MissingPoint:
    """A function that the program does not have, and the present one that is most like it."""

    place: str
    nearest: str | None


@dataclass(frozen=True)
class Chosen:
    """What of some presets a program has: `points` in order, without repetition."""

    points: tuple[PresetPoint, ...]
    missing: tuple[MissingPoint, ...]
    stripped: tuple[Path, ...] = ()


@lru_cache(maxsize=1)
def builtin_presets() -> Mapping[str, Preset]:
    """The sets of presets.yaml."""
    import yaml

    text = resources.files("devkit.lldb").joinpath("presets.yaml").read_text("utf-8")
    return {
        name: Preset(
            name=name,
            about=entry["about"],
            hint=entry["hint"],
            points=tuple(
                PresetPoint(point["at"], point["why"], tuple(point.get("or", ())))
                for point in entry["breakpoints"]
            ),
        )
        for name, entry in yaml.safe_load(text).items()
    }


def all_presets(config: Config) -> dict[str, Preset]:
    """All sets; the user's come first, and replace built-in ones of the same name.

    Raises:
        ConfigError: one of the user's has no breakpoints, or one that is neither FILE:LINE nor a function.
    """
    own = {name: _own_preset(config, name, entry) for name, entry in config.presets.items()}
    return {**own, **{name: preset for name, preset in builtin_presets().items() if name not in own}}


def find_presets(config: Config, names: Sequence[str]) -> list[Preset]:
    """The sets of these names.

    Raises:
        UsageError: there is none of such a name.
        ConfigError: as all_presets.
    """
    known = all_presets(config)
    for name in names:
        if name not in known:
            guess = nearest(name, list(known))
            raise UsageError(
                f"there is no preset named {name!r}",
                hints=[
                    *([f"did you mean --preset {guess}?"] if guess else []),
                    "devkit debug --list-presets",
                    "known: " + ", ".join(known),
                ],
            )
    return [known[name] for name in names]


def choose(presets: Sequence[Preset], files: Sequence[Path], foreign: Sequence[Path] = ()) -> Chosen:
    """The breakpoints that a program and its libraries have a place for.

    Functions are looked up in the symbol tables. While one of the files has none, a function that is not
    found may be in there: it stays, pending. So do breakpoints at FILE:LINE.

    Args:
        foreign: libraries of others (the toolchain's, an SDK's): of them only what they export counts.

    Raises:
        DebugError: the program has nothing of one of the sets.
        FileError: a file cannot be read.
    """
    functions = read_functions([*files, *foreign])
    functions.stripped = [file for file in functions.stripped if file in files]
    points: dict[str, PresetPoint] = {}
    missing: dict[str, MissingPoint] = {}
    for preset in presets:
        found = False
        absent: list[MissingPoint] = []
        for point in preset.points:
            place = _present(point, functions)
            if place is None:
                absent.append(MissingPoint(point.place, functions.nearest(point.place)))
            else:
                found = True
                points.setdefault(place, PresetPoint(place, point.why))
        if not found:
            raise _nothing_there(preset, absent, files)
        missing.update({entry.place: entry for entry in absent})
    return Chosen(tuple(points.values()), tuple(missing.values()), tuple(functions.stripped))


def _present(point: PresetPoint, functions: Functions) -> str | None:
    for place in (point.place, *point.others):
        name, line = parse_breakpoint(place)
        # An overload or a template is written out: LLDB compares it, with all its spellings of types.
        if line is not None or any(mark in name for mark in "(<") or functions.has(name):
            return place
    return point.place if functions.stripped else None


def _nothing_there(preset: Preset, missing: Sequence[MissingPoint], files: Sequence[Path]) -> DebugError:
    lines = [missing_line(entry) for entry in missing]
    more = f" and {len(files) - _SHOWN_FILES} more" if len(files) > _SHOWN_FILES else ""
    lines.append(f"looked in: {', '.join(file.name for file in files[:_SHOWN_FILES])}{more}")
    where = preset.hint or f"the preset is from {preset.origin}"
    return DebugError(
        f"none of the functions of the preset {preset.name} is in the program",
        evidence="\n".join(lines),
        hints=[where, "devkit debug --list-presets shows what each is for"],
    )


def missing_line(entry: MissingPoint) -> str:
    """One line about a function that is not there."""
    return f"{entry.place} is not there" + (f"; nearest: {entry.nearest}" if entry.nearest else "")


def _own_preset(config: Config, name: str, entry: Mapping[str, Any]) -> Preset:
    key = f"presets.{name}.breakpoints"
    given = config.origins.get(key) or config.origins[f"presets.{name}."]
    place = given.partition("(")[2].rstrip(")")
    points = entry.get("breakpoints", ())
    if not points:
        raise ConfigError(
            f"{place}: presets.{name} has no breakpoints", hints=["breakpoints: [FUNC, FILE:LINE]"]
        )
    for text, _ in points:
        try:
            parse_breakpoint(text)
        except UsageError as error:
            what = error.what.replace("--break ", "")
            raise ConfigError(
                f"{place}: {key}: {what}", hints=["MNN::CPUMatMul::onExecute", "a.cpp:42"]
            ) from None
    return Preset(
        name=name,
        about=entry.get("about") or "",
        points=tuple(PresetPoint(text, why) for text, why in points),
        origin=place,
    )
