"""Lines of a log without the header that logcat, or Android Studio's copy of it, put before each.

Every `-v` layout of logcat (system/logging, logprint.cpp) and both generations of Studio's text. What has no
header is a record as it stands: nothing is lost.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

# Nothing that is read here is longer; the end of a longer line is of no use for a crash.
_MOST_CHARS = 8192

_WHEN = r"(?:(?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d\.\d{3,9}(?: [+-]\d{4})?| {0,16}\d{1,12}\.\d{3,9})"
_LEVEL = r"(?P<level>[VDIWEFA])"
_THREADTIME = re.compile(
    rf"(?P<when>{_WHEN}) {{1,9}}(?:\w{{1,32}}(?: {{1,9}}|: ?))??"
    rf"(?P<pid>\d{{1,9}}) {{1,9}}(?P<tid>\d{{1,9}}) {_LEVEL} "
)
_TIME = re.compile(rf"(?P<when>{_WHEN}) {{1,9}}{_LEVEL}/")
_BRIEF = re.compile(rf"{_LEVEL}/")
_PROCESS = re.compile(rf"{_LEVEL}\( {{0,9}}(?P<pid>\d{{1,9}})(?:: {{0,9}}(?P<tid>\w{{1,18}}))?\) ?")
_LONG = re.compile(
    rf"\[ (?P<when>{_WHEN}) {{1,9}}(?:\w{{1,32}}: {{0,9}})??"
    rf"(?P<pid>\d{{1,9}}): {{0,9}}(?P<tid>\d{{1,9}}) {_LEVEL}/"
    r"(?P<tag>.{0,200}?) {0,40}\]$"
)
_STUDIO_OLD = re.compile(
    rf"(?P<when>{_WHEN}) {{1,9}}(?P<pid>\d{{1,9}})-(?P<tid>\d{{1,9}})/(?P<package>\S{{1,200}}) {_LEVEL}/"
)
_STUDIO_NEW = re.compile(
    rf"(?P<when>{_WHEN}) {{1,9}}(?P<pid>\d{{1,9}})-(?P<tid>\d{{1,9}}) {{1,9}}"
    rf"(?P<tag>\S.{{0,120}}?)? {{1,200}}(?P<package>\S{{1,200}}) {{1,200}}{_LEVEL} {{1,2}}"
)
_PID_BEHIND_TAG = re.compile(r"\( {0,9}(\d{1,9})\): ?")
_TAG_BEHIND_TEXT = re.compile(r"  \((?P<tag>[^()]{0,200})\) ?$")
_MARKER = re.compile(
    r"-{5,} ?(?P<what>(?:beginning of|switch to) \w+|PROCESS (?:STARTED|ENDED) .*?)(?: -{5,})?$"
)
_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
# Studio indents the further lines of a record to the column of its text.
_CONTINUATION = " " * 60


class Record(NamedTuple):
    """One line. `pid`, `tid` and `tag` are None where the layout does not say them; level A reads as F.

    `number` counts the lines of the input from 1. `marker` is what logcat or Studio say about the log itself.
    """

    number: int
    text: str
    pid: int | None = None
    tid: int | None = None
    level: str | None = None
    tag: str | None = None
    when: str | None = None
    package: str | None = None
    marker: str | None = None


# Its own __new__ looks at defaults, which takes as long as all else.
_new = tuple.__new__


def read_records(lines: Iterable[str]) -> Iterator[Record]:
    """Each line as a record; lines below a header of `-v long`, or indented by Studio, keep that header."""
    above: Record | None = None
    studio: Record | None = None
    threadtime = _THREADTIME.match
    for number, line in enumerate(lines, 1):
        # Nearly all lines of nearly all logs: without the detours of the others.
        if "0" <= line[:1] <= "9" and (head := threadtime(line)) and "\x1b" not in line and "\0" not in line:
            above = studio = None
            when, pid, tid, level = head.groups()
            tag, colon, text = line[head.end() : _MOST_CHARS].rstrip("\r\n").partition(": ")
            if not colon:
                tag, text = _tag_and_text(tag)
            if level == "A":
                level = "F"
            yield _new(Record, (number, text, int(pid), int(tid), level, tag.strip(), when, None, None))
            continue
        line = line.rstrip("\r\n")[:_MOST_CHARS]
        if "\x1b" in line:
            line = _ESCAPES.sub("", line)
        if "\0" in line:
            line = line.replace("\0", "")
        if line.startswith("[ ") and (head := _LONG.match(line)):
            above = _record(number, head, head["tag"], "")
            continue
        if line.startswith("-----") and (marker := _MARKER.match(line)):
            above = studio = None
            yield Record(number, "", marker=marker["what"])
            continue
        record = _read(line, number)
        if record.level is not None:
            above = None
            studio = record if record.package else None
        elif studio is not None and line.startswith(_CONTINUATION):
            record = _under(studio, number, line.lstrip())
        elif above is not None:
            if not line:
                continue  # logcat puts one behind each record of this layout
            record = _under(above, number, line)
        yield record


def _read(line: str, number: int) -> Record:
    first = line[:1]
    if first.isdigit() or first == " ":
        if head := _THREADTIME.match(line):
            when, pid, tid, level = head.groups()
            tag, text = _tag_and_text(line[head.end() :])
            return Record(number, text, int(pid), int(tid), "F" if level == "A" else level, tag, when)
        if head := _STUDIO_OLD.match(line):
            return _with_tag(number, head, line[head.end() :])
        if head := _STUDIO_NEW.match(line):
            return _record(number, head, (head["tag"] or "").strip(), line[head.end() :])
        if head := _TIME.match(line):
            return _brief(number, head, line[head.end() :]) or Record(number, line)
    elif first and first in "VDIWEFA":
        if head := _BRIEF.match(line):
            return _brief(number, head, line[head.end() :]) or Record(number, line)
        if head := _PROCESS.match(line):
            text = line[head.end() :]
            behind = _TAG_BEHIND_TEXT.search(text[-220:])
            if head["tid"] is None and behind is not None:
                text = text[: len(text) - len(behind[0])]
            return _record(number, head, behind["tag"] if behind else None, text)
    return Record(number, line)


def _with_tag(number: int, head: re.Match[str], rest: str) -> Record:
    tag, text = _tag_and_text(rest)
    return _record(number, head, tag, text)


def _tag_and_text(rest: str) -> tuple[str, str]:
    tag, colon, text = rest.partition(": ")
    if not colon and rest.endswith(":"):
        tag, text = rest[:-1], ""  # editors cut blanks off the ends of lines
    elif not colon:
        tag, text = "", rest
    return tag.strip(), text


def _brief(number: int, head: re.Match[str], rest: str) -> Record | None:
    if behind := _PID_BEHIND_TAG.search(rest):
        tag = rest[: behind.start()]
        if ": " not in tag:
            return _record(number, head, tag.strip(), rest[behind.end() :], int(behind[1]))
    tag, colon, text = rest.partition(": ")
    if not colon and rest.endswith(":"):
        tag, colon, text = rest[:-1], ":", ""
    # `I/O error: ...` is no header: tags with blanks come with a pid in practice.
    if not colon or " " in tag.strip():
        return None
    return _record(number, head, tag.strip(), text)


def _record(number: int, head: re.Match[str], tag: str | None, text: str, pid: int | None = None) -> Record:
    named = head.groupdict()
    pid = int(named["pid"]) if named.get("pid") else pid
    tid = named.get("tid")
    package = named.get("package")
    return Record(
        number,
        text,
        pid=pid,
        tid=int(tid) if tid and tid.isascii() and tid.isdigit() else None,
        level="F" if named["level"] == "A" else named["level"],
        tag=tag,
        when=named.get("when"),
        package=package,
    )


def _under(head: Record, number: int, text: str) -> Record:
    return Record(
        number, text, head.pid, head.tid, head.level, head.tag, head.when, head.package
    )  # fmt: skip
