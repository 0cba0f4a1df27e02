"""Which records are shown: TAG:LEVEL as logcat takes it, a regular expression, processes, times."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from devkit.errors import UsageError
from devkit.logcat.record import LEVELS, SILENT, VERBOSE, Record


@dataclass
class Filters:
    """What a record must be to be shown; all of it at once.

    Args:
        tags: tag → lowest level.
        others: lowest level of all other tags.
        regex: searched for in the message.
        excluded: hides messages in which it is found.
        since_ns, until_ns: nanoseconds since 1970; records without a time pass.
    """

    tags: dict[bytes, int] = field(default_factory=dict)
    others: int = VERBOSE
    regex: re.Pattern[bytes] | None = None
    excluded: re.Pattern[bytes] | None = None
    since_ns: int | None = None
    until_ns: int | None = None

    def compiled(self) -> Callable[[Record], bool]:
        """A function that says whether a record is shown."""
        tags, others = self.tags, self.others
        search = self.regex.search if self.regex else None
        hides = self.excluded.search if self.excluded else None
        since, until = self.since_ns, self.until_ns

        def shows(record: Record) -> bool:
            if record[5] < tags.get(record[6], others):
                return False
            if search is not None and search(record[7]) is None:
                return False
            if hides is not None and hides(record[7]) is not None:
                return False
            moment = record[0]
            if moment is None or (since is None and until is None):
                return True
            return (since is None or moment >= since) and (until is None or moment <= until)

        return shows


def parse_specs(specs: Sequence[str]) -> tuple[dict[bytes, int], int | None]:
    """Read TAG, TAG:LEVEL and *:LEVEL, the later one winning; the second value is that of `*`.

    Raises:
        UsageError: one of them is neither.
    """
    tags: dict[bytes, int] = {}
    others: int | None = None
    for spec in (spec for text in specs for spec in _split(text)):
        tag, colon, letter = spec.rpartition(":")
        if not colon:
            tag, letter = spec, ""
        level = LEVELS.get(letter.upper()) if letter else VERBOSE
        if letter == "*":
            level = VERBOSE
        if not tag or level is None:
            raise UsageError(
                f"{spec!r} is no filter", hints=["TAG:LEVEL with V D I W E F or S, as MNNJNI:I or '*:W'"]
            )
        if tag == "*":
            others = level
        else:
            tags[tag.encode("utf-8", "surrogateescape")] = level
    return tags, others


def _split(text: str) -> list[str]:
    """Several in one word, as adb logcat takes them; a tag may hold blanks itself."""
    words = text.replace(",", " ").split()
    if not words:
        raise UsageError(f"{text!r} is no filter", hints=["--all shows every tag"])
    return words if len(words) < 2 or all(":" in word or word == "*" for word in words) else [text.strip()]


def parse_level(letter: str) -> int:
    """The level of a letter.

    Raises:
        UsageError: there is none of it.
    """
    level = LEVELS.get(letter[:1].upper())
    if level is None or level == SILENT:
        raise UsageError(f"{letter!r} is no level", hints=["V, D, I, W, E or F"])
    return level


def compile_regex(text: str | None, option: str) -> re.Pattern[bytes] | None:
    """A regular expression over bytes.

    Raises:
        UsageError: it is none.
    """
    if text is None:
        return None
    try:
        return re.compile(text.encode("utf-8", "surrogateescape"))
    except re.error as error:
        raise UsageError(f"{option} {text!r} is no regular expression", evidence=str(error)) from None
