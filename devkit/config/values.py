"""One value from the text a user wrote: numbers, choices, paths; and what a wrong word may have meant."""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from devkit.config.options import Option
from devkit.errors import ConfigError
from devkit.paths import expand_user


def nearest(word: str, known: Sequence[str]) -> str | None:
    """The known word a user most likely meant, or None when nothing is close."""
    found = difflib.get_close_matches(word, known, n=1, cutoff=0.5)
    return found[0] if found else None


def from_text(option: Option, text: str, place: str, base: Path) -> Any:
    """The value that a text stands for.

    Args:
        place: the key, variable or flag it was given with, for messages.
        base: where relative paths begin.

    Raises:
        ConfigError: it is no value of this option.
    """
    if option.kind in ("integer", "count"):
        try:
            number = int(text)
        except ValueError:
            raise ConfigError(f"{place} must be a whole number, not {text!r}") from None
        least = 1 if option.kind == "integer" else 0
        if number < least:
            raise ConfigError(f"{place} must be at least {least}, not {number}")
        return number
    if option.kind == "choice" and text not in option.choices:
        guess = nearest(text, option.choices)
        raise ConfigError(
            f"{place} cannot be {text!r}",
            hints=[*([f"did you mean `{guess}`?"] if guess else []), "one of: " + ", ".join(option.choices)],
        )
    if option.kind == "path":
        return absolute(text, base)
    return text


def absolute(text: str, base: Path) -> Path:
    """A path with $VARIABLES and ~ replaced; a relative one begins at `base`."""
    path = expand_user(os.path.expandvars(text))
    return path if path.is_absolute() else base / path
