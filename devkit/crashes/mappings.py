"""Addresses of a process that nothing but its own map explains: lines of /proc/PID/maps in the same text."""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import replace

from devkit.crashes.model import BARE, Crash, Frame

_LINE = re.compile(
    r"\s{0,8}(?P<start>[0-9a-f]{6,16})-(?P<end>[0-9a-f]{6,16}) [r-][w-]x[ps] (?P<offset>[0-9a-f]{8,16}) "
    r"[0-9a-f]{2,4}:[0-9a-f]{2,6} \d{1,20} {1,80}(?P<file>/.{1,4096})$"
)
_MOST = 20_000


class Mappings:
    """The executable mappings that a text lists, of one process."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, int, str]] = []

    def line(self, text: str) -> bool:
        """Take a line; whether it is one of a map."""
        if "x" not in text[:64] or "-" not in text[:32] or not (match := _LINE.match(text)):
            return False
        if len(self._found) < _MOST:
            start, end, offset = (int(match[name], 16) for name in ("start", "end", "offset"))
            self._found.append((start, end, offset, match["file"].rstrip()))
        return True

    def explain(self, crash: Crash) -> None:
        """Give bare addresses the file they are in, and their distance into its mapping."""
        if not self._found:
            return
        ordered = sorted(self._found)
        starts = [start for start, *_ in ordered]
        for stack in crash.stacks:
            stack.frames = [self._explained(frame, ordered, starts) for frame in stack.frames]

    @staticmethod
    def _explained(frame: Frame, ordered: list[tuple[int, int, int, str]], starts: list[int]) -> Frame:
        if frame.module is not None or frame.address is None or frame.locations:
            return frame
        at = bisect_right(starts, frame.address) - 1
        if at < 0 or frame.address >= ordered[at][1]:
            return frame
        start, _, offset, file = ordered[at]
        return replace(frame, origin=BARE, module=file, offset=offset, pc=frame.address - start)
