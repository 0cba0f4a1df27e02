"""Text logs: every layout of `logcat -v` with its modifiers, and what people copy out of Android Studio.

A line that has a head of its own is a record: where a message of several lines was logged, logcat repeats
the head, and nothing tells it from several messages. Lines without a head belong to the record before in the
layouts that write them (long, Android Studio); elsewhere they are kept as strays.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from devkit.logcat.record import LEVELS, Item, Marker, Record, Stray
from devkit.logcat.times import Clock

# Longer lines lose their end: memory stays bounded whatever a file holds.
MAX_LINE_BYTES = 1 << 20
_MAX_JOINED_BYTES = 1 << 20

_STAMP = rb"(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d+(?: [+-]\d{4})?"
_TIME = rb"(" + _STAMP + rb"| *\d+\.\d+)"
_LEVEL = rb"([VDIWEFAS?])"
_MARKER = re.compile(rb"-{9} (beginning of|switch to) \S+\Z|-{10,} PROCESS (STARTED|ENDED) .*-{10,}\Z")
# `-v color` paints whole records; what else is painted is part of the message.
_COLOR = re.compile(rb"\x1b\[[0-9;]*m")
_COLOR_END = b"\x1b[0m"

_THREADTIME = re.compile(_TIME + rb" +(?:([A-Za-z]\S*|\d+) +)?(\d+) +(\d+) " + _LEVEL + rb" ")
_TIME_HEAD = re.compile(_TIME + rb" +" + _LEVEL + rb"/")
_BRIEF_HEAD = re.compile(_LEVEL + rb"/")
_PID_END = re.compile(rb"\( *(?:(\w+): *)?(\d+)\):(?: |\Z)")
_PROCESS = re.compile(_LEVEL + rb"\( *(?:(\w+): *)?(\d+)\) ")
_THREAD = re.compile(_LEVEL + rb"\( *(?:(\w+): *)?(\d+): *(\d+|0x[0-9a-f]+)\) (.*)\Z", re.S)
_LONG = re.compile(
    rb"\[ " + _TIME + rb" +(?:([A-Za-z]\w*|\d+): *)?(\d+): *(\d+|0x[0-9a-f]+) " + _LEVEL + rb"/(.*) \]\Z"
)
_STUDIO_OLD = re.compile(_TIME + rb" +(\d+)-(\d+)/(\S+) " + _LEVEL + rb"/(.*)\Z", re.S)
_STUDIO_NEW = re.compile(_TIME + rb" +(\d+)- *(\d+) +(?:(\S+(?: \S+)*?) +)??(\S+) +" + _LEVEL + rb"(?:  |\Z)")
# Columns of tag and process: what lies beyond is message, however long.
_STUDIO_HEAD_BYTES = 400
_STUDIO_COMPACT = re.compile(rb"(\d\d:\d\d:\d\d\.\d{3})  " + _LEVEL + rb"  (.*)\Z", re.S)

_Reader = Callable[[bytes], "Record | None"]


class TextParser:
    """Takes a text log in any pieces, and finds its layout by itself, line by line.

    Args:
        year: for stamps without one (default: so that nothing lies in the future).
    """

    def __init__(self, *, year: int | None = None) -> None:
        self._clock = Clock(year)
        self._rest = b""
        self._buffer = ""
        self._readers: list[_Reader] = [
            self._threadtime, self._studio_old, self._studio_new, self._long, self._time, self._brief,
            self._thread, self._process, self._compact,
        ]  # fmt: skip
        # Its lines follow without a head: a record whose end has not been seen yet.
        self._open: Record | None = None
        self._more: list[bytes] = []
        self._more_bytes = 0
        self._is_long = False

    def feed(self, data: bytes) -> list[Item]:
        """What is complete now."""
        lines = (self._rest + data if self._rest else data).split(b"\n")
        self._rest = lines.pop()
        items: list[Item] = []
        if len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest[:MAX_LINE_BYTES])
            self._rest = b""
        for line in lines:
            self._line(line, items)
        return items

    def finish(self) -> list[Item]:
        """What remains at the end."""
        items: list[Item] = []
        if self._rest:
            self._line(self._rest, items)
            self._rest = b""
        self._close(items)
        return items

    def _line(self, line: bytes, items: list[Item]) -> None:
        line = line.rstrip(b"\r")
        if b"\x1b" in line:
            line = self._unpainted(line)
        readers = self._readers
        if self._open is not None and self._is_long:
            # Its messages may look like any other layout.
            readers = [self._long]
        for index, reader in enumerate(readers):
            record = reader(line)
            if record is not None:
                if index:
                    readers.insert(0, readers.pop(index))  # the next line is probably like this one
                self._close(items)
                self._is_long = reader == self._long
                if self._is_long or reader == self._studio_new:
                    self._open = record
                else:
                    items.append(record)
                return
        if line[:2] == b"--" and (found := _MARKER.match(line)):
            self._close(items)
            self._buffer = line.rsplit(b" ", 1)[1].decode("ascii", "replace") if found[1] else self._buffer
            items.append(Marker(line.decode("utf-8", "replace").strip("- ")))
        elif self._open is not None and (self._is_long or line[:1] in b" \t") and self._has_room(line):
            self._more.append(line if self._is_long else line.lstrip())
        elif line or self._is_long:
            self._close(items)
            items.append(Stray(line))

    def _unpainted(self, line: bytes) -> bytes:
        color = _COLOR.match(line)
        if color is not None:
            line = line[color.end() :]
        # In the layout long a record ends, and with it its colour, lines after it began.
        if color is not None or self._is_long:
            line = line.removesuffix(_COLOR_END)
        return line

    def _has_room(self, line: bytes) -> bool:
        self._more_bytes += len(line) + 1
        return self._more_bytes <= _MAX_JOINED_BYTES

    def _close(self, items: list[Item]) -> None:
        if self._open is None:
            return
        if self._is_long:
            # The layout ends each message with an empty line.
            if self._more and not self._more[-1]:
                self._more.pop()
            message = b"\n".join(self._more)
        else:
            message = b"\n".join([self._open.message, *self._more])
        items.append(self._open._replace(message=message))
        self._open, self._more, self._more_bytes = None, [], 0

    # One layout each; None: the line is not of it.

    def _threadtime(self, line: bytes) -> Record | None:
        found = _THREADTIME.match(line)
        if found is None:
            return None
        stamp, uid, pid, tid, level = found.groups()
        split = _tag_and_message(line[found.end() :])
        if split is None:
            return None
        return self._record(stamp, level, *split, uid=uid, pid=pid, tid=tid)

    def _time(self, line: bytes) -> Record | None:
        found = _TIME_HEAD.match(line)
        return self._with_pid_end(line, found.end(), found[1], found[2]) if found else None

    def _brief(self, line: bytes) -> Record | None:
        found = _BRIEF_HEAD.match(line)
        if found is None:
            return None
        record = self._with_pid_end(line, found.end(), None, found[1])
        if record is not None:
            return record
        split = _tag_and_message(line[found.end() :])  # the layout "tag"
        return self._record(None, found[1], *split) if split else None

    def _with_pid_end(self, line: bytes, at: int, stamp: bytes | None, level: bytes) -> Record | None:
        found = _PID_END.search(line, at)
        if found is None:
            return None
        tag = line[at : found.start()].rstrip()
        return self._record(stamp, level, tag, line[found.end() :], uid=found[1], pid=found[2])

    def _process(self, line: bytes) -> Record | None:
        found = _PROCESS.match(line)
        if found is None or line[-1:] != b")":
            return None
        tag_at = line.rfind(b"  (")
        if tag_at < found.end():
            return None
        level, uid, pid = found.groups()
        # The one layout that has something after the message: the colour ends before it.
        message = line[found.end() : tag_at].removesuffix(_COLOR_END)
        return self._record(None, level, line[tag_at + 3 : -1], message, uid=uid, pid=pid)

    def _thread(self, line: bytes) -> Record | None:
        found = _THREAD.match(line)
        if found is None:
            return None
        level, uid, pid, tid, message = found.groups()
        if uid is None and not pid.isdigit():
            return None
        return self._record(None, level, b"", message, uid=uid, pid=pid, tid=tid)

    def _long(self, line: bytes) -> Record | None:
        found = _LONG.match(line)
        if found is None:
            return None
        stamp, uid, pid, tid, level, tag = found.groups()
        return self._record(stamp, level, tag.rstrip(), b"", uid=uid, pid=pid, tid=tid)

    def _studio_old(self, line: bytes) -> Record | None:
        found = _STUDIO_OLD.match(line)
        if found is None:
            return None
        stamp, pid, tid, process, level, rest = found.groups()
        split = _tag_and_message(rest)
        if split is None:
            return None
        return self._record(stamp, level, *split, pid=pid, tid=tid, process=process)

    def _studio_new(self, line: bytes) -> Record | None:
        found = _STUDIO_NEW.match(line, 0, _STUDIO_HEAD_BYTES)
        if found is None:
            return None
        stamp, pid, tid, tag, process, level = found.groups()
        message = line[found.end() :]
        return self._record(stamp, level, tag or b"", message, pid=pid, tid=tid, process=process)

    def _compact(self, line: bytes) -> Record | None:
        found = _STUDIO_COMPACT.match(line)
        return self._record(None, found[2], b"", found[3]) if found else None

    def _record(
        self,
        stamp: bytes | None,
        level: bytes,
        tag: bytes,
        message: bytes,
        *,
        uid: bytes | None = None,
        pid: bytes | None = None,
        tid: bytes | None = None,
        process: bytes | None = None,
    ) -> Record:
        user: int | str | None = None
        if uid is not None:
            user = int(uid) if uid.isdigit() else uid.decode("utf-8", "replace")
        return Record(
            self._clock.time_ns(stamp) if stamp is not None else None,
            self._buffer,
            user,
            int(pid) if pid is not None else None,
            int(tid, 0) if tid is not None and tid[:2] == b"0x" else int(tid) if tid is not None else None,
            LEVELS.get(level.decode(), 0),
            tag,
            message,
            _process(process),
        )


def _process(name: bytes | None) -> str | None:
    """Android Studio writes ? or pid-N for a process that it does not know."""
    if name is None or name == b"?" or (name[:4] == b"pid-" and name[4:].isdigit()):
        return None
    return name.decode("utf-8", "replace")


def _tag_and_message(text: bytes) -> tuple[bytes, bytes] | None:
    """At the first ": ". A tag that holds one cannot be told from it."""
    tag, colon, message = text.partition(b": ")
    if not colon:
        # Editors take the blank at the end of an empty message away.
        if text[-1:] != b":":
            return None
        tag, message = text[:-1], b""
    return tag.rstrip(b" "), message
