"""What is said of a crash before its stacks: what happened, why, where, and what to do next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from devkit.crashes.causes import cause_of
from devkit.crashes.model import BACKTRACE, BARE, KILLED, MISMATCH, PROFILE, SANITIZER, THREADS, Crash, Frame
from devkit.crashes.own import Excerpt, excerpt, is_own, own_frame
from devkit.crashes.parts import PLACED, block_of, parts_of
from devkit.symbols import Location
from devkit.symbols.functions import qualified_name

_PART_LABELS = {"allocated": "alloc", "variable": "stack"}
# Names of templates and of functions of the standard library fill screens.
_LONG_NAME, _LONG_ARGUMENTS = 60, 24


class Row(NamedTuple):
    """A line of the summary, which may have several, and the source that goes with it."""

    label: str
    text: str
    source: Excerpt | None = None


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
    if crash.kind == PROFILE:
        rows = sum(len(stack.frames) for stack in crash.stacks)
        return f"a profile of {crash.what}, {rows} {'row' if rows == 1 else 'rows'}"
    if crash.kind == BACKTRACE and crash.what == THREADS:
        count = len(crash.stacks)
        return (
            f"all {count} threads of {who}{_ids(crash)}"
            if count != 1
            else f"the thread of {who}{_ids(crash)}"
        )
    if crash.kind == BACKTRACE:
        return "a stack that no report goes with" + _ids(crash)
    signal = crash.signal or "a crash"
    code = f" ({crash.code})" if crash.code else ""
    at = f" at {crash.fault_address}" if crash.fault_address else ""
    thread = f", thread {crash.thread}" if crash.thread and crash.tid != crash.pid else ""
    return f"{signal}{code}{at} in {who}{thread}{_ids(crash)}"


def summary(crash: Crash, roots: Sequence[Path], app: str | None = None) -> list[Row]:
    """The rows of the summary.

    Args:
        roots: folders below which sources are looked for.
        app: the app's name in proposed commands; None: APP.
    """
    cause = cause_of(crash)
    rows = [Row("message", crash.abort_message)] if crash.abort_message else []
    told = crash.printed_cause if crash.printed_cause not in (None, "null pointer dereference") else None
    rows.append(Row("cause", f"{told}: {cause.text}" if told else cause.text))
    own = own_frame(crash)
    if own is not None and crash.kind != PROFILE:
        frame, location = own
        rows.append(Row("where", _where(frame, location), excerpt(location, roots) if location else None))
    block = None
    if crash.kind == SANITIZER:
        rows += _parts(crash, roots)
        block = block_of(crash)
    # What the block says in other words is not said twice.
    rows += [Row("detail", d) for d in crash.details if block is None or not PLACED.search(d)]
    rows += [Row("also", f"killed for memory: {other}") for other in crash.others]
    if crash.tombstone:
        name = crash.tombstone.rpartition("/")[2]
        rows.append(Row("dump", f"/data/tombstones/{name} on the phone"))
    return rows + [Row("next", step) for step in steps(crash, app)]


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


def steps(crash: Crash, app: str | None = None) -> list[str]:
    """What to do next; first of all to find the symbols, where only they are missing."""
    first: list[str] = []
    if crash.kind == BACKTRACE and all(f.origin == BARE and f.module is None for f in crash.frames):
        first.append("print /proc/self/maps, or dladdr() of each: addresses mean nothing without the map")
    own = own_frame(crash)
    if crash.kind == PROFILE:
        open_frames = (f for stack in crash.stacks for f in stack.frames if f.function is None and is_own(f))
        own = next(((frame, None) for frame in open_frames if not frame.locations), None)
    if own is not None and not own[0].locations:
        name = own[0].library or (own[0].module or "").rpartition("/")[2]
        if name.endswith(".apk"):
            name = "library"
        wanted = f" of build-id {own[0].build_id}" if own[0].build_id else ""
        if own[0].verdict == MISMATCH:
            first.append(
                "devkit deploy APP  # the phone ran another build than the one here; then run it again"
            )
        first.append(f"devkit symbolize --symbols DIR  # a folder with the unstripped {name}{wanted}")
        if own[0].verdict != MISMATCH and (own[0].module or "").startswith("/"):
            first.append(
                "devkit symbolize LOG --pull  # fetches the file from the phone: its functions at least"
            )
    elif own is not None and own[1] is not None and own[1].function and crash.kind not in (KILLED, PROFILE):
        function = own[1].function.partition("(")[0]
        if function and not function.endswith("::") and " " not in function and "<" not in function:
            first.append(f"devkit debug APP -b {function}")
        elif own[1].file and own[1].line:
            name = own[1].file.replace("\\", "/").rpartition("/")[2]
            first.append(f"devkit debug APP -b {shlex.quote(f'{name}:{own[1].line}')}")
    found = dict.fromkeys([*first, *cause_of(crash).next])
    return [re.sub(r"\bAPP\b", lambda _: app, step) if app else step for step in found]


def _parts(crash: Crash, roots: Sequence[Path]) -> list[Row]:
    """What the other stacks of a sanitizer's report say, each with its first line of the user's own."""
    rows: list[Row] = []
    for part in parts_of(crash, roots)[1:]:
        text = part.text
        if part.frame is not None:
            text += f": {_where(part.frame, part.location)}"
        rows.append(Row(_PART_LABELS.get(part.name, part.name), text, part.source))
    return rows


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
        name = frame.function or "frame"
        if name.startswith("_Z"):  # Android 8 and older, and what exports C++
            name = qualified_name(name) or name
        return f"{name} in {module} (#{frame.number:02d}), without a line"
    text = " at ".join(filter(None, (short_name(location.function or ""), location.place))) or "?"
    outer = frame.locations[-1]
    if outer is not location and outer.function:
        text += f" (inlined into {short_name(outer.function)})"
    return text
