"""Which records belong to a process or an app: by pid, by name across restarts, its crash reports too."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from time import monotonic

from devkit.device.quoting import quote_word
from devkit.logcat.record import Record

# ActivityManager: "Start proc 12345:com.example.chat/u0a123 for …"; Android 6: the same.
_STARTED = re.compile(rb"Start proc (\d+):([^/\s]+)/")
# crash_dump's report, from the second line on: "pid: 12345, tid: 12361, name: x  >>> ./llm_demo <<<".
_CRASHED = re.compile(rb"pid: (\d+), tid: \d+, name: .*>>> (.*?) <<<")
_DUMPER_TAGS = (b"DEBUG", b"crash_dump64", b"crash_dump32")
_MAX_HELD = 64
# A name is asked for again after that: numbers of processes are used again.
_NAME_LASTS_S = 120.0
_MAX_NAMES = 20_000
_MAX_DUMPERS = 256

AskNames = Callable[[Sequence[int]], Mapping[int, str]]


class ProcessFilter:
    """Lets through what wanted processes write, and what the system reports about their crashes.

    Args:
        pids: wanted whatever they are called.
        names: of programs or apps; a process of an app (com.example:remote) belongs to it.
        uids: users of wanted apps: theirs are known also when a process has ended before it could be asked.
        ask: names of running processes; called at most once a batch, only for pids that are new.
    """

    def __init__(
        self,
        *,
        pids: Iterable[int] = (),
        names: Iterable[str] = (),
        uids: Iterable[int] = (),
        ask: AskNames | None = None,
    ) -> None:
        self._uids = frozenset(uids)
        self._pids = frozenset(pids)
        self._wanted = frozenset(names)
        self._ask = ask
        self._known: dict[int, tuple[str, float]] = {}
        self._dumpers: dict[int, bool] = {}
        self._held: dict[int, list[Record]] = {}
        self.current: set[int] = set()

    def pick(self, records: Sequence[Record]) -> list[Record]:
        """The records of wanted processes, in their order."""
        self._learn(records)
        picked: list[Record] = []
        for record in records:
            pid = record[3]
            if pid is None:
                continue
            if record[6] in _DUMPER_TAGS and not self._is_wanted(pid, record):
                self._dumped(pid, record, picked)
            elif self._is_wanted(pid, record):
                picked.append(record)
        return picked

    def _is_wanted(self, pid: int, record: Record) -> bool:
        if pid in self._pids or (record[2] is not None and record[2] in self._uids):
            return True
        if not self._wanted:
            return False
        if record[8] is not None:
            return self._matches(record[8])
        known = self._known.get(pid)
        return known is not None and self._matches(known[0])

    def _matches(self, name: str) -> bool:
        if name in self._wanted:
            return True
        base = name.rpartition("/")[2]
        return base in self._wanted or name.partition(":")[0] in self._wanted

    def _learn(self, records: Sequence[Record]) -> None:
        """Names of processes that have not been seen before."""
        if not self._wanted:
            return
        now = monotonic()
        known = self._known
        for record in records:
            if record[6] == b"ActivityManager" and (found := _STARTED.search(record[7])):
                known[int(found[1])] = (found[2].decode("utf-8", "replace"), now)
        if self._ask is None:
            return
        new = [
            pid
            for pid in {r[3] for r in records if r[3] is not None and r[8] is None}
            if pid not in known or now - known[pid][1] > _NAME_LASTS_S
        ]
        if not new:
            return
        if len(known) > _MAX_NAMES:
            known.clear()
        names = self._ask(sorted(new))
        for pid in new:
            # One that has ended keeps the name it had.
            name = names.get(pid) or (known[pid][0] if pid in known else "")
            known[pid] = (name, now)
            if name and self._matches(name):
                self.current.add(pid)

    def _dumped(self, dumper: int, record: Record, picked: list[Record]) -> None:
        """Lines of a crash report wait until one says whose it is."""
        found = _CRASHED.search(record[7])
        if found is not None:
            name = found[2].decode("utf-8", "replace").split(" ")[0]
            mine = int(found[1]) in self._pids or (bool(self._wanted) and self._matches(name))
            if len(self._dumpers) > _MAX_DUMPERS:
                self._dumpers.clear()
                self._held.clear()
            self._dumpers[dumper] = mine
            held = self._held.pop(dumper, [])
            if mine:
                picked += [*held, record]
            return
        verdict = self._dumpers.get(dumper)
        if verdict is None:
            held = self._held.setdefault(dumper, [])
            if len(held) < _MAX_HELD:
                held.append(record)
        elif verdict:
            picked.append(record)


# One program for all of them: starting one for each takes seconds on a phone. `head` with several files names
# each one, in toybox, busybox and coreutils alike.
_NAMED_PIDS = 64
_PACKAGE = re.compile(r"^package:(\S+) uid:(\d+(?:,\d+)*)", re.MULTILINE)
_CMDLINE = re.compile(rb"(?:^|\n)==> /proc/(\d+)/cmdline <==\n")


def names_script(pids: Sequence[int]) -> str:
    """A command for the phone's shell that prints what processes are called."""
    files = " ".join(f"/proc/{pid}/cmdline" for pid in pids)
    if len(pids) > _NAMED_PIDS:
        files = "/proc/[0-9]*/cmdline"
    return f"head -c 200 {files} /dev/null 2>/dev/null; true"


def packages_script(names: Sequence[str]) -> str:
    """A command that prints the users of apps (Android 8 and later; others print nothing)."""
    return "; ".join(f"pm list packages -U {quote_word(name)} 2>/dev/null" for name in names)


def parse_packages(text: str, names: Iterable[str]) -> set[int]:
    """The output of `packages_script`: lines like "package:com.example.chat uid:10123"."""
    wanted = set(names)
    return {int(uid) for name, uids in _PACKAGE.findall(text) if name in wanted for uid in uids.split(",")}


def parse_names(data: bytes) -> dict[int, str]:
    """The output of `names_script`: pid → first word of its command line."""
    starts = list(_CMDLINE.finditer(data))
    names: dict[int, str] = {}
    for start, following in zip(starts, [*starts[1:], None], strict=False):
        body = data[start.end() : following.start() if following else len(data)]
        word = body.partition(b"\0")[0].strip()
        if word:
            names[int(start[1])] = word.decode("utf-8", "replace")
    return names
