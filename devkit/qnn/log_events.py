"""What a log says about an engine: QNN's errors with their first cause, a fall back to the CPU, heat, the
way to the DSP, crashes and kills. Records are taken as they come, so that a live log can be watched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib import resources
from typing import Any

from devkit.crashes.endings import fatal_line, memory_kill, shell_word
from devkit.crashes.summary import headline
from devkit.errors import UsageError
from devkit.logcat.record import Record
from devkit.qnn.explain import sentence
from devkit.qnn.knowledge import Cause, causes_of, look_up
from devkit.results import FAILED, NOTE, WARNING, Finding
from devkit.results.findings import Finder, fill, with_app

# An error of the same process after so long is another failure, not the end of the first.
_CHAIN_NS = 10 * 10**9
MAX_EVENTS = 500
_MAX_FOLLOWING = 20
_MAX_LINE = 400
_DUMPED = re.compile(
    r"pid: (?P<pid>\d{1,9}), tid: (?P<tid>\d{1,9}), name: .{0,64}>>> (?P<name>.{1,200}?) <<<"
)
_STARTED = re.compile(r"Start proc (?P<pid>\d{1,9}):(?P<name>[^/\s]{1,200})/")
_TO_CPU = frozenset({"backend-fell-back", "backend-not-made", "qnn-op-unsupported", "opencl-error"})
_LINKER = frozenset(
    {
        "namespace",
        "missing-symbol",
        "missing-library",
        "wrong-abi",
        "bad-elf",
        "page-size",
        "text-relocations",
    }
)
# A phone's log is full of other programs' libraries.
_ENGINES = re.compile(r"MNN|[Qq]nn|llm|OpenCL|[ac]dsprpc", re.ASCII)
_TOLD_ELSEWHERE = frozenset({"sanitizer"})


@dataclass
class Event:
    """One thing that happened.

    Attributes:
        category: "qnn", "cpu", "thermal", "dsp", "killed", "crash", "load" or "engine".
        time_ns, last_ns: nanoseconds since 1970 of the first and the last such line; None: not known.
        process: the name of the process, where the log tells it.
        count: how often it was logged.
        following: lines of the same failure that only follow from it.
    """

    kind: str
    category: str
    severity: str
    meaning: str
    cause: str = ""
    next: tuple[str, ...] = ()
    causes: tuple[Cause, ...] = ()
    time_ns: int | None = None
    last_ns: int | None = None
    pid: int | None = None
    process: str | None = None
    tag: str = ""
    line: str = ""
    values: Mapping[str, str] = field(default_factory=dict)
    count: int = 1
    following: list[str] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        """For --json."""
        return {
            "kind": self.kind,
            "category": self.category,
            "severity": self.severity,
            "time": _seconds(self.time_ns),
            "last_time": _seconds(self.last_ns),
            "pid": self.pid,
            "process": self.process,
            "tag": self.tag or None,
            "meaning": self.meaning,
            "cause": self.cause,
            "next": list(self.next),
            "causes": [cause.as_dict() for cause in self.causes],
            "line": self.line,
            "values": dict(self.values),
            "count": self.count,
            "following": self.following,
        }


class EventReader:
    """Collects the events of a log. Time is linear in its length, memory bounded.

    Attributes:
        others_killed: processes that were killed for memory in the background, which is nothing unusual.
        left_out: events beyond the limit.
    """

    def __init__(self) -> None:
        self._events: list[Event] = []
        self._by_key: dict[tuple[object, ...], Event] = {}
        self._chains: dict[int | None, Event] = {}
        self._names: dict[int, str] = {}
        self.others_killed = 0
        self.left_out = 0

    def take(self, record: Record) -> list[Event]:
        """The events that begin with this record; none with most."""
        text = record.message.decode("utf-8", "replace")
        if record.process and record.pid is not None:
            self._name(record.pid, record.process)
        lines = text.split("\n") if "\n" in text else (text,)
        found = [event for line in lines for event in self._line(line, record)]
        return [event for event in found if self._keep(event, record)]

    def take_line(self, data: bytes) -> list[Event]:
        """As `take`, for a line that has no logcat header: of a program's own output."""
        return self.take(Record(None, "", None, None, None, 0, b"", data))

    def events(self) -> list[Event]:
        """All of them, in the order of the log."""
        return list(self._events)

    @property
    def failed(self) -> bool:
        """Whether one of them is a failure."""
        return any(event.severity == FAILED for event in self._events)

    def _line(self, text: str, record: Record) -> Iterable[Event]:
        if "proc " in text and record.tag == b"ActivityManager" and (started := _STARTED.search(text)):
            self._name(int(started["pid"]), started["name"])
        if (fatal := fatal_line(text, 0)) is not None:
            yield self._crash(fatal.pid or record.pid, fatal.process, headline(fatal))
        elif ">>> " in text and (dumped := _DUMPED.search(text)):
            name = dumped["name"].split(" ")[0]
            yield self._crash(int(dumped["pid"]), name, f"a crash of {name}, pid {dumped['pid']}")
        elif (kill := memory_kill(text, 0)) is not None:
            if kill[1]:
                self._name(kill[0].pid, kill[0].process)
                yield Event("killed-for-memory", "killed", FAILED, headline(kill[0]),
                            "the phone had too little memory left for it", _FREE_MEMORY,
                            pid=kill[0].pid, values={"process": kill[0].process or ""})  # fmt: skip
            else:
                self.others_killed += 1
        elif not record.level and (word := shell_word(text, 0)) is not None:
            yield Event("shell-word", "killed" if word.signal == "SIGKILL" else "crash", FAILED,
                        f"{word.process or 'a program'} ended by {word.signal}",
                        values={"process": word.process or ""})  # fmt: skip
        elif (finding := _known(text)) is not None:
            yield from self._of_finding(finding)
        else:
            yield from _of_table(text, record.tag)

    def _crash(self, pid: int | None, name: str | None, what: str) -> Event:
        self._name(pid, name)
        return Event("crash", "crash", FAILED, what, next=_SYMBOLIZE, pid=pid, values={"pid": str(pid)})

    def _of_finding(self, finding: Finding) -> Iterable[Event]:
        if finding.kind in _TOLD_ELSEWHERE or finding.severity == NOTE:
            return
        if finding.kind in _LINKER and not (finding.severity == FAILED or _ENGINES.search(finding.line)):
            return
        if finding.kind in _TO_CPU:
            category = "cpu"
        elif finding.kind.startswith("qnn-"):
            category = "qnn"
        else:
            category = "load" if finding.kind in _LINKER or finding.kind == "not-linked" else "engine"
        finding = with_app(finding, "APP")
        yield Event(
            finding.kind, category, finding.severity, sentence(finding), finding.cause, finding.next,
            causes_of(finding.kind, finding.values), values=finding.values,
        )  # fmt: skip

    def _keep(self, event: Event, record: Record) -> bool:
        """Whether it is a new one: not the end of a chain, nor the same again."""
        event.time_ns = event.last_ns = record.time_ns
        event.pid = event.pid if event.pid is not None else record.pid
        event.process = self._names.get(event.pid) if event.pid is not None else None
        event.tag = event.tag or record.tag.decode("utf-8", "replace")
        event.line = record.message.decode("utf-8", "replace").strip()[:_MAX_LINE]
        if event.category in ("qnn", "dsp") and self._follows(event):
            return False
        key = (event.kind, event.pid, *sorted(event.values.items()))
        known = self._by_key.get(key)
        if known is not None:
            known.count += 1
            known.last_ns = event.time_ns or known.last_ns
            return False
        if len(self._events) >= MAX_EVENTS:
            self.left_out += 1
            return False
        self._by_key[key] = event
        self._events.append(event)
        return True

    def _follows(self, event: Event) -> bool:
        """QNN and the DSP report one failure with many messages: behind the first all others only follow."""
        chain = self._chains.get(event.pid)
        if chain is not None and not _apart(chain.last_ns, event.time_ns):
            chain.last_ns = event.time_ns or chain.last_ns
            if event.line != chain.line and len(chain.following) < _MAX_FOLLOWING:
                chain.following.append(event.line)
            elif event.line == chain.line:
                chain.count += 1
            return True
        if event.severity == FAILED:
            self._chains[event.pid] = event
            # The same error again, later, is another failure.
            self._by_key.pop((event.kind, event.pid, *sorted(event.values.items())), None)
        return False

    def _name(self, pid: int | None, name: str | None) -> None:
        if pid is not None and name:
            if len(self._names) > MAX_EVENTS * 20:
                self._names.clear()
            self._names[pid] = name


_FREE_MEMORY = ("a smaller model or context; close other apps; devkit device info shows the memory",)
_SYMBOLIZE = ("devkit symbolize FILE (a saved log) shows the lines of source",)


def _apart(before: int | None, after: int | None) -> bool:
    return before is not None and after is not None and after - before > _CHAIN_NS


def _known(text: str) -> Finding | None:
    finder = Finder()
    finder.line(text, 0, free_text=False)
    return next(iter(finder.found()), None)


@dataclass(frozen=True)
class _Entry:
    kind: str
    category: str
    tags: frozenset[bytes]
    has: tuple[str, ...]
    pattern: re.Pattern[str]
    severity: str
    group: tuple[str, ...]
    meaning: str
    cause: str
    next: tuple[str, ...]


def _of_table(text: str, tag: bytes) -> Iterable[Event]:
    lowered = text.lower()
    for entry in _table():
        if entry.tags and tag not in entry.tags:
            continue
        if not any(word in lowered for word in entry.has) or not (found := entry.pattern.search(text)):
            continue
        values = {name: value or "" for name, value in found.groupdict().items()}
        cause, causes = entry.cause, tuple[Cause, ...]()
        if "code" in values:
            cause, causes = _explained(values["code"])
        yield Event(
            entry.kind, entry.category, entry.severity, fill(entry.meaning, values), cause,
            entry.next, causes, values={name: values[name] for name in entry.group},
        )  # fmt: skip
        return


def _explained(code: str) -> tuple[str, tuple[Cause, ...]]:
    try:
        known = look_up(code)
    except UsageError:
        return "", ()
    return (f"{known.name}: {known.text}" if known.name else f"an error of {known.component}"), known.causes


@lru_cache(maxsize=1)
def _table() -> tuple[_Entry, ...]:
    import yaml

    data = yaml.safe_load(resources.files("devkit.qnn").joinpath("log_events.yaml").read_text("utf-8"))
    for row in data["events"]:
        if row["severity"] not in (FAILED, WARNING, NOTE):
            raise ValueError(f"log_events.yaml: {row['kind']}: no such severity")
    return tuple(
        _Entry(
            row["kind"], row["category"], frozenset(tag.encode() for tag in row.get("tags", ())),
            tuple(row["has"]), re.compile(row["pattern"]), row["severity"], tuple(row["group"]),
            row["meaning"], row.get("cause", ""), tuple(row.get("next", ())),
        )
        for row in data["events"]
    )  # fmt: skip


def _seconds(time_ns: int | None) -> str | None:
    return None if time_ns is None else f"{time_ns // 10**9}.{time_ns % 10**9:09d}"
