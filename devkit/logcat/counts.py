"""Counts for the summary, and what the phone says about lines that it dropped itself."""

from __future__ import annotations

import re
from collections.abc import Sequence

from devkit.logcat.record import Record

# ChattyLogBuffer of Android 11 and older: "uid=1000(system) Binder:555_3 expire 12 lines".
_FOLDED = re.compile(rb"(identical|expire) (\d+) lines?\Z")
# liblog's own event: so many messages found no room on their way to logd (log/event_tag.h, LIBLOG_LOG_TAG).
_LIBLOG_EVENT = (b"liblog", b"1006")
# The name of its lines; in the events buffer a number where names are not known.
_CHATTY = (b"chatty", b"1004")


class Counts:
    """What has passed so far.

    Attributes:
        identical: repeated lines that the phone folded into one.
        expired: lines that it took out of its buffer before they were read.
        dropped: messages that never came into it.
    """

    def __init__(self) -> None:
        self.read = 0
        self.shown = 0
        self.identical = 0
        self.expired = 0
        self.dropped = 0

    def add(self, records: Sequence[Record]) -> None:
        """Count records that were read."""
        self.read += len(records)
        for record in records:
            tag = record[6]
            if tag in _CHATTY:
                found = _FOLDED.search(record[7])
                if found and found[1] == b"identical":
                    self.identical += int(found[2])
                elif found:
                    self.expired += int(found[2])
            elif tag in _LIBLOG_EVENT and record[1] == "events" and record[7].isdigit():
                self.dropped += int(record[7])

    def as_dict(self) -> dict[str, int]:
        """For --json."""
        return {
            "read": self.read,
            "shown": self.shown,
            "identical": self.identical,
            "expired": self.expired,
            "dropped": self.dropped,
        }

    @property
    def text(self) -> str:
        """One line; empty when the phone kept everything."""
        parts = []
        if self.identical:
            parts.append(f"{self.identical} identical lines folded by the phone")
        if self.expired:
            parts.append(f"{self.expired} lines expired on the phone before they were read")
        if self.dropped:
            parts.append(f"{self.dropped} messages dropped by the phone")
        return ", ".join(parts)
