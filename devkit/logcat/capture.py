"""A log that is saved whole: blocks go to the file as they came; only lines that may be shown are looked at.

The filters of tags and levels become one regular expression over the block. So a line that nobody sees costs
a fraction of a microsecond, where making a record of it costs several.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from devkit.logcat.reading import Lines, read_stamp
from devkit.logcat.record import LEVELS, SILENT, VERBOSE, Record
from devkit.logcat.session import View
from devkit.logcat.times import Clock

_LETTERS = b"VDIWEFS"
# Its lines are counted, whatever is shown.
_COUNTED = b"chatty"
# A stamp of 35 bytes, pid and tid of five digits or more. Written as columns: classes of characters, and
# a choice of beginnings, cost three times as much.
_HEAD = rb"\n(.{35})(.{6}\d* .{5}\d*) "
_DIVIDER = b"\n--------- "


def candidates_pattern(tags: Mapping[bytes, int], others: int) -> re.Pattern[bytes]:
    """Finds lines of tags and levels that may be shown: a few too many, never one too few.

    It wants a line's end before each. Groups: stamp, pid and tid, level and tag, message.
    """
    by_letters: dict[bytes, list[bytes]] = {}
    for tag, lowest in {**tags, _COUNTED: VERBOSE}.items():
        if lowest < SILENT:
            by_letters.setdefault(_letters(lowest), []).append(re.escape(tag))
    ways = [b"[%b] (?:%b)" % (letters, b"|".join(names)) for letters, names in by_letters.items()]
    if others < SILENT:
        ways.append(b"[%b] .*?" % _letters(others))
    return re.compile(_HEAD + rb"((?:" + b"|".join(ways) + rb") *): ([^\n]*)")


def _letters(lowest: int) -> bytes:
    return _LETTERS[max(lowest - VERBOSE, 0) :]


class Capture:
    """Takes the blocks of `Lines`: counts, saves, and shows what passes the view's filters."""

    def __init__(self, view: View, lines: Lines) -> None:
        self._view = view
        self._lines = lines
        self._candidates = candidates_pattern(view.filters.tags, view.filters.others).finditer
        self._clock = Clock()
        self._day_and_second = b""
        self._second_ns: int | None = None
        # A message whose last lines may come with the next block: its head, and its lines so far.
        self._open: tuple[tuple[bytes, bytes, bytes], list[bytes]] | None = None

    def take(self, block: bytes) -> bool:
        """Whether enough has been shown."""
        view = self._view
        if view.writer is not None:
            view.writer.write(block, start=1)
        records = self._records(block)
        counts = view.counts
        counts.read += block.count(b"\n") - 1
        if self._lines.has_dividers:
            counts.read -= block.count(_DIVIDER)
        chatty = [record for record in records if record.tag == _COUNTED]
        if chatty:
            counts.add(chatty)
            counts.read -= len(chatty)
        return view.show(records) if records else False

    def _records(self, block: bytes) -> Sequence[Record]:
        """Records of lines that may be shown; lines of one message have one head, to the nanosecond."""
        records: list[Record] = []
        head, parts = self._open or (None, [])
        self._open = None
        end = 0
        for found in self._candidates(block):
            stamp, who, middle, message = found.groups()
            this = (stamp, who, middle)
            if this == head and found.start() == end:
                parts.append(message)
            else:
                if head is not None:
                    records.append(self._record(head, parts))
                head, parts = this, [message]
            end = found.end()
        if head is not None:
            if self._lines.cut and end == len(block) - 1:
                self._open = (head, parts)
            else:
                records.append(self._record(head, parts))
        return records

    def _record(self, head: tuple[bytes, bytes, bytes], parts: list[bytes]) -> Record:
        stamp, who, middle = head
        if stamp[:20] != self._day_and_second:
            self._day_and_second = stamp[:20]
            self._second_ns = read_stamp(self._clock, stamp[:20] + b"000000000" + stamp[29:])
        nanosecond, ids = stamp[20:29], who.split()
        time_ns = None
        if self._second_ns is not None and nanosecond.isdigit():
            time_ns = self._second_ns + int(nanosecond)
        pid, tid = (int(word) if word.isdigit() else None for word in (*ids, b"", b"")[:2])
        level, tag = LEVELS.get(chr(middle[0]), 0), middle[2:].rstrip(b" ")
        return Record(time_ns, "", None, pid, tid, level, tag, b"\n".join(parts))
