"""A text with crashes in it, read once from top to bottom: several dumps at a time are told apart."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import TypeVar

from devkit.crashes.endings import fatal_line, last_words, memory_kill, shell_word
from devkit.crashes.frames import parse_frame
from devkit.crashes.headers import Record, read_records
from devkit.crashes.mappings import Mappings
from devkit.crashes.model import BACKTRACE, BARE, GLIBC, KILLED, LLDB, SIGNAL, Crash, Reading, Stack
from devkit.crashes.process_stacks import ProcessStacks
from devkit.crashes.profiles import ProfileReader
from devkit.crashes.sanitizers import SanitizerReader
from devkit.crashes.tombstones import TombstoneReader

# debuggerd's tag, and that of the process that dumps.
_DUMP_TAGS = {"DEBUG", "crash_dump64", "crash_dump32", "debuggerd", "debuggerd64"}
_WRITTEN = re.compile(r"Tombstone written to: (\S{1,200})")
_CHATTY = re.compile(r"uid=\d{1,9}\b.{0,200} (?P<what>identical|expire) (?P<count>\d{1,9}) lines?")
_STOP_REASON = re.compile(
    r"thread #\d{1,9}(?:, name = '(?P<thread>[^']{1,64})')?"
    r".{0,200}?stop reason = (?:signal )?(?P<reason>.{1,200})"
)
_FAULT = re.compile(r"fault address[:=] ?(0x[0-9a-fA-F]{1,16})")
# What libstdc++ prints below the name of an exception that nobody caught.
_WHAT = "  what():  "
# Ids are used again; and a log of days must not fill the memory.
_MOST_READERS = 4096
_MOST_CRASHES = 10_000
_MOST_FRAMES = 1024
_FEWEST_ADDRESSES = 3
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


def read_crashes(lines: Iterable[str], also: Callable[[Record], None] | None = None) -> Reading:
    """All crashes of a text, in the order in which they begin. Time is linear in its length.

    Args:
        also: is given each record too, for who looks for more in the same text.
    """
    reader = CrashReader()
    for record in read_records(lines):
        reader.take(record)
        if also is not None:
            also(record)
    return reader.finish()


class CrashReader:
    """Takes records one by one: `read_crashes`, for texts that are still being written."""

    def __init__(self) -> None:
        self._reading = Reading()
        self._tombstones: dict[int | None, TombstoneReader] = {}
        self._sanitizers: dict[int | None, SanitizerReader] = {}
        self._fatal: dict[tuple[int | None, int | None], Crash] = {}
        self._dumped: dict[tuple[int | None, int | None], None] = {}
        self._words: dict[int | None, str] = {}
        self._kills: list[tuple[Crash, bool]] = []
        self._shell: list[Crash] = []
        self._bare: dict[int | None, Crash] = {}
        self._stop: tuple[str | None, str] | None = None
        self._maps: dict[int | None, Mappings] = {}
        self._waiting: list[Crash] = []
        self._profile = ProfileReader(self._add)
        self._process_stacks = ProcessStacks(self._add)

    def take(self, record: Record) -> bool:
        """Take the next record; whether it is part of a crash."""
        self._reading.lines = record.number
        if record.marker is not None:
            return False
        text = record.text
        if record.level is None and (
            self._profile.line(text, record.number) or self._process_stacks.line(text, record.number)
        ):
            return True
        if record.tag == "chatty" and (chatty := _CHATTY.search(text)):
            if chatty["what"] == "identical":
                self._reading.folded += int(chatty["count"])
            else:
                self._reading.expired += int(chatty["count"])
            return False
        if record.tag is None or record.tag in _DUMP_TAGS:
            reader = self._tombstones.get(record.pid)
            if reader is None:
                _make_room(self._tombstones)
                reader = self._tombstones[record.pid] = TombstoneReader(record.pid, self._found)
            if reader.line(text, record.number, record.when):
                self._bare.pop(record.pid, None)
                return True
        sanitizer = self._sanitizers.get(record.pid)
        if sanitizer is None and ("Sanitizer: " in text or "runtime error: " in text):
            _make_room(self._sanitizers)
            sanitizer = self._sanitizers[record.pid] = SanitizerReader(self._found)
        if sanitizer is not None and sanitizer.line(text, record.number, record.when):
            self._bare.pop(record.pid, None)
            return True
        return self._rest(record, text)

    @property
    def found(self) -> list[Crash]:
        """The crashes so far; the last ones may still grow."""
        return self._reading.crashes

    def last_words(self) -> str | None:
        """What a process without a known pid said last before it aborted itself."""
        return self._words.get(None)

    def _rest(self, record: Record, text: str) -> bool:
        if fatal := fatal_line(text, record.number):
            fatal.pid = fatal.pid or record.pid
            fatal.tid = fatal.tid or record.tid
            fatal.when = record.when
            if (fatal.pid, fatal.tid) in self._dumped:
                return True  # the log at the end of its own tombstone
            _make_room(self._fatal)
            self._fatal[fatal.pid, fatal.tid] = fatal
            self._add(fatal)
        elif kill := memory_kill(text, record.number):
            kill[0].when = record.when
            if len(self._kills) < _MOST_CRASHES:
                self._kills.append(kill)
        elif words := last_words(text):
            _make_room(self._words)
            self._words[record.pid] = words
        elif record.pid in self._words and text.startswith(_WHAT):
            self._words[record.pid] += f": {text[len(_WHAT) :].strip()}"
        elif record.tag == "tombstoned" or "Tombstone written" in text:
            if self._waiting and (written := _WRITTEN.search(text)):
                self._waiting.pop(0).tombstone = written[1]
        elif record.level is None and (word := shell_word(text, record.number)):
            words = self._words.pop(record.pid, None)
            if word.signal == "SIGABRT":
                word.abort_message = words
            self._shell.append(word)
        else:
            return not self._map_line(record.pid, text) and self._bare_stack(record, text)
        return True

    def _map_line(self, pid: int | None, text: str) -> bool:
        if "xp " not in text and "xs " not in text:
            return False
        maps = self._maps.get(pid)
        if maps is None:
            maps = Mappings()
            if maps.line(text):
                _make_room(self._maps)
                self._maps[pid] = maps
                return True
            return False
        return maps.line(text)

    def _bare_stack(self, record: Record, text: str) -> bool:
        """Frames that no report stands around: of a program's own handler, LLDB's bt, cut dumps."""
        if "stop reason" in text and (stop := _STOP_REASON.search(text)):
            self._stop = (stop["thread"], stop["reason"])
            self._bare.pop(record.pid, None)
            return True
        frame = parse_frame(text) if "0x" in text or "#" in text else None
        if frame is None:
            bare = self._bare.get(record.pid)
            if bare is not None and text.strip() and bare.tid == record.tid:
                del self._bare[record.pid]  # the thread has gone on to something else
            return False
        bare = self._bare.get(record.pid)
        if bare is None or (frame.number == 0 and frame.origin != GLIBC):
            _make_room(self._bare)
            bare = self._bare[record.pid] = Crash(
                BACKTRACE, record.number, pid=record.pid, tid=record.tid, dumper=record.pid, when=record.when
            )
            bare.stacks.append(Stack("backtrace"))
            if frame.origin == LLDB and self._stop:
                self._name_stop(bare, *self._stop)
            self._stop = None
            self._add(bare)
        if len(bare.frames) < _MOST_FRAMES:
            bare.frames.append(frame)
        return True

    @staticmethod
    def _name_stop(crash: Crash, thread: str | None, reason: str) -> None:
        if found := re.match(r"SIG[A-Z0-9]{2,8}", reason):
            crash.kind, crash.signal = SIGNAL, found[0]
        if thread:
            crash.thread = thread
        if fault := _FAULT.search(reason):
            crash.fault_address = hex(int(fault[1], 16))
        crash.details.append(f"stop reason: {reason.strip()}")

    def _found(self, crash: Crash) -> None:
        self._waiting.append(crash)
        del self._waiting[:-64]
        _make_room(self._dumped)
        self._dumped[crash.pid, crash.tid] = None
        # The line that announced it is the same crash.
        announced = self._fatal.pop((crash.pid, crash.tid), None)
        if announced is not None:
            self._forget(announced)
            crash.line = min(crash.line, announced.line)
            crash.signal, crash.code = announced.signal, announced.code
            crash.fault_address = announced.fault_address
            crash.abort_message = announced.abort_message
        self._add(crash)

    def _forget(self, crash: Crash) -> None:
        crashes = self._reading.crashes
        for at in range(len(crashes) - 1, max(len(crashes) - 256, 0) - 1, -1):
            if crashes[at] is crash:
                del crashes[at]
                return

    def _add(self, crash: Crash) -> None:
        words = self._words.pop(crash.pid, None) or (self._words.pop(None, None) if crash.pid else None)
        if words and crash.kind == SIGNAL:
            crash.abort_message = words
        if len(self._reading.crashes) < _MOST_CRASHES:
            self._reading.crashes.append(crash)

    def finish(self, *, others_too: bool = True) -> Reading:
        """All crashes.

        Args:
            others_too: where nothing else is there, a process killed for memory that need not be the user's
                is told.
        """
        for crash in self._reading.crashes:
            maps = self._maps.get(crash.dumper if crash.kind == BACKTRACE else crash.pid)
            if maps is not None:
                maps.explain(crash)
        crashes = [c for c in _without_repeats(self._reading.crashes) if not _is_noise(c)]
        own = [crash for crash, mine in self._kills if mine]
        if others_too and not own and not crashes and not self._shell:
            own = [crash for crash, _ in self._kills][-1:]
        others = [c for c, _ in self._kills if c not in own]
        for crash in own:
            crash.others = [_victim(c) for c in others[-20:]]
        crashes += own
        told = {crash.signal for crash in crashes}
        crashes += [word for word in self._shell if word.signal not in told]
        for crash in crashes:
            if not crash.others and (crash.kind != KILLED or crash.tool is None):
                crash.others = [_victim(c) for c in others[-5:]]
        crashes.sort(key=lambda crash: crash.line)
        self._reading.crashes = crashes
        return self._reading


def _is_noise(crash: Crash) -> bool:
    """One or two numbered addresses of nothing known are a list in somebody's log."""
    return (
        crash.kind == BACKTRACE
        and len(crash.frames) < _FEWEST_ADDRESSES
        and all(frame.origin == BARE and frame.module is None for frame in crash.frames)
    )


def _victim(crash: Crash) -> str:
    return f"{crash.process} (pid {crash.pid})" + (f", {crash.what}" if crash.what else "")


def _without_repeats(crashes: list[Crash]) -> list[Crash]:
    """The same dump is in the log twice where two buffers were saved, or log and tombstone put together."""
    kept: dict[object, Crash] = {}
    for number, crash in enumerate(crashes):
        frames = tuple((f.pc, f.module) for f in crash.frames)
        key: object = number
        if crash.kind == SIGNAL and crash.pid is not None and frames:
            key = (crash.pid, crash.tid, crash.signal, frames)
        kept.setdefault(key, crash)
    return list(kept.values())


def _make_room(table: dict[_Key, _Value]) -> None:
    if len(table) >= _MOST_READERS:
        del table[next(iter(table))]
