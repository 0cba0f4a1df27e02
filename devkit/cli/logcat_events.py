"""`devkit logcat --events`: what happened to the engine, in place of the lines of the log."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

from devkit import output
from devkit.logcat.record import Record, Stray
from devkit.logcat.session import View
from devkit.logcat.show import safe
from devkit.qnn.log_events import Event, EventReader

_COLORS = {"failed": "red", "warning": "yellow"}
_SHOWN_FOLLOWING = 3
_SHOWN_CAUSES = 3


class EventView(View):
    """Tells events: of a phone's log a line when each begins, and all with their causes at the end."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.reader = EventReader()
        self._stray_follows_shown = True

    def _print(self, records: Sequence[Record]) -> None:
        for record in records:
            self._begin(self.reader.take(record))

    def _stray(self, item: Stray) -> None:
        self.counts.read += 1
        self._begin(self.reader.take_line(item.data))

    def _aside(self, value: dict[str, Any], text: str, *, warn: bool = False) -> None:
        if "marker" not in value:
            super()._aside(value, text, warn=warn)

    def _begin(self, events: Sequence[Event]) -> None:
        if not self.live:
            return
        for event in events:
            output.current().rows([{"event": event.as_dict()}], _headline(event) + "\n")

    def tell_all(self) -> None:
        """The end: every event with its cause, what followed from it, and the next command."""
        events = self.reader.events()
        sink = output.current()
        if self.live:
            sink.note("")
        text = (
            "\n".join(_text(event) for event in events) if events else "nothing happened that devkit knows of"
        )
        if self.reader.others_killed:
            text += f"\n{self.reader.others_killed} background processes were killed for memory, as usual"
        if self.reader.left_out:
            text += f"\n{self.reader.left_out} more events were left out"
        value = {
            "events": [event.as_dict() for event in events],
            "others_killed": self.reader.others_killed,
            "left_out": self.reader.left_out,
        }
        sink.rows([value], text + "\n")


def _headline(event: Event) -> str:
    sink = output.current()
    stamp = ""
    if event.time_ns is not None:
        second, nanosecond = divmod(event.time_ns, 10**9)
        stamp = f"{time.strftime('%m-%d %H:%M:%S', time.localtime(second))}.{nanosecond // 10**6:03} "
    who = ""
    if event.category not in ("thermal", "crash", "killed") and event.pid is not None:
        who = f" ({event.process}, pid {event.pid})" if event.process else f" (pid {event.pid})"
    times = f" [{event.count} times]" if event.count > 1 else ""
    severity = sink.style(f"{event.severity:<7}", _COLORS.get(event.severity, "dim"), stream=sys.stdout)
    return f"{stamp}{severity} {event.category}: {safe(event.meaning.encode())}{who}{times}"


def _text(event: Event) -> str:
    lines = [_headline(event)]
    if event.line and event.line not in event.meaning:
        lines.append(f"    line:  {safe(event.line.encode())}")
    if event.cause:
        lines.append(f"    cause: {event.cause}")
    for cause in event.causes[:_SHOWN_CAUSES]:
        lines.append(f"    perhaps: {cause.text}")
    for line in event.following[:_SHOWN_FOLLOWING]:
        lines.append(f"    then:  {safe(line.encode())}")
    if len(event.following) > _SHOWN_FOLLOWING:
        lines.append(f"    then:  … {len(event.following) - _SHOWN_FOLLOWING} more")
    steps = list(dict.fromkeys([*event.next, *(step for cause in event.causes for step in cause.next)]))
    for step in steps[:_SHOWN_CAUSES]:
        lines.append(f"    next:  {step}")
    return "\n".join(lines)
