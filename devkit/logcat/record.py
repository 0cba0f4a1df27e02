"""What a log is made of: records, the markers between them, and lines that are neither."""

from __future__ import annotations

from typing import NamedTuple

# android/log.h and log/log_id.h.
VERBOSE, DEBUG, INFO, WARN, ERROR, FATAL, SILENT = range(2, 9)
LETTERS = "??VDIWEFS"
# Android Studio and old releases say A (assert) for F.
LEVELS = {"V": VERBOSE, "D": DEBUG, "I": INFO, "W": WARN, "E": ERROR, "F": FATAL, "A": FATAL, "S": SILENT}
BUFFERS = ("main", "radio", "events", "system", "crash", "stats", "security", "kernel")


class Record(NamedTuple):
    """One message.

    Attributes:
        time_ns: nanoseconds since 1970; None where the layout has no time of day.
        buffer: "main", "crash", …; "" where it is not known.
        uid: the user's number, or its name as text logs say it; None where it is not known.
        level: VERBOSE to FATAL, 0 where it is none of them.
        tag, message: bytes as they were written; they need not be UTF-8.
        process: the name of the process, where the log tells it (Android Studio).
    """

    time_ns: int | None
    buffer: str
    uid: int | str | None
    pid: int | None
    tid: int | None
    level: int
    tag: bytes
    message: bytes
    process: str | None = None

    @property
    def letter(self) -> str:
        """The level as logcat shows it."""
        return LETTERS[self.level] if 0 <= self.level < len(LETTERS) else "?"


class Marker(NamedTuple):
    """A line of logcat or Android Studio itself, as `--------- beginning of crash`."""

    text: str


class Stray(NamedTuple):
    """A line of a text log that is no record: kept, so that nothing is lost."""

    data: bytes


Item = Record | Marker | Stray
