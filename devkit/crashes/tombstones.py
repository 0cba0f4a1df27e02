"""debuggerd's reports, in the log or as a file: one reader for each process that prints one.

Layouts: system/core/debuggerd/libdebuggerd/tombstone.cpp and tombstone_proto_to_text.cpp, Android 5 to 15.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from devkit.crashes.frames import parse_frame
from devkit.crashes.model import DEBUGGERD, SIGNAL, Crash, Stack

_STARS = re.compile(r"\s{0,8}(?:\*\*\* ){8}")
_OTHER_THREAD = re.compile(r"\s{0,8}(?:--- ){8}")
_PROCESS = re.compile(
    r"\s{0,8}pid: (?P<pid>\d{1,9}), tid: (?P<tid>\d{1,9}), name: (?P<name>.{0,200}?) {1,3}"
    r">>> (?P<process>.{0,2000}?) <<<"
)
_SIGNAL = re.compile(
    r"\s{0,8}signal (?P<number>\d{1,3}) \((?P<signal>[^)]{1,20})\)"
    r"(?:, code (?P<code>-?\d{1,9}) \((?P<name>[^) ]{1,40})[^)]{0,200}\))?"
    r"(?:, fault addr (?P<address>\S{1,24}))?"
)
_ABORT = re.compile(r"\s{0,8}Abort message: ['\"]?")
_THREAD_OF_STACK = re.compile(
    r"\s{0,8}(?P<what>allocated|deallocated) by thread (?P<tid>\d{1,9}):?", re.IGNORECASE
)
# What follows an abort message that has several lines.
_AFTER_ABORT = re.compile(
    r"\s{0,8}(?:[xr]\d{1,2} |r[a-d0-9]\w? |e[a-d]x |rax |backtrace:|Cause: |\d{1,4} total frames|registers)"
)
_MOST_ABORT_LINES = 60
_MOST_FRAMES = 1024
_MOST_STACKS = 512
# Sections behind the stacks. What they hold looks like frames and log lines, and is neither.
_END = ("stack:", "memory near ", "memory map", "open files:")
_CAUSE = "Cause: "


class TombstoneReader:
    """Takes the lines of one dumping process; hands each report on when its first line comes.

    Args:
        found: is given each new crash; it goes on filling it.
    """

    def __init__(self, dumper: int | None, found: Callable[[Crash], None]) -> None:
        self._dumper = dumper
        self._found = found
        self._crash: Crash | None = None
        self._stack: Stack | None = None
        self._abi: str | None = None
        self._other_thread = False
        self._stars = 0
        self._begun = 0
        self._abort_lines = 0
        self._skip = False

    def line(self, text: str, number: int, when: str | None) -> bool:
        """Take a line; whether it belongs to a report."""
        if self._abort_lines and self._more_of_abort(text):
            return True
        # The cheap tests come first: nearly all lines of a log are nothing.
        if "pid: " in text and (head := _PROCESS.match(text)):
            self._process(head, number, when)
            return True
        if "*** ***" in text and _STARS.match(text):
            self._begun, self._crash, self._stack, self._other_thread = number, None, None, False
            self._skip = False
            return True
        stripped = text.strip()
        if stripped.startswith("ABI: '"):
            self._abi = stripped[6:].rstrip("'")[:20]
            return True
        crash = self._crash
        if crash is None:
            return False
        if "--- ---" in text and _OTHER_THREAD.match(text):
            self._other_thread, self._stack, self._skip = True, None, False
            return True
        return self._part(crash, text, stripped)

    def _part(self, crash: Crash, text: str, stripped: str) -> bool:
        if stripped.startswith(_END):
            self._skip, self._stack = True, None
            return True
        if stripped == "backtrace:":
            self._skip = False
            title = f"thread {self._thread}" if self._other_thread else "backtrace"
            self._open(crash, title)
            return True
        if stripped.startswith("signal ") and not self._other_thread and (signal := _SIGNAL.match(text)):
            crash.signal = signal["signal"]
            crash.code = signal["name"]
            crash.fault_address = _address(signal["address"])
            return True
        if stripped.startswith("Abort message: ") and (start := _ABORT.match(text)):
            crash.abort_message = text[start.end() :].rstrip()
            if crash.abort_message.endswith("'"):
                crash.abort_message = crash.abort_message[:-1]
            else:
                self._abort_lines = 1
            return True
        if stripped.startswith(_CAUSE):
            cause = stripped[len(_CAUSE) :]
            if crash.printed_cause is None:
                crash.printed_cause = cause
            else:
                crash.details.append(f"other possible cause: {cause}")
            return True
        if "by thread" in stripped and (owner := _THREAD_OF_STACK.match(text)):
            self._skip = False
            self._open(crash, f"{'freed' if owner['what'].startswith('d') else 'allocated'} by")
            return True
        if "#" not in text or "pc" not in text:
            return False
        frame = parse_frame(text)
        if frame is None or frame.origin != DEBUGGERD:
            return False
        if self._skip:
            return True
        if self._stack is None:
            self._open(crash, f"thread {self._thread}" if self._other_thread else "backtrace")
        if self._stack is not None and len(self._stack.frames) < _MOST_FRAMES:
            self._stack.frames.append(frame)
        return True

    def _process(self, head: re.Match[str], number: int, when: str | None) -> None:
        self._thread = f"{head['tid']} ({head['name']})"
        if self._other_thread and self._crash is not None and str(self._crash.pid) == head["pid"]:
            return
        crash = Crash(
            SIGNAL,
            self._begun or number,
            process=head["process"],
            pid=int(head["pid"]),
            tid=int(head["tid"]),
            thread=head["name"],
            abi=self._abi,
            dumper=self._dumper,
            when=when,
        )
        self._crash, self._stack, self._begun = crash, None, 0
        self._other_thread = self._skip = False
        self._abi = None
        self._found(crash)

    def _open(self, crash: Crash, title: str) -> None:
        self._stack = Stack(title)
        if len(crash.stacks) < _MOST_STACKS:
            if title == "backtrace" and crash.stacks and not self._other_thread:
                crash.stacks.insert(0, self._stack)  # GWP-ASan's stacks may come first
            else:
                crash.stacks.append(self._stack)

    def _more_of_abort(self, text: str) -> bool:
        crash = self._crash
        ended = crash is None or self._abort_lines >= _MOST_ABORT_LINES
        if ended or _AFTER_ABORT.match(text) or parse_frame(text) is not None or _STARS.match(text):
            self._abort_lines = 0
            return False
        assert crash is not None and crash.abort_message is not None
        line = text.rstrip()
        self._abort_lines = 0 if line.endswith("'") else self._abort_lines + 1
        crash.abort_message += "\n" + (line[:-1] if line.endswith("'") else line)
        return True

    _thread = "?"


def _address(text: str | None) -> str | None:
    """`0x0000000000000010` as 0x10; None for `--------`."""
    if text is None:
        return None
    try:
        return hex(int(text, 16))
    except ValueError:
        return None
