"""A reading as text and as JSON: the summary first, the stacks below."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from devkit.crashes.causes import cause_of
from devkit.crashes.model import (
    BACKTRACE,
    BARE,
    KILLED,
    MATCH,
    MISMATCH,
    SANITIZER,
    UNKNOWN,
    Crash,
    Frame,
    Reading,
    Stack,
)
from devkit.crashes.own import Excerpt, excerpt, is_own, own_frame
from devkit.crashes.parts import PLACED, block_of, parts_of
from devkit.results import Finding
from devkit.symbols import Location

_MOST_THREADS = 3
_PLACE_WIDTH = 44
# Names of templates and of functions of the standard library fill screens.
_LONG_NAME, _LONG_ARGUMENTS = 60, 24
_PART_LABELS = {"allocated": "alloc", "variable": "stack"}


def headline(crash: Crash) -> str:
    """What happened, in one line."""
    who = crash.process or (f"pid {crash.pid}" if crash.pid is not None else "a process")
    if crash.kind == KILLED:
        by = f" by the {crash.tool}" if crash.tool else ""
        freed = f", which freed {crash.what}" if crash.what else ""
        return f"{who}{_ids(crash)} was killed{by}{freed}"
    if crash.kind == SANITIZER:
        access = f", {crash.access}" if crash.access else ""
        at = f" at {crash.fault_address}" if crash.fault_address else ""
        thread = f" by thread {crash.thread}" if crash.thread else ""
        return f"{crash.tool}: {crash.what}{at}{access}{thread}{_ids(crash)}"
    if crash.kind == BACKTRACE:
        return "a stack that no report goes with" + _ids(crash)
    signal = crash.signal or "a crash"
    code = f" ({crash.code})" if crash.code else ""
    at = f" at {crash.fault_address}" if crash.fault_address else ""
    thread = f", thread {crash.thread}" if crash.thread and crash.tid != crash.pid else ""
    return f"{signal}{code}{at} in {who}{thread}{_ids(crash)}"


def short_name(function: str) -> str:
    """A function's name for people: of long ones, parameters and template arguments become `…`."""
    if len(function) <= _LONG_NAME:
        return function
    found: list[str] = []
    opened: list[tuple[str, int]] = []  # closing bracket, and how much was there before it
    for at, char in enumerate(function):
        found.append(char)
        if char == "(" or (char == "<" and not function.endswith(("operator", "operator<"), 0, at)):
            opened.append((">" if char == "<" else ")", len(found)))
        elif opened and char == opened[-1][0] and function[at - 1 : at] != "-":
            _, start = opened.pop()
            if len(found) - start > _LONG_ARGUMENTS:
                found[start:] = ["…", char]
    return "".join(found)


def as_text(reading: Reading, findings: Sequence[Finding], roots: Sequence[Path]) -> str:
    """All that was found, for a person."""
    blocks = [
        crash_text(crash, roots, number=number if len(reading.crashes) > 1 else None)
        for number, crash in enumerate(reading.crashes, 1)
    ]
    if not blocks:
        blocks.append(f"no crash in {reading.lines} {'line' if reading.lines == 1 else 'lines'}")
    if findings:
        lines = ["known errors in the text:"]
        for finding in findings:
            lines.append(f"  line {finding.line_number}: {finding.meaning}")
            if finding.cause:
                lines.append(f"    cause: {finding.cause}")
            lines += [f"    next:  {step}" for step in finding.next]
        blocks.append("\n".join(lines))
    if reading.folded or reading.expired:
        blocks.append(
            f"logd left out {reading.folded + reading.expired} lines ({reading.folded} repeated, "
            f"{reading.expired} expired): what is missing here may have happened"
        )
    return "\n\n".join(blocks)


def as_dict(reading: Reading, findings: Sequence[Finding], roots: Sequence[Path]) -> dict[str, object]:
    """All that was found, as `--json` prints it."""
    return {
        "lines": reading.lines,
        "crashes": [crash_dict(crash, roots) for crash in reading.crashes],
        "findings": [finding.as_dict() for finding in findings],
        "left_out_by_logd": {"repeated": reading.folded, "expired": reading.expired},
    }


def crash_text(
    crash: Crash, roots: Sequence[Path], app: str | None = None, *, number: int | None = None
) -> str:
    """One crash for a person: the summary, then the stacks.

    Args:
        roots: folders below which sources are looked for.
        app: the app's name in proposed commands; None: APP.
        number: of the crash, where there are several.
    """
    cause = cause_of(crash)
    lines = [(f"{number}. " if number else "") + headline(crash)]
    if crash.abort_message:
        lines += _labelled("message", crash.abort_message)
    told = crash.printed_cause if crash.printed_cause not in (None, "null pointer dereference") else None
    lines += _labelled("cause", f"{told}: {cause.text}" if told else cause.text)
    own = own_frame(crash)
    if own is not None:
        frame, location = own
        lines += _labelled("where", _where(frame, location))
        source = excerpt(location, roots) if location else None
        if source is not None:
            lines += _source(source)
    if crash.kind == SANITIZER:
        lines += _parts(crash, roots)
    block = block_of(crash)
    for detail in crash.details:
        if block is None or not PLACED.search(detail):  # else the block says it
            lines += _labelled("detail", detail)
    for other in crash.others:
        lines += _labelled("also", f"killed for memory: {other}")
    if crash.tombstone:
        lines += _labelled("dump", f"/data/tombstones/{crash.tombstone.rpartition('/')[2]} on the phone")
    for step in _steps(crash, cause.next, app):
        lines += _labelled("next", step)
    threads = 0
    for stack in crash.stacks:
        if stack.title.startswith("thread ") and not stack.title.endswith("created by"):
            threads += 1
            if threads > _MOST_THREADS:
                continue
        lines += ["", *_stack(stack)]
    if threads > _MOST_THREADS:
        lines += ["", f"  {threads - _MOST_THREADS} more threads: --json has them"]
    return "\n".join(lines)


def crash_dict(crash: Crash, roots: Sequence[Path], app: str | None = None) -> dict[str, object]:
    """One crash, as `--json` prints it; the arguments are those of `crash_text`."""
    cause = cause_of(crash)
    own = own_frame(crash)
    source = excerpt(own[1], roots) if own and own[1] else None
    return {
        "kind": crash.kind,
        "headline": headline(crash),
        "signal": crash.signal,
        "code": crash.code,
        "fault_address": crash.fault_address,
        "process": crash.process,
        "pid": crash.pid,
        "tid": crash.tid,
        "thread": crash.thread,
        "abi": crash.abi,
        "abort_message": crash.abort_message,
        "printed_cause": crash.printed_cause,
        "tool": crash.tool,
        "what": crash.what,
        "access": crash.access,
        "tombstone": crash.tombstone,
        "when": crash.when,
        "line": crash.line,
        "class": cause.kind,
        "cause": cause.text,
        "next": _steps(crash, cause.next, app),
        "details": crash.details,
        "also_killed": crash.others,
        "own": None
        if own is None
        else {
            "frame": own[0].number,
            "function": own[1].function if own[1] else own[0].function,
            "file": own[1].file if own[1] else None,
            "line": own[1].line if own[1] else None,
        },
        "source": None if source is None else source.as_dict(),
        "parts": [part.as_dict() for part in parts_of(crash, roots)] if crash.kind == SANITIZER else [],
        "stacks": [stack.as_dict() for stack in crash.stacks],
    }


def _steps(crash: Crash, steps: Sequence[str], app: str | None) -> list[str]:
    """What to do next; first of all to find the symbols, where only they are missing."""
    first: list[str] = []
    if crash.kind == BACKTRACE and all(f.origin == BARE and f.module is None for f in crash.frames):
        first.append("print /proc/self/maps, or dladdr() of each: addresses mean nothing without the map")
    own = own_frame(crash)
    if own is not None and not own[0].locations:
        name = own[0].library or (own[0].module or "").rpartition("/")[2]
        wanted = f" of build-id {own[0].build_id}" if own[0].build_id else ""
        if own[0].verdict == MISMATCH:
            first.append(
                "devkit deploy APP  # the phone ran another build than the one here; then run it again"
            )
        first.append(f"devkit symbolize --symbols DIR  # a folder with the unstripped {name}{wanted}")
    elif own is not None and own[1] is not None and own[1].function and crash.kind != KILLED:
        function = own[1].function.partition("(")[0]
        if function and not function.endswith("::") and " " not in function and "<" not in function:
            first.append(f"devkit debug APP -b {function}")
        elif own[1].file and own[1].line:
            name = own[1].file.replace("\\", "/").rpartition("/")[2]
            first.append(f"devkit debug APP -b {shlex.quote(f'{name}:{own[1].line}')}")
    found = dict.fromkeys([*first, *steps])
    return [re.sub(r"\bAPP\b", lambda _: app, step) if app else step for step in found]


def _parts(crash: Crash, roots: Sequence[Path]) -> list[str]:
    """What the other stacks of a sanitizer's report say, each with its first line of the user's own."""
    lines: list[str] = []
    for part in parts_of(crash, roots)[1:]:
        text = part.text
        if part.frame is not None:
            text += f": {_where(part.frame, part.location)}"
        lines += _labelled(_PART_LABELS.get(part.name, part.name), text)
        if part.source is not None:
            lines += _source(part.source)
    return lines


def _ids(crash: Crash) -> str:
    ids = [f"pid {crash.pid}"] if crash.pid is not None and crash.process else []
    if crash.pid is not None and not ids and crash.kind in (SANITIZER, BACKTRACE):
        ids = [f"pid {crash.pid}"]
    if crash.tid is not None and crash.tid != crash.pid:
        ids.append(f"tid {crash.tid}")
    return f" ({', '.join(ids)})" if ids else ""


def _where(frame: Frame, location: Location | None) -> str:
    if location is None:
        module = frame.library or frame.module
        return f"{frame.function or 'frame'} in {module} (#{frame.number:02d}), without a line"
    text = " at ".join(filter(None, (short_name(location.function or ""), location.place))) or "?"
    outer = frame.locations[-1]
    if outer is not location and outer.function:
        text += f" (inlined into {short_name(outer.function)})"
    return text


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"  {label + ':':<9}{first}", *(f"  {'':<9}{line}" for line in rest)]


def _source(source: Excerpt) -> list[str]:
    width = len(str(source.lines[-1][0]))
    return [
        f"           {'>' if number == source.line else ' '} {number:>{width}} | {text}"
        for number, text in source.lines
    ]


def _stack(stack: Stack) -> list[str]:
    lines = [f"  {stack.title}:"]
    for frame in stack.frames:
        lines += _frame(frame)
    return lines


def _frame(frame: Frame) -> list[str]:
    """A line for each function, the innermost first; the frame's own words where nothing is known better."""
    if not frame.locations:
        why = frame.note if is_own(frame) else None
        if frame.verdict == MISMATCH:
            why = f"BUILD-ID MISMATCH: {frame.note}" if frame.note else "BUILD-ID MISMATCH"
        return [f"    {frame.text.strip()}" + (f"\n        [{why}]" if why else "")]
    module = frame.library or (frame.module or "").rpartition("/")[2]
    verdict = {MATCH: "", UNKNOWN: ", build-id unknown", MISMATCH: ", build-id mismatch"}.get(
        frame.verdict or "", ""
    )
    lines = []
    for at, location in enumerate(frame.locations):
        mark = f"#{frame.number:02d}" if at == 0 else "   "
        inlined = " [inlined]" if at < len(frame.locations) - 1 else ""
        name = (short_name(location.function or "") or "?") + inlined
        place = location.place or "no line"
        lines.append(
            f"    {mark} {name:<{_PLACE_WIDTH}} {place}"
            + ("" if inlined or not module else f"  ({module}{verdict})")
        )
    return lines
