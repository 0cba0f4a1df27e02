"""Records as a person reads them: aligned columns, colours, nothing that could steer the terminal."""

from __future__ import annotations

import re
import time
from typing import Any

from devkit.logcat.record import DEBUG, ERROR, FATAL, INFO, VERBOSE, WARN, Record

_COLORS = {VERBOSE: "2", DEBUG: "34", INFO: "32", WARN: "33", ERROR: "31", FATAL: "1;31"}
_TAG_COLORS = ("36", "35", "94", "96", "95", "92")
_MIN_TAG, _MAX_TAG = 8, 23
# Controls, and characters that reorder what follows (bidi) or look like a line's end.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_DATELESS_S = 12 * 3600


class Columns:
    """Lays records out. The tag's column is as wide as the tags seen so far, within limits.

    Args:
        color: with ANSI colours.
    """

    def __init__(self, *, color: bool) -> None:
        self._color = color
        # What is older has its date, too.
        self._today = time.time() - _DATELESS_S
        self._second = -1
        self._head = ""
        self._width = _MIN_TAG

    def text(self, record: Record) -> str:
        """The lines of one record, each ended."""
        time_ns, _buffer, _uid, pid, tid, level, tag, message, _process = record
        stamp = self._stamp(time_ns)
        shown_tag = safe(tag)
        if len(shown_tag) > self._width:
            self._width = min(len(shown_tag), _MAX_TAG)
        letter = record.letter
        who = "" if pid is None else f"{pid:>5} " if tid is None else f"{pid:>5} {tid:>5} "
        head = f"{stamp}{who}"
        column = f"{shown_tag:<{self._width}}"
        indent = " " * (len(head) + 2 + len(column) + 2)
        lines = safe(message).rstrip("\n").split("\n")
        if not self._color:
            body = ("\n" + indent).join(lines)
            return f"{head}{letter} {column}  {body}\n"
        color = _COLORS.get(level, "0")
        tag_color = _TAG_COLORS[sum(tag) % len(_TAG_COLORS)]
        paint = f"\x1b[{color}m" if level in (WARN, ERROR, FATAL, VERBOSE) else ""
        end = "\x1b[0m" if paint else ""
        body = ("\n" + indent).join(f"{paint}{line}{end}" for line in lines)
        return f"\x1b[2m{head}\x1b[0m\x1b[{color}m{letter}\x1b[0m \x1b[{tag_color}m{column}\x1b[0m  {body}\n"

    def _stamp(self, time_ns: int | None) -> str:
        if time_ns is None:
            return ""
        second, nanosecond = divmod(time_ns, 1_000_000_000)
        if second != self._second:
            self._second = second
            pattern = "%H:%M:%S" if second >= self._today else "%m-%d %H:%M:%S"
            self._head = time.strftime(pattern, time.localtime(second))
        return f"{self._head}.{nanosecond // 1_000_000:03d} "


def safe(data: bytes) -> str:
    """Text of bytes: what is not UTF-8, and what a terminal would obey, becomes visible."""
    text = data.decode("utf-8", "backslashreplace")
    if text.isprintable():
        return text
    return _UNSAFE.sub(_visible, text)


def as_json(record: Record) -> dict[str, Any]:
    """One record for --json. Bytes that are not UTF-8 appear as \\xNN, and `"utf8": false` says so."""
    time_ns, buffer, uid, pid, tid, _level, tag, message, process = record
    value: dict[str, Any] = {
        "time": None if time_ns is None else f"{time_ns // 10**9}.{time_ns % 10**9:09d}",
        "buffer": buffer or None,
        "uid": uid,
        "pid": pid,
        "tid": tid,
        "level": record.letter,
        "tag": tag.decode("utf-8", "backslashreplace"),
        "message": message.decode("utf-8", "backslashreplace"),
    }
    if process is not None:
        value["process"] = process
    try:
        tag.decode()
        message.decode()
    except UnicodeDecodeError:
        value["utf8"] = False
    return value


def _visible(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"
