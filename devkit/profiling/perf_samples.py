"""The samples of a perf.data as columns of a profile: a million of them take a few seconds."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from devkit.profiling.builder import ProfileBuilder
from devkit.profiling.perf_file import Attr, PerfFile, damaged
from devkit.profiling.perf_maps import Spaces
from devkit.profiling.perf_records import HEADER, SAMPLE, SWITCH, U64, Batch, head
from devkit.profiling.perf_stacks import MISC_CPU, Chain, Stacks
from devkit.profiling.perf_waiting import Waiting

MOST = (1 << 63) - 1
_MISC_SWITCH_OUT = 1 << 13
# Bits of sample_type, in the order of their fields; behind those with one of 64 bits come READ and CALLCHAIN.
IDENTIFIER, IP, TID, TIME, ADDR, ID = 1 << 16, 1, 2, 4, 8, 64
STREAM_ID, CPU, PERIOD, READ, CALLCHAIN = 512, 128, 256, 16, 32
_FIXED = (IDENTIFIER, IP, TID, TIME, ADDR, ID, STREAM_ID, CPU, PERIOD)
_TAKEN = (IP, TID, TIME, PERIOD)


class Layout:
    """Where the fields of one event's samples are.

    Attributes:
        unpack: (misc, size, ip, thread, time, weight, length of the chain) of the sample at a place; b"" for
            those that there are none of.
        size: of the fixed fields.
        chain: whether a call chain follows.
        read_format: of what lies before the chain; -1: nothing does.
        identifier: where the event's id is; -1: nowhere.
    """

    def __init__(self, attr: Attr) -> None:
        bits = attr.sample_type
        form, at = "<4xHH", HEADER.size
        self.identifier = -1
        for bit in _FIXED:
            if bits & bit:
                if bit in (IDENTIFIER, ID) and self.identifier < 0:
                    self.identifier = at
                form += "Q" if bit in _TAKEN else "8x"
                at += 8
            elif bit in _TAKEN:
                form += "0s"
        self.size = at
        self.chain = bool(bits & CALLCHAIN)
        self.read_format = attr.read_format if bits & READ else -1
        self.plain = self.chain and self.read_format < 0
        self.unpack = struct.Struct(form + ("Q" if self.plain else "0s")).unpack_from
        self.least = at + (8 if self.plain else 0)
        self.timed = bool(bits & TIME)
        self.weight = None if bits & PERIOD else attr.period or 1


def read_samples(
    file: PerfFile,
    batches: Iterable[Batch],
    builder: ProfileBuilder,
    spaces: Spaces,
    stacks: Stacks,
    events: Sequence[int],
    event_of_id: Mapping[int, int],
    waits: Sequence[bool] | None,
) -> None:
    """Take all samples in.

    Args:
        events: the builder's index of each of the file's events.
        event_of_id: which event a counter's id belongs to.
        waits: of each event, whether its samples begin off-CPU time; None: the recording is not of such time.

    Raises:
        FileError, struct.error: they are damaged.
    """
    layouts = [Layout(attr) for attr in file.attrs]
    several = len(layouts) > 1
    layout, event, index = layouts[0], events[0], 0
    unpack, least, plain, timed, weight_of = _parts(layout)
    single = spaces.single
    # Of each process and thread: its index, and the stacks of a process whose mappings never changed.
    known: dict[Any, tuple[int, dict[Chain, int] | None]] = {}
    waiting = Waiting() if waits is not None else None
    add_stack, add_thread, add_weight, add_time, add_event = (c.append for c in builder.columns)
    for data, samples, others in batches:
        # Off-CPU time ends with a record that is no sample.
        for at in samples if waiting is None else sorted(samples + others):
            if waiting is not None and head(data, at)[0] != SAMPLE:
                _back_on_cpu(waiting, data, at)
                continue
            if several:
                place = layouts[0].identifier
                index = event_of_id.get(U64.unpack_from(data, at + place)[0], 0) if place >= 0 else 0
                if index >= len(layouts):
                    raise damaged(file.path, f"a sample is of event {index}, which there is not")
                layout, event = layouts[index], events[index]
                unpack, least, plain, timed, weight_of = _parts(layout)
            misc, size, ip, who, time, weight, length = unpack(data, at)
            if least > size:
                raise damaged(file.path, f"a sample of {size} bytes is too short")
            seen = known.get(who)
            if seen is None:
                pid = (who or 0) & 0xFFFFFFFF
                space = single.get(pid)
                thread = builder.thread(pid, (who or 0) >> 32)
                seen = known[who] = thread, stacks.of(space) if space is not None else None
            if not timed:
                time = 0
            if weight_of is not None:
                weight = weight_of
            thread, chains = seen
            if chains is None:
                chains = stacks.of(spaces.at((who or 0) & 0xFFFFFFFF, time))
            chain = b""
            begin = at + least
            if not plain and layout.chain:
                begin += _read_bytes(layout.read_format, data, begin) + 8
                length = U64.unpack_from(data, begin - 8)[0]
            if length:
                end = begin + 8 * length
                if end > at + size:
                    raise damaged(file.path, f"a call chain of {length} calls does not fit")
                chain = data[begin:end]
            stack = chains[chain, ip, misc & MISC_CPU]
            if waiting is not None and waits is not None:
                waiting.add(who, time, thread, event, stack, weight, waits=waits[index])
                continue
            add_stack(stack)
            add_thread(thread)
            add_weight(weight if weight <= MOST else MOST)
            add_time(time & MOST)
            add_event(event)
    if waiting is not None:
        for row in waiting.finish():
            builder.sample(*row)


def _parts(layout: Layout) -> tuple[Any, int, bool, bool, int | None]:
    return layout.unpack, layout.least, layout.plain, layout.timed, layout.weight


def _back_on_cpu(waiting: Waiting, data: Any, at: int) -> None:
    kind, misc, size = head(data, at)
    # Its trailer is all it has.
    if kind == SWITCH and not misc & _MISC_SWITCH_OUT and size >= 24:
        waiting.back(U64.unpack_from(data, at + 8)[0], U64.unpack_from(data, at + 16)[0])


def _read_bytes(read_format: int, data: Any, at: int) -> int:
    """How many bytes PERF_SAMPLE_READ takes."""
    if read_format < 0:
        return 0
    times = (read_format & 1) + (read_format >> 1 & 1)
    values = 1 + (read_format >> 2 & 1) + (read_format >> 4 & 1)
    if read_format & 8:
        return 8 + 8 * times + 8 * values * int(U64.unpack_from(data, at)[0])
    return 8 * times + 8 * values
