"""logcat's filter expressions, `TAG:LEVEL` and `*:LEVEL` (liblog/logprint.cpp)."""

from __future__ import annotations

import re

from devkit.sim.logs.wire import DEBUG, DEFAULT, ERROR, FATAL, INFO, SILENT, VERBOSE, WARN

_LETTERS = {
    "v": VERBOSE,
    "d": DEBUG,
    "i": INFO,
    "w": WARN,
    "e": ERROR,
    "f": FATAL,
    "s": SILENT,
    "*": DEFAULT,
}


class Filters:
    """Which tag is shown from which priority on."""

    def __init__(self) -> None:
        self._default = VERBOSE
        self._tags: dict[bytes, int] = {}

    def add(self, expressions: str) -> bool:
        """Add expressions separated by blanks or commas; False at the first that is none.

        A later expression for the same tag wins.
        """
        return all(self._add_one(text) for text in re.split(r"[ \t,]", expressions) if text)

    def shows(self, priority: int, tag: bytes) -> bool:
        """Whether a message is shown."""
        return priority >= self._tags.get(tag, self._default)

    @property
    def everything(self) -> bool:
        """Whether no expression hides anything."""
        return self._default == VERBOSE and not self._tags

    def _add_one(self, text: str) -> bool:
        tag, colon, rest = text.partition(":")
        level = _level(rest[:1]) if colon else DEFAULT
        if not tag or level is None:
            return False
        if tag == "*":
            self._default = DEBUG if level == DEFAULT else level
        else:
            # Tag alone is TAG:V.
            self._tags[tag.encode("utf-8", "surrogateescape")] = VERBOSE if level == DEFAULT else level
        return True


def _level(letter: str) -> int | None:
    if letter.isascii() and letter.isdigit():
        number = int(letter)
        return VERBOSE if number >= SILENT else number
    return _LETTERS.get(letter.lower())
