"""A reading as text and as JSON: the summary first, the stacks below."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from devkit.crashes.causes import cause_of
from devkit.crashes.model import (
    MATCH,
    MISMATCH,
    PROFILE,
    SANITIZER,
    THREADS,
    UNKNOWN,
    Crash,
    Frame,
    Reading,
    Stack,
)
from devkit.crashes.own import Excerpt, excerpt, is_own, own_frame
from devkit.crashes.parts import parts_of
from devkit.crashes.profiles import UNNAMED
from devkit.crashes.summary import headline, short_name, steps, summary
from devkit.results import Finding

_MOST_THREADS = 3
_PLACE_WIDTH = 44


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
    lines = [(f"{number}. " if number else "") + headline(crash)]
    for row in summary(crash, roots, app):
        lines += _labelled(row.label, row.text)
        if row.source is not None:
            lines += _source(row.source)
    threads = 0
    for stack in crash.stacks:
        if stack.title.startswith("thread ") and not stack.title.endswith("created by"):
            threads += 1
            if threads > _MOST_THREADS and crash.what != THREADS:
                continue
        lines += ["", *(_table(stack) if crash.kind == PROFILE else _stack(stack))]
    if threads > _MOST_THREADS and crash.what != THREADS:
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
        "next": steps(crash, app),
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


def _labelled(label: str, text: str) -> list[str]:
    first, *rest = text.splitlines() or [""]
    return [f"  {label + ':':<9}{first}", *(f"  {'':<9}{line}" for line in rest)]


def _source(source: Excerpt) -> list[str]:
    width = len(str(source.lines[-1][0]))
    return [
        f"           {'>' if number == source.line else ' '} {number:>{width}} | {text}"
        for number, text in source.lines
    ]


def _table(stack: Stack) -> list[str]:
    """Rows as they were printed, with names in the place of addresses that have become known."""
    lines = [f"  {stack.title}:"]
    for frame in stack.frames:
        text = frame.text
        if frame.locations:
            inner = frame.locations[0]
            name = " at ".join(filter(None, (short_name(inner.function or ""), inner.place)))
            unnamed = UNNAMED.search(text)
            if unnamed is not None:
                text = text[: unnamed.start()] + name + text[unnamed.end() :]
            elif inner.place:
                text += f"  {inner.place}"
        why = f"  [{frame.note}]" if frame.note and is_own(frame) and frame.function is None else ""
        if frame.locations and frame.verdict == UNKNOWN:
            why = "  [build-id unknown]"
        lines.append(f"    {text}{why}")
    return lines


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
