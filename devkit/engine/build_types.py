"""Build types as data: CMake's name, flags, and whether the products keep their symbols."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import Any

from devkit.config import BUILD_TYPES, nearest
from devkit.errors import UsageError


@dataclass(frozen=True)
class BuildType:
    """One row of build_types.yaml.

    Attributes:
        cmake: CMAKE_BUILD_TYPE.
        symbols: whether products promise debug information.
        keep_symbols: whether the project's own stripping must be taken out.
        flags: compiler flags in place of CMake's for this type, or nothing.
        memory_mb: megabytes that one compile job may need.
    """

    name: str
    about: str
    cmake: str
    symbols: bool
    memory_mb: int
    keep_symbols: bool = False
    flags: str = ""
    flags_why: str = ""

    def entries(self) -> dict[str, tuple[str, str]]:
        """CMake cache entries of this type: name → (value, why)."""
        found = {"CMAKE_BUILD_TYPE": (self.cmake, f"{self.name}: {self.about}")}
        for language in ("C", "CXX") if self.flags else ():
            found[f"CMAKE_{language}_FLAGS_{self.cmake.upper()}"] = (self.flags, self.flags_why)
        if self.keep_symbols:
            why = "takes the engine's own -s (strip everything) out of its linker flags"
            found["CMAKE_PROJECT_INCLUDE"] = (str(_KEEP_SYMBOLS), why)
        return found


_KEEP_SYMBOLS = Path(__file__).with_name("keep_symbols.cmake")


def get_build_type(name: str) -> BuildType:
    """The build type of that name.

    Raises:
        UsageError: there is none.
    """
    row = _rows().get(name)
    if row is None:
        guess = nearest(name, BUILD_TYPES)
        hints = [f"did you mean {guess}?"] if guess else []
        raise UsageError(
            f"there is no build type {name!r}", hints=[*hints, *(f"--type {known}" for known in BUILD_TYPES)]
        )
    return BuildType(name=name, **row)


def all_build_types() -> tuple[BuildType, ...]:
    """Every build type, in the order in which they are shown."""
    return tuple(get_build_type(name) for name in BUILD_TYPES)


@lru_cache(maxsize=1)
def _rows() -> Mapping[str, Mapping[str, Any]]:
    import yaml

    text = resources.files("devkit.engine").joinpath("build_types.yaml").read_text("utf-8")
    rows: Mapping[str, Mapping[str, Any]] = yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return rows
