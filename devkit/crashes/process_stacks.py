"""What all threads of a process that hangs are doing: `debuggerd -b PID`, and the stacks of an ANR.

Layouts: system/core/debuggerd/libdebuggerd/backtrace.cpp; art/runtime/thread.cc.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from devkit.crashes.frames import parse_frame
from devkit.crashes.model import BACKTRACE, DEBUGGERD, THREADS, Crash, Stack

_BEGIN = re.compile(r"-{5} pid (?P<pid>\d{1,9}) at (?P<when>[\d: .+-]{10,40}?) -{5}$")
_COMMAND = "Cmd line: "
# `"worker" sysTid=12361`, and ART's `"main" prio=5 tid=1 Native`.
_THREAD = re.compile(
    r"\"(?P<name>[^\"]{0,200})\"(?: sysTid=(?P<tid>\d{1,9})|(?: daemon)? prio=\d{1,3} tid=\d{1,9} \w{1,30})"
)
_TID = re.compile(r"  \| sysTid=(?P<tid>\d{1,9}) ")
_MOST_THREADS = 1024
_MOST_FRAMES = 256


class ProcessStacks:
    """Takes the lines of a text; hands each process on when its first thread comes.

    Args:
        found: is given each; the reader goes on filling it.
    """

    def __init__(self, found: Callable[[Crash], None]) -> None:
        self._found = found
        self._crash: Crash | None = None
        self._stack: Stack | None = None
        self._name = ""

    def line(self, text: str, number: int) -> bool:
        """Take a line; whether it belongs to such stacks."""
        if text.startswith("----- pid ") and (begin := _BEGIN.match(text)):
            self._crash = Crash(BACKTRACE, number, pid=int(begin["pid"]), what=THREADS, when=begin["when"])
            self._stack = None
            return True
        crash = self._crash
        if crash is None:
            return False
        if text.startswith("----- end "):
            self._crash = None
            return True
        if text.startswith(_COMMAND):
            crash.process = text[len(_COMMAND) :].strip()[:500] or None
            return True
        if text.startswith('"') and (thread := _THREAD.match(text)):
            self._begin(crash, thread["name"], thread["tid"])
            return True
        if self._stack is not None and (tid := _TID.match(text)):
            self._stack.title = f"thread {tid['tid']} ({self._name})"
            return True
        frame = parse_frame(text) if "#" in text else None
        if frame is None or frame.origin != DEBUGGERD or self._stack is None:
            return False
        if len(self._stack.frames) < _MOST_FRAMES:
            self._stack.frames.append(frame)
        return True

    def _begin(self, crash: Crash, name: str, tid: str | None) -> None:
        if not crash.stacks:
            self._found(crash)
        self._name = name
        self._stack = Stack(f"thread {tid} ({name})" if tid else f"thread {name}")
        if len(crash.stacks) < _MOST_THREADS:
            crash.stacks.append(self._stack)
