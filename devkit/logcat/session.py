"""One `devkit logcat`: records go to the file, through the filters, and to the screen or as JSON lines."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from devkit import output
from devkit.logcat.counts import Counts
from devkit.logcat.filters import Filters
from devkit.logcat.record import Item, Marker, Record, Stray
from devkit.logcat.save import TextForm, Writer
from devkit.logcat.show import Columns, as_json, safe

if TYPE_CHECKING:
    from devkit.logcat.follow import Follower, Notice
    from devkit.logcat.processes import ProcessFilter

Batch = TypeVar("Batch")


class Beside(Protocol):
    """Who reads along with what is shown."""

    def log(self, records: Sequence[Record]) -> None:
        """Take records that were shown just now."""

    def finish(self) -> None:
        """There are no more."""


@dataclass
class View:
    """What is to be done with the records.

    Args:
        processes: shows only theirs.
        buffers: of a saved log, shows only these; empty: all.
        writer: where everything that is read goes; `save_shown`: only what is shown.
        max_count: end after so many records have been shown.
        duration_s: end after so many seconds.
        beside: reads along.
        live: a phone's log, which may go on for hours.
    """

    filters: Filters
    processes: ProcessFilter | None = None
    buffers: frozenset[str] = frozenset()
    writer: Writer | None = None
    save_shown: bool = False
    max_count: int | None = None
    duration_s: float | None = None
    beside: Beside | None = None
    live: bool = False
    counts: Counts = field(default_factory=Counts)

    def __post_init__(self) -> None:
        self._shows = self.filters.compiled()
        self._form = TextForm()
        sink = output.current()
        self._columns = Columns(color=bool(sink.style("x", "red", stream=sys.stdout) != "x"))
        self._stray_follows_shown = True

    def follow(self, follower: Follower[Batch], take: Callable[[Batch], bool]) -> None:
        """Show a phone's log until it ends, the time is up, or enough has been shown.

        Args:
            take: what is done with what was read; says whether enough has been shown.
        """
        end = None if self.duration_s is None else time.monotonic() + self.duration_s
        with contextlib.closing(follower.batches()) as batches:
            for batch, notices in batches:
                if notices:
                    self._tell(notices)
                if batch and take(batch):
                    return
                if end is not None and time.monotonic() >= end:
                    return

    def read(self, pieces: Iterable[Sequence[Item]]) -> None:
        """Show a saved log."""
        for items in pieces:
            if self._take_items(items):
                return

    def take(self, records: Sequence[Record]) -> bool:
        """Save, filter and show; whether enough has been shown."""
        self.counts.add(records)
        if self.writer is not None and not self.save_shown:
            self.writer.write(self._form.lines(records))
        return self.show(records)

    def show(self, records: Sequence[Record]) -> bool:
        """Filter and show; whether enough has been shown."""
        picked = self.processes.pick(records) if self.processes is not None else records
        shows = self._shows
        shown = [record for record in picked if shows(record)]
        if self.max_count is not None:
            shown = shown[: self.max_count - self.counts.shown]
        if shown:
            self.counts.shown += len(shown)
            if self.writer is not None and self.save_shown:
                self.writer.write(self._form.lines(shown))
            self._print(shown)
        return self.max_count is not None and self.counts.shown >= self.max_count

    def tell_all(self) -> None:
        """What there is to say when the log has ended, before the summary."""

    def _print(self, records: Sequence[Record]) -> None:
        sink = output.current()
        if sink.json_mode:
            sink.rows(map(as_json, records), "")
        else:
            sink.rows((), "".join(map(self._columns.text, records)))
        if self.beside is not None:
            self.beside.log(records)

    def _take_items(self, items: Sequence[Item]) -> bool:
        """Runs of records as a phone's; markers and stray lines in between."""
        run: list[Record] = []
        for item in items:
            if isinstance(item, Record):
                if not self.buffers or not item.buffer or item.buffer in self.buffers:
                    run.append(item)
                continue
            if run and self._flush(run):
                return True
            run = []
            if isinstance(item, Marker):
                self._aside({"marker": item.text}, f"--------- {safe(item.text.encode())}")
            else:
                self._stray(item)
        return self._flush(run) if run else False

    def _flush(self, run: list[Record]) -> bool:
        before = self.counts.shown
        enough = self.take(run)
        # What follows a record belongs to it, as far as anybody can tell.
        self._stray_follows_shown = self.counts.shown > before and self._shows(run[-1])
        return enough

    def _stray(self, item: Stray) -> None:
        if self._stray_follows_shown:
            text = safe(item.data)
            output.current().rows([{"line": text}], text + "\n")

    def _tell(self, notices: Sequence[Notice]) -> None:
        for notice in notices:
            value: dict[str, Any] = {"notice": notice.kind, "text": notice.text}
            if notice.gap is not None:
                gap = notice.gap
                value["gap"] = {"buffer": gap.buffer or None, "from_ns": gap.from_ns, "to_ns": gap.to_ns}
            self._aside(value, f"--------- {notice.text}", warn=notice.kind not in ("lost", "back"))
            if self.writer is not None:
                self.writer.write(f"--------- devkit: {notice.text}\n".encode())

    def _aside(self, value: dict[str, Any], text: str, *, warn: bool = False) -> None:
        """Beside the log: in the JSON stream, or on stderr, so that a pipe gets records only.

        Args:
            warn: say it also with --quiet.
        """
        sink = output.current()
        if sink.json_mode:
            sink.rows([value], "")
        else:
            sys.stdout.flush()
            (sink.warn if warn else sink.note)(text if warn else sink.style(text, "yellow"))


def ask_names(shell: Callable[[str], bytes]) -> Callable[[Sequence[int]], dict[int, str]]:
    """How a ProcessFilter asks a phone; a phone that does not answer knows no names."""
    from devkit.errors import DevkitError
    from devkit.logcat.processes import names_script, parse_names

    def ask(pids: Sequence[int]) -> dict[int, str]:
        try:
            return parse_names(shell(names_script(pids)))
        except DevkitError:
            return {}

    return ask


def app_users(shell: Callable[[str], bytes], names: Sequence[str]) -> set[int]:
    """The users of those names that are installed apps; none where the phone does not say."""
    from devkit.errors import DevkitError
    from devkit.logcat.processes import packages_script, parse_packages

    packages = [name for name in names if "." in name and "/" not in name]
    if not packages:
        return set()
    try:
        return parse_packages(shell(packages_script(packages)).decode("utf-8", "replace"), packages)
    except DevkitError:
        return set()


def summary(view: View, follower: Follower[Any] | None) -> tuple[dict[str, Any], str]:
    """What is said at the end, for --json and for people."""
    counts = view.counts
    value: dict[str, Any] = counts.as_dict()
    parts = [f"{counts.read} lines read, {counts.shown} shown"]
    if counts.text:
        parts.append(counts.text)
    if follower is not None:
        value["gaps"] = len(follower.gaps)
        value["reconnects"] = follower.breaks
        value["repeated"] = follower.repeated
        value["skipped_bytes"] = follower.skipped_bytes
        if follower.breaks:
            parts.append(f"{follower.breaks} broken links")
        if follower.gaps:
            parts.append(f"{len(follower.gaps)} gaps: lines may be missing")
        if follower.skipped_bytes:
            parts.append(f"{follower.skipped_bytes} bytes were no log entry")
    if view.writer is not None:
        value["saved"] = {"file": os.fspath(view.writer.path), "bytes": view.writer.written}
        parts.append(f"{output.human_bytes(view.writer.written)} in {view.writer.path}")
    return value, "; ".join(parts)
