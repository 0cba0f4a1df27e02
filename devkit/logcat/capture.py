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
# What stands before the level: a stamp, and two ids of up to five digits. The search steps over it, in a
# short line over the line's end, too; to look for ends, or to keep parts, would cost twice as much.
_HEAD_BYTES = 48
# Ids of more digits reach behind it. Such lines are rare, and tried last.
_WIDE = rb"[ \d][ \d]*"
_PARTS = re.compile(rb"(.{20})(.{9})(.{6}) +(\d{1,10}) +(\d{1,10}) ([VDIWEFS]) (.*)")
_DIVIDER = b"\n--------- "


def candidates_pattern(tags: Mapping[bytes, int], others: int) -> re.Pattern[bytes]:
    """Finds lines of tags and levels that may be shown: a few too many, never one too few.

    It wants a line's end before each, and may begin one line too early. Group 1 is the message.
    """
    by_letters: dict[bytes, list[bytes]] = {}
    for tag, lowest in {**tags, _COUNTED: VERBOSE}.items():
        if lowest < SILENT:
            by_letters.setdefault(_letters(lowest), []).append(re.escape(tag))
    ways = [b"[%b] (?:%b) *" % (letters, b"|".join(names)) for letters, names in by_letters.items()]
    if others < SILENT:
        ways.append(b"[%b] .*?" % _letters(others))
    ways.append(_WIDE + b"(?:" + b"|".join(ways) + b")")
    return re.compile(rb"\n(?s:.{%d})(?:" % _HEAD_BYTES + b"|".join(ways) + rb"): ([^\n]*)")


def _letters(lowest: int) -> bytes:
    return _LETTERS[max(lowest - VERBOSE, 0) :]


class Capture:
    """Takes the blocks of `Lines`: counts, saves, and shows what passes the view's filters."""

    def __init__(self, view: View, lines: Lines) -> None:
        self._view = view
        self._lines = lines
        self._search = candidates_pattern(view.filters.tags, view.filters.others).search
        self._clock = Clock()
        self._day_and_second = b""
        self._second_ns: int | None = None
        # A message whose last lines may come with the next block: its head, and its lines so far.
        self._open: tuple[bytes, list[bytes]] | None = None

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
        search, end = self._search, 0
        found = search(block)
        while found is not None:
            start, at = found.start() + 1, found.start(1)
            line_end = block.rfind(b"\n", start, at)
            if line_end >= 0:
                found = search(block, line_end)
                continue
            this = block[start : at - 2]
            if this == head and start == end + 1:
                parts.append(found[1])
            else:
                if head is not None:
                    self._add(records, head, parts)
                head, parts = this, [found[1]]
            end = found.end()
            found = search(block, end)
        if head is not None:
            if self._lines.cut and end == len(block) - 1:
                self._open = (head, parts)
            else:
                self._add(records, head, parts)
        return records

    def _add(self, records: list[Record], head: bytes, parts: list[bytes]) -> None:
        match = _PARTS.fullmatch(head)
        if match is None:
            return  # some other line that looks like a message from the level on
        second, nanosecond, zone, pid, tid, level, tag = match.groups()
        if second != self._day_and_second:
            self._day_and_second = second
            self._second_ns = read_stamp(self._clock, second + b"000000000" + zone)
        time_ns = None
        if self._second_ns is not None and nanosecond.isdigit():
            time_ns = self._second_ns + int(nanosecond)
        known, message = LEVELS[level.decode()], b"\n".join(parts)
        records.append(Record(time_ns, "", None, int(pid), int(tid), known, tag.rstrip(b" "), message))
