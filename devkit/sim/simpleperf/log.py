"""simpleperf's messages: a level, the place in its sources, the text."""

from __future__ import annotations

import os


class Refused(Exception):
    """A command that cannot be done; simpleperf says why and ends with 1.

    Args:
        place: file and line of the message in the real tool's sources.
    """

    def __init__(self, place: str, text: str) -> None:
        super().__init__(text)
        self.place = place


def say(level: str, place: str, text: str) -> None:
    """One message on stderr."""
    os.write(2, f"simpleperf {level} {place}] {text}\n".encode("utf-8", "surrogateescape"))
