"""Reports of ASan, HWASan, UBSan, TSan, MSan and LSan, on a console or in the log.

Layouts: compiler-rt, lib/asan/asan_report.cpp, asan_errors.cpp, lib/hwasan/hwasan_report.cpp,
lib/ubsan/ubsan_diag.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from devkit.crashes.frames import parse_frame
from devkit.crashes.model import (
    ACCESS,
    ALLOCATED,
    CREATED,
    FREED,
    SANITIZED,
    SANITIZER,
    VARIABLE,
    Crash,
    Frame,
    Stack,
)
from devkit.symbols import Location

# `T3 (pool-3)`: threads that have a name show it.
_NUMBER = r"\d{1,9}(?: \([^()]{1,64}\))?"
_THREAD = "T" + _NUMBER
_START = re.compile(
    r"\s{0,8}==(?P<pid>\d{1,9})==\s?(?:ERROR|WARNING): (?P<tool>\w{1,30}Sanitizer)(?:: (?P<rest>.*))?$"
)
_PLACE = re.compile(r"(?P<file>.{1,1000}):(?P<line>\d{1,9}):(?P<column>\d{1,9})$")
_THREADS = re.compile(
    r"\s{0,8}WARNING: (?P<tool>ThreadSanitizer): (?P<rest>.{1,200}?) \(pid=(?P<pid>\d{1,9})\)"
)
_UNDEFINED = re.compile(r"(?P<place>.{1,1000}?): runtime error: (?P<rest>.*)$")
_ACCESS = re.compile(
    r"\s{0,8}(?P<access>(?:READ|WRITE) of size \d{1,20})\b.*?(?:thread (?P<thread>" + _THREAD + r"))?$"
)
_ADDRESS = re.compile(r" (?:on|on unknown) address (0x[0-9a-fA-F]{1,16})| on (0x[0-9a-fA-F]{1,16})")
# What the report calls the error, before the addresses begin.
_WHAT = re.compile(r"(?P<what>.{1,200}?)(?= on (?:unknown )?address| on 0x| at pc|: 0x|:? \(|$)")
_OWNER = re.compile(
    r"\s{0,8}(?P<what>previously allocated|allocated|freed|deallocated)\b"
    r"(?:.{0,200}\bby thread (?P<thread>T?" + _NUMBER + r"))?(?:.{0,40}\bhere)?:?$"
)
_LEAK = re.compile(r"\s{0,8}(?P<what>(?:Direct|Indirect) leak of .{1,200}) allocated from:$")
_CREATED = re.compile(
    r"\s{0,8}Thread (?P<thread>" + _THREAD + r").{0,200} created by (?P<by>" + _THREAD + r")?"
    r".{0,200}here:$"
)
_LOCATED = re.compile(
    r"\s{0,8}(?:\[?0x[0-9a-fA-F]{1,16}[^ ]{0,40}|Address 0x[0-9a-fA-F]{1,16}) is (?:located|a wild pointer)"
    r"|\s{0,8}\[\d{1,12}, \d{1,12}\).{0,500} <== Memory access"
)
_IN_STACK = re.compile(r" is located in stack of thread (" + _THREAD + ")")
_IN_THREAD = re.compile(r"\b(" + _THREAD + r")[):]?$")
# ThreadSanitizer's second stack.
_PREVIOUS = re.compile(
    r"\s{0,8}Previous (?P<what>(?:atomic )?(?:read|write) of size \d{1,9}) at .{0,100}by "
    r"(?:thread (?P<thread>T\d{1,9}).{0,200}|main thread.{0,20}):$"
)
_HINTS = ("The signal is caused by ", "Hint: ", "Cause: ")
_MOST_FRAMES = 1024
_MOST_STACKS = 512
_MOST_DETAILS = 20


class SanitizerReader:
    """Takes the lines of one process; hands each report on when its first line comes.

    Args:
        found: is given each new crash; it goes on filling it.
    """

    def __init__(self, found: Callable[[Crash], None]) -> None:
        self._found = found
        self._crash: Crash | None = None
        self._stack: Stack | None = None
        self._title = ACCESS
        self._thread: str | None = None
        self._place_only = False  # UBSan names the place; a stack comes with print_stacktrace=1 only

    def line(self, text: str, number: int, when: str | None) -> bool:
        """Take a line; whether it belongs to a report."""
        if "Sanitizer" in text or "runtime error: " in text:
            start = _START.match(text) or _THREADS.match(text)
            if start is not None:
                self._begin(
                    Crash(SANITIZER, number, pid=int(start["pid"]), tool=start["tool"], when=when),
                    start["rest"] or "",
                )
                return True
            if undefined := _UNDEFINED.match(text):
                crash = Crash(SANITIZER, number, tool="UndefinedBehaviorSanitizer", when=when)
                self._begin(crash, "")
                crash.what = undefined["rest"][:400]
                if place := _PLACE.match(undefined["place"]):
                    location = Location(None, place["file"], int(place["line"]), int(place["column"]))
                    frame = Frame(0, text, SANITIZED, locations=(location,))
                    crash.stacks.append(Stack(ACCESS, [frame]))
                    self._place_only = True
                return True
        crash_now = self._crash
        return crash_now is not None and self._part(crash_now, text)

    def _begin(self, crash: Crash, rest: str) -> None:
        what = _WHAT.match(rest)
        crash.what = what["what"].strip() if what else rest[:200]
        # The messages of `SEGV on unknown address` and of frees have the kind in a sentence.
        if crash.what.startswith("attempting "):
            crash.what = crash.what[len("attempting ") :]
        if address := _ADDRESS.search(rest):
            crash.fault_address = hex(int(address[1] or address[2], 16))
        if thread := _IN_THREAD.search(rest):
            crash.thread = thread[1]
        self._crash, self._stack, self._title, self._thread = crash, None, ACCESS, crash.thread
        self._place_only = False
        self._found(crash)

    def _part(self, crash: Crash, text: str) -> bool:
        frame = parse_frame(text) if "#" in text else None
        if frame is not None and frame.origin == SANITIZED:
            if self._place_only:
                crash.stacks.clear()
                self._place_only = False
            if self._stack is None or frame.number == 0:
                self._stack = Stack(self._title, thread=self._thread)
                if len(crash.stacks) < _MOST_STACKS:
                    crash.stacks.append(self._stack)
            if len(self._stack.frames) < _MOST_FRAMES:
                self._stack.frames.append(frame)
            return True
        if crash.access is None and (access := _ACCESS.match(text)):
            crash.access = access["access"]
            crash.thread = self._thread = access["thread"] or crash.thread
            return True
        heading = self._heading(text)
        if heading is not None:
            (self._title, self._thread), self._stack = heading, None
            return True
        stripped = text.strip()
        if stripped.startswith("SUMMARY: "):
            self._stack = None
            return True
        if stripped.endswith("==ABORTING"):
            self._crash = None
            return True
        if _LOCATED.match(text) or stripped.startswith(_HINTS):
            if len(crash.details) < _MOST_DETAILS:
                crash.details.append(stripped)
            if in_stack := _IN_STACK.search(stripped):
                # The frame that follows is that of the variable's function.
                self._title, self._thread, self._stack = VARIABLE, in_stack[1], None
            return True
        return stripped.startswith(("Shadow bytes", "=>0x", "0x"))

    @staticmethod
    def _heading(text: str) -> tuple[str, str | None] | None:
        """The title of the stack that follows, and its thread."""
        if owner := _OWNER.match(text):
            freed = owner["what"] in ("freed", "deallocated")
            return FREED if freed else ALLOCATED, _thread(owner["thread"])
        if leak := _LEAK.match(text):
            return leak["what"], None
        if created := _CREATED.match(text):
            return f"thread {created['thread']}{CREATED}", created["by"]
        if previous := _PREVIOUS.match(text):
            return f"previous {previous['what']}", previous["thread"] or "the main thread"
        return None


def _thread(number: str | None) -> str | None:
    """GWP-ASan and old runtimes print a number alone."""
    return f"T{number}" if number and number[0].isdigit() else number
