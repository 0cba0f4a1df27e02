"""What `logcat -S` shows: how much was logged, is kept, and by whom, as LogStatistics.cpp lays it out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from devkit.sim.logs.entry import Entry, parse_packet
from devkit.sim.logs.wire import BINARY_BUFFERS, BUFFER_NAMES, EVENTS, KERNEL, MAIN, RADIO, SYSTEM

_COLUMN = 19
_FIRST_COLUMN = 10
_LINE_CHARACTERS = 80
_PRUNED_CHARACTERS = 14
_MAX_ROWS = 32
_COMM_CHARACTERS = 15
_MONTH_MS = 31 * 24 * 3600 * 1000
_USER_NAMES = {0: "root", 1000: "system", 1036: "auditd", 2000: "shell"}
# Buffers from which logd may prune by user; their tables have a column for it.
_PRUNED_BUFFERS = frozenset({MAIN, SYSTEM, RADIO, EVENTS})

_Key = TypeVar("_Key", int, str)


@dataclass
class BufferUse:
    """A buffer's numbers; sizes are bytes of payload.

    Args:
        total_bytes, total_count: since the boot.
        oldest_ns, newest_ns: from when on the buffer is complete, and its last entry.
        held_bytes: what the buffer takes in memory.
        packets: its entries.
    """

    total_bytes: int
    total_count: int
    oldest_ns: int
    newest_ns: int
    held_bytes: int
    packets: Sequence[bytes] = ()
    entries: list[Entry] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def parse(self) -> None:
        """Take the entries apart."""
        for packet in self.packets:
            entry = parse_packet(packet)
            if entry is not None:
                self.entries.append(entry)
                self.sizes.append(int.from_bytes(packet[:2], "little"))


@dataclass
class _Row:
    size: int = 0
    pid: int | None = None
    tid: int | None = None
    uid: int | None = None

    def add(self, entry: Entry, size: int, *, first: bool) -> None:
        self.size += size
        if first:
            self.pid, self.tid, self.uid = entry.pid, entry.tid, entry.uid
        else:
            self.pid = self.pid if self.pid == entry.pid else None
            self.tid = self.tid if self.tid == entry.tid else None
            self.uid = self.uid if self.uid == entry.uid else None


def package(text: str) -> str:
    """An answer of logd that says how long it is, as getStatistics and getPruneList are sent."""
    rest = f"\n{text}\n\f"
    size = len(rest) + len(str(len(rest)))
    size = len(rest) + len(str(size))
    return f"{size}{rest}"


def unpack(answer: str) -> str | None:
    """What logcat prints of such an answer; None when it is none."""
    digits, newline, text = answer.partition("\n")
    if not newline or not digits.isdigit() or int(digits) < 3:
        return None
    return text.removesuffix("\f")


def statistics(
    uses: dict[int, BufferUse],
    mask: int,
    name_of: Callable[[int], str | None],
    *,
    detailed: bool,
    pid: int = 0,
) -> str:
    """The report.

    Args:
        uses: of all buffers.
        mask: bit N is set when buffer N is asked for.
        name_of: the command line of a process, None when it is not known.
        detailed: with tables of processes, threads and tags (logd.statistics, on in userdebug builds).
        pid: only this process in those tables, 0 for all.
    """
    chosen = [number for number in sorted(uses) if mask >> number & 1]
    for use in uses.values():
        use.parse()
    text = _summary(uses, chosen)
    for number in chosen:
        if number != KERNEL:
            text += _users_table(number, uses[number])
    if detailed:
        kept = [
            (e, s)
            for n, use in uses.items()
            if n != KERNEL
            for e, s in zip(use.entries, use.sizes, strict=True)
        ]
        kept = [(entry, size) for entry, size in kept if pid in (0, entry.pid)]
        text += _process_table(kept, name_of, pid)
        text += _thread_table(kept, name_of, pid)
        if mask >> EVENTS & 1:
            text += _event_table(kept, pid)
        text += _tag_table(kept, pid)
    return text


def line(name: str, size: str, pruned: str) -> str:
    """A row of a table (EntryBase::formatLine)."""
    drop = max(len(pruned) + 1, _PRUNED_CHARACTERS)
    width = max(len(size) + 1, _LINE_CHARACTERS - len(name) - drop - 1)
    return f"{name}{size:>{width}}{pruned:>{drop}}".rstrip() + "\n"


def span_text(milliseconds: int) -> str:
    """A duration: `1d 2:03:04.5`, nothing below a second."""
    if milliseconds < 1000:
        return ""
    seconds, rest = divmod(milliseconds, 1000)
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    text = f"{days}d " if days else ""
    if minutes:
        text += f"{hours % 24}:{minutes % 60:02}:" if hours else f"{minutes}:"
        text += f"{seconds % 60:02}"
    else:
        text += str(seconds)
    return text + (f".{rest:03}".rstrip("0") if rest else "")


def _summary(uses: dict[int, BufferUse], chosen: list[int]) -> str:
    names = [BUFFER_NAMES[number] for number in chosen]
    total, now, held, spans = [], [], [], []
    for number in chosen:
        use = uses[number]
        total.append(f"{use.total_bytes}/{use.total_count}")
        now.append(f"{sum(use.sizes)}/{len(use.entries)}" if use.entries else "")
        held.append(str(use.held_bytes) if use.entries else "")
        spans.append(_span_ms(use))
    all_of = [uses[number] for number in chosen]
    rows = [
        _row("size/num", names, "Total", start=1 + len("size/num")),
        _row("Total", total, f"{sum(u.total_bytes for u in all_of)}/{sum(u.total_count for u in all_of)}"),
        _row("Now", now, f"{sum(sum(u.sizes) for u in all_of)}/{sum(len(u.entries) for u in all_of)}"),
        _row("Logspan", [span_text(span) for span in spans], span_text(_longest_ms(all_of, spans))),
        _row("Overhead", held, str(sum(u.held_bytes for u in all_of if u.entries))),
    ]
    return "\n".join(rows)


def _row(head: str, cells: Iterable[str], total: str, *, start: int = _FIRST_COLUMN - 1) -> str:
    """Columns of 19 characters; what is too long moves the next ones, until there is room again."""
    text, position = head, start
    for cell in cells:
        if cell:
            text = text.ljust(position) + cell
        position += _COLUMN
    return text.ljust(position) + total


def _span_ms(use: BufferUse) -> int:
    span = use.newest_ns // 10**6 - use.oldest_ns // 10**6
    return span if 0 < span <= _MONTH_MS else 0


def _longest_ms(uses: list[BufferUse], spans: list[int]) -> int:
    valid = [use for use, span in zip(uses, spans, strict=True) if span]
    longest = max(spans, default=0)
    if not valid:
        return 0
    overall = max(u.newest_ns // 10**6 for u in valid) - min(u.oldest_ns // 10**6 for u in valid)
    return overall if longest < overall < sum(spans) else longest


def _users_table(number: int, use: BufferUse) -> str:
    rows: dict[int, _Row] = {}
    for entry, size in zip(use.entries, use.sizes, strict=True):
        _count(rows, entry.uid, entry, size)
    pruned = number in _PRUNED_BUFFERS
    head = line(
        f"Chattiest UIDs in {BUFFER_NAMES[number]} log buffer:", "Size", "+/-  Pruned" if pruned else ""
    )
    head += line("UID   PACKAGE", "BYTES", "NUM" if pruned else "")
    return _table(head, rows, lambda uid, row: _named(str(uid), row.size, _USER_NAMES.get(uid), 6))


def _process_table(kept: list[tuple[Entry, int]], name_of: Callable[[int], str | None], pid: int) -> str:
    rows: dict[int, _Row] = {}
    for entry, size in kept:
        _count(rows, entry.pid, entry, size)
    head = line("Logging for this PID:" if pid else "Chattiest PIDs:", "Size", "Pruned")
    head += line("  PID/UID   COMMAND LINE", "BYTES", "NUM")
    return _table(head, rows, lambda key, row: _owned(key, row, name_of(key)))


def _thread_table(kept: list[tuple[Entry, int]], name_of: Callable[[int], str | None], pid: int) -> str:
    rows: dict[int, _Row] = {}
    for entry, size in kept:
        _count(rows, entry.tid, entry, size)
    head = line(f"Chattiest TIDs{_for(pid)}:", "Size", "Pruned") + line("  TID/UID   COMM", "BYTES", "NUM")

    def show(key: int, row: _Row) -> str:
        name = name_of(row.pid) if row.pid is not None else None
        return _owned(key, row, name.rpartition("/")[2][:_COMM_CHARACTERS] if name else None)

    return _table(head, rows, show)


def _event_table(kept: list[tuple[Entry, int]], pid: int) -> str:
    rows: dict[int, _Row] = {}
    for entry, size in kept:
        if entry.log_id == EVENTS:
            _count(rows, int(entry.tag.strip(b"[]")), entry, size)
    head = line(f"Chattiest events log buffer TAGs{_for(pid)}:", "Size", "Prune")
    head += line("    TAG/UID   TAGNAME", "BYTES", "NUM")

    def show(key: int, row: _Row) -> str:
        return line(f"{key:7}" + (f"/{row.uid}" if row.uid is not None else ""), str(row.size), "")

    return _table(head, rows, show)


def _tag_table(kept: list[tuple[Entry, int]], pid: int) -> str:
    rows: dict[str, _Row] = {}
    for entry, size in kept:
        if entry.log_id not in BINARY_BUFFERS or entry.log_id == EVENTS:
            _count(rows, entry.tag.decode("utf-8", "replace"), entry, size)
    head = line(f"Chattiest TAGs{_for(pid)}:", "Size", "")
    head += line("  TID/PID/UID   LOG_TAG NAME", "BYTES", "")

    def show(key: str, row: _Row) -> str:
        has_thread = row.tid is not None and row.tid != row.pid
        process = "" if row.pid is None else ("/" if has_thread else "") + str(row.pid)
        width = max(0, 9 - len(process))
        name = (f"{row.tid:{width}}" if has_thread else " " * width) + process
        name += "" if row.uid is None else f"/{row.uid}"
        return _named(name, row.size, key, 16)

    return _table(head, rows, show)


def _for(pid: int) -> str:
    return f" for PID {pid}" if pid else ""


def _count(rows: dict[_Key, _Row], key: _Key, entry: Entry, size: int) -> None:
    first = key not in rows
    rows.setdefault(key, _Row()).add(entry, size, first=first)


def _table(head: str, rows: dict[_Key, _Row], show: Callable[[_Key, _Row], str]) -> str:
    """The biggest first, those above a hundredth of the biggest."""
    ranked = sorted(rows.items(), key=lambda item: -item[1].size)[:_MAX_ROWS]
    shown = [show(key, row) for key, row in ranked if row.size > ranked[0][1].size // 100]
    return "\n\n" + head + "".join(shown) if shown else ""


def _owned(number: int, row: _Row, name: str | None) -> str:
    """A row of a process or a thread; where its name is not known, the user's stands for it."""
    uid = row.uid if row.uid is not None else 0xFFFFFFFF
    return _named(f"{number:5}/{uid}", row.size, name or _USER_NAMES.get(uid), 12)


def _named(key: str, size: int, name: str | None, indent: int) -> str:
    """A row whose name is cut in front when there is no room for it (LogStatistics::FormatTmp)."""
    if name is None:
        return line(key, str(size), "")
    blanks = max(indent - len(key), 1)
    room = _LINE_CHARACTERS - _PRUNED_CHARACTERS - len(str(size)) - len(key) - blanks - 2
    while room < len(name) and blanks > 1:
        room, blanks = room + 1, blanks - 1
    if room < len(name):
        name = "..." + name[len(name) - max(room - 3, 1) :]
    return line(key + " " * blanks + name, str(size), "")
