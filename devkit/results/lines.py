"""From the bytes of a stream to clean lines, however they are cut, coloured or encoded."""

from __future__ import annotations

import re
from collections.abc import Iterator

# Longer lines lose their end: memory stays bounded whatever a program prints.
MAX_LINE_BYTES = 1 << 20

# Colours and cursor moves (CSI), window titles (OSC), other two-byte sequences.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
# logcat's threadtime (with or without the year), brief and tag formats.
_LOGCAT = re.compile(
    r"^(?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d+ +(?:\S+ +)?\d+ +\d+ [VDIWEF] [^:]*: "
    r"|[VDIWEF]/[^(:]*(?:\( *\d+\))?: ?)"
)


class LineFeeder:
    """Cuts a stream of bytes into lines. One for each stream: stdout and stderr interleave anywhere."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> Iterator[str]:
        """The lines that are complete now. A lone carriage return (a progress line) ends one too."""
        start = 0
        while True:
            end = data.find(b"\n", start)
            if end < 0:
                self._keep(data[start:])
                return
            self._keep(data[start:end])
            start = end + 1
            yield from self._take()

    def finish(self) -> Iterator[str]:
        """What stands after the last newline."""
        if self._rest:
            yield from self._take()

    def _keep(self, part: bytes) -> None:
        room = MAX_LINE_BYTES - len(self._rest)
        self._rest += part[:room]

    def _take(self) -> Iterator[str]:
        text = self._rest.decode("utf-8", "replace")
        self._rest.clear()
        for piece in text.rstrip("\r").split("\r"):
            yield clean(piece)


def clean(line: str) -> str:
    """A line without escape sequences, control characters and logcat's prefix."""
    if "\x1b" in line:
        line = _ESCAPES.sub("", line)
    line = _CONTROLS.sub("", line)
    return _LOGCAT.sub("", line, count=1) if line[:1].isdigit() or line[1:2] == "/" else line
