"""Ends without a dump: the fatal line alone, killed for memory, the shell's word, last words."""

from __future__ import annotations

import re

from devkit.crashes.model import KILLED, SIGNAL, Crash

_FATAL = re.compile(
    r"\s{0,8}Fatal signal (?P<number>\d{1,3}) \((?P<signal>\w{1,20})\)"
    r"(?:, code (?P<code>-?\d{1,9})(?: \((?P<name>\w{1,40})[^)]{0,100}\))?)?"
    r"(?:(?:, fault addr| at) (?P<address>\S{1,24}))?(?: \(code=-?\d{1,9}\))?"
    r"(?:(?: in tid|, thread) (?P<tid>\d{1,9})(?: \((?P<thread>.{0,100}?)\))?(?=, pid|$))?"
    r"(?:, pid (?P<pid>\d{1,9}) \((?P<process>.{0,200})\))?"
)
# lmkd's line (system/memory/lmkd, lmkd.cpp), and those of older releases.
_LMKD = re.compile(
    r"(?:Kill(?:ing)?|kill) '(?P<name>[^']{1,200})' \((?P<pid>\d{1,9})\)(?:, uid (?P<uid>\d{1,9}))?"
    r"(?:, (?:oom_score_)?adj (?P<adj>-?\d{1,5}))?(?: to free (?P<freed>\d{1,15}) ?kB)?"
)
_KERNEL = re.compile(
    r"(?:Out of memory|Memory cgroup out of memory|oom-kill|lowmemorykiller).{0,40}?"
    r"Kill(?:ed|ing)? (?:process )?"
    r"(?P<pid>\d{1,9}) \((?P<name>[^)]{1,100})\)(?:.{0,200}?anon-rss:(?P<freed>\d{1,15})kB)?"
)
# What bash and mksh say of a program that a signal ended.
_SHELL = re.compile(
    r"\s{0,8}(?:\[\d{1,4}\] ?[+-]? {0,8}(?:\d{1,9} )?)?"
    r"(?P<word>Killed|Segmentation fault|Aborted?|Bus error|Illegal instruction|Floating point exception)"
    r"(?: ?\(core dumped\))?(?: {1,20}(?P<command>[./].{0,500}))?\s{0,8}$"
)
_SHELL_SIGNALS = {
    "Killed": "SIGKILL",
    "Segmentation fault": "SIGSEGV",
    "Abort": "SIGABRT",
    "Aborted": "SIGABRT",
    "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL",
    "Floating point exception": "SIGFPE",
}
# The last words of a process that aborts itself, under whatever tag.
_LAST_WORDS = re.compile(
    r"\s{0,8}(?:libc\+\+abi: )?(?P<text>terminating (?:with|due to) .*|terminate called .*|FORTIFY: .*"
    r"|Scudo ERROR: .*|Pointer tag for .*|\S.{0,500}: assertion \".*\" failed.*"
    r"|.{0,500}: Assertion [`'].*' failed\.?|stack corruption detected.*"
    r"|\*\*\* stack smashing detected.*|(?:free|malloc|realloc|munmap_chunk)\(\): .*)$"
)


def fatal_line(text: str, number: int) -> Crash | None:
    """The crash that libc announces before the dump is made."""
    if "Fatal signal" not in text or not (match := _FATAL.match(text)):
        return None
    address = match["address"]
    try:
        shown = hex(int(address, 16)) if address else None
    except ValueError:
        shown = None
    return Crash(
        SIGNAL, number, signal=match["signal"], code=match["name"], fault_address=shown,
        process=match["process"], thread=match["thread"],
        pid=int(match["pid"]) if match["pid"] else None,
        tid=int(match["tid"]) if match["tid"] else None,
    )  # fmt: skip


def memory_kill(text: str, number: int) -> tuple[Crash, bool] | None:
    """A process that was killed for memory, and whether it can have been the user's own.

    That is one of the shell's user (a program in /data/local/tmp), or one in the foreground: what is cached
    in the background is killed all day long.
    """
    if "ill" not in text:
        return None
    lmkd = _LMKD.search(text)
    match = lmkd or _KERNEL.search(text)
    if match is None:
        return None
    freed = match["freed"]
    crash = Crash(
        KILLED, number, signal="SIGKILL", process=match["name"], pid=int(match["pid"]),
        tool="low-memory killer" if lmkd else "kernel's out-of-memory killer",
    )  # fmt: skip
    if freed:
        crash.what = (
            f"{int(freed) / (1 << 20):.1f} GiB" if int(freed) >= 1 << 20 else f"{int(freed) >> 10} MiB"
        )
    _, found, reason = text.partition("; reason: ")
    if found:
        crash.details.append(f"reason: {reason.strip()[:300]}")
    if lmkd is None:
        return crash, True
    own = lmkd["uid"] in ("0", "2000") or (lmkd["adj"] is not None and int(lmkd["adj"]) <= 0)
    return crash, own


def shell_word(text: str, number: int) -> Crash | None:
    """The shell's word on a program that a signal ended."""
    if len(text) > 600 or not (match := _SHELL.match(text)):
        return None
    signal = _SHELL_SIGNALS[match["word"]]
    kind = KILLED if signal == "SIGKILL" else SIGNAL
    return Crash(kind, number, signal=signal, process=match["command"], details=["told by the shell alone"])


def last_words(text: str) -> str | None:
    """The reason that a process prints before it aborts."""
    # Plain tests are several times as fast as one expression for all.
    worth_a_look = (
        "terminat" in text
        or "FORTIFY" in text
        or "Scudo" in text
        or "Pointer tag" in text
        or "ssertion" in text
        or "stack corruption" in text
        or "stack smashing" in text
        or "(): " in text
    )
    if not worth_a_look or not (match := _LAST_WORDS.match(text)):
        return None
    return match["text"]
