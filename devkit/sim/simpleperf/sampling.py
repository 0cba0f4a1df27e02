"""Samples from the kernel (perf_event_open): records are kept as they come, stacks unwound at once."""

from __future__ import annotations

import os
import select
import struct
from collections.abc import Callable

from devkit.sim.crashes.registers import processor
from devkit.sim.simpleperf import kernel, writer
from devkit.sim.simpleperf.kernel import EventAttr, Ring
from devkit.sim.simpleperf.spaces import Files, Place, Space, read_space, unwind

_HEADER = struct.Struct("<IHH")
# Up to the period: IP, PID, TID, TIME, ID, CPU, PERIOD.
_FIXED = struct.Struct("<QIIQQIIQ")
_SAMPLE_TIME_AT = 24
_TRAILER_BYTES = 32
_COMM_EXEC = 1 << 13
_CONTEXT = (1 << 64) - 4095


class Stream:
    """Everything that was recorded, as (time, record), and what is known of the processes' memory.

    Args:
        dwarf: samples hold a piece of their stack, which is unwound.
    """

    def __init__(self, attr: EventAttr, *, dwarf: bool) -> None:
        self.attr = attr
        self.records: list[tuple[int, bytes]] = []
        self.files = Files()
        self.samples = self.lost = 0
        self.hit: set[str] = set()
        self._dwarf = dwarf
        self._spaces: dict[int, Space] = {}
        self._processor = processor(os.uname().machine)
        self._registers = kernel.REGISTERS[os.uname().machine][1]
        self.on_switch: Callable[[int, int, int, bool], None] | None = None

    def space(self, pid: int) -> Space:
        """What lies in a process's memory; read the first time."""
        space = self._spaces.get(pid)
        if space is None:
            space = self._spaces[pid] = read_space(pid)
        return space

    def forget(self, pid: int) -> None:
        """Its memory is to be looked at anew."""
        self._spaces.pop(pid, None)

    def describe(
        self, pid: int, tids: list[int], names: Callable[[int, int], str], event_id: int, time: int = 0
    ) -> None:
        """Write down what a process is that runs already."""
        for tid in tids:
            self.records.append((time, writer.comm(pid, tid, names(pid, tid), time, event_id)))
        for place in self.space(pid).places:
            self.records.append(
                (time, writer.mmap2(pid, place.start, place.end, place.offset, place.path, time, event_id))
            )

    def add_sample(
        self, pid: int, tid: int, time: int, event_id: int, cpu: int, period: int, chain: list[int],
        attr: EventAttr | None = None,
    ) -> None:  # fmt: skip
        """One sample, its innermost address first."""
        self.samples += 1
        for address in chain:
            place = self.space(pid).find(address)
            if place is not None:
                self.hit.add(place.path)
        record = writer.sample(attr or self.attr, pid, tid, time, event_id, cpu, period, chain)
        self.records.append((time, record))

    def take(self, record: bytes) -> None:
        """One as the kernel wrote it; the earlier ones have been taken, of all processors."""
        kind, misc, _ = _HEADER.unpack_from(record)
        if kind == kernel.SAMPLE:
            self._sample(record)
            return
        time = time_of(record)
        if kind == kernel.SWITCH:
            pid, tid = struct.unpack_from("<II", record, len(record) - _TRAILER_BYTES)
            if self.on_switch is not None:
                self.on_switch(pid, tid, time, bool(misc & kernel.SWITCH_OUT))
        elif kind == kernel.LOST:
            self.lost += struct.unpack_from("<Q", record, 16)[0]
        elif kind == kernel.COMM and misc & _COMM_EXEC:
            self._spaces[struct.unpack_from("<I", record, 8)[0]] = Space()
        elif kind == kernel.MMAP2:
            pid, _, start, length, offset = struct.unpack_from("<IIQQQ", record, 8)
            path = record[72 : len(record) - _TRAILER_BYTES].partition(b"\0")[0]
            place = Place(start, start + length, offset, path.decode("utf-8", "surrogateescape"))
            self.space(pid).add(place)
        elif kind == kernel.FORK:
            pid, parent = struct.unpack_from("<II", record, 8)
            if pid != parent:
                self._spaces[pid] = Space(list(self.space(parent).places))
        self.records.append((time, record))

    def _sample(self, record: bytes) -> None:
        ip, pid, tid, time, event_id, cpu, _, period = _FIXED.unpack_from(record, 8)
        chain = [ip]
        at = 8 + _FIXED.size
        if self.attr.sample_type & kernel.CALLCHAIN:
            count = struct.unpack_from("<Q", record, at)[0]
            calls = [c for c in struct.unpack_from(f"<{count}Q", record, at + 8) if c < _CONTEXT]
            at += 8 + 8 * count
            if not self._dwarf:
                # Return addresses; what is wanted lies in the call.
                back = 1 if self._processor.call_bytes == 1 else 2
                chain += [call - back for call in calls[1:] if call > back]
        if self._dwarf:
            chain = self._unwound(record, at, pid) or chain
        self.add_sample(pid, tid, time, event_id, cpu, period, chain)

    def _unwound(self, record: bytes, at: int, pid: int) -> list[int]:
        if struct.unpack_from("<Q", record, at)[0] == 0:
            return []  # no registers: it was in the kernel
        values = struct.unpack_from(f"<{len(self._registers)}Q", record, at + 8)
        at += 8 + 8 * len(values)
        size = struct.unpack_from("<Q", record, at)[0]
        used = struct.unpack_from("<Q", record, at + 8 + size)[0] if size else 0
        stack = record[at + 8 : at + 8 + min(used, size)]
        registers = dict(zip(self._registers, values, strict=True))
        return unwind(registers, stack, self.space(pid), self.files, self._processor, dwarf=True)


def split(data: bytes) -> list[bytes]:
    """The records of one processor's buffer."""
    found, at = [], 0
    while at + _HEADER.size <= len(data):
        size = _HEADER.unpack_from(data, at)[2]
        if size < _HEADER.size:
            break
        found.append(data[at : at + size])
        at += size
    return found


def time_of(record: bytes) -> int:
    """When it was written (ns); one that is no sample says so in its last bytes."""
    is_sample = _HEADER.unpack_from(record)[0] == kernel.SAMPLE
    at = _SAMPLE_TIME_AT if is_sample else len(record) - _TRAILER_BYTES + 8
    time: int = struct.unpack_from("<Q", record, at)[0]
    return time


class KernelSampler:
    """Counters of threads on every processor, with one buffer for each.

    Records are handed on in the order of their times. A program that is moved to another processor while it
    starts would else lose its memory: exec empties it, and what it mapped later would be read first.

    Raises:
        OSError: the kernel refuses.
    """

    def __init__(self, stream: Stream, tids: list[int], *, on_exec: bool = False) -> None:
        self._stream = stream
        self.ids: list[int] = []
        self._fds: list[int] = []
        self._rings: list[Ring] = []
        self._later: list[bytes] = []
        self._poll = select.poll()
        attr = stream.attr
        try:
            for cpu in sorted(os.sched_getaffinity(0)):
                first = -1
                for tid in tids:
                    try:
                        fd = kernel.open_event(attr, tid, cpu)
                    except ProcessLookupError:
                        continue  # a thread that ended meanwhile
                    self._fds.append(fd)
                    self.ids.append(kernel.id_of(fd))
                    if first < 0:
                        first = fd
                        self._rings.append(kernel.open_ring(fd))
                        self._poll.register(fd, select.POLLIN)
                    else:
                        kernel.send_to(fd, first)
            if not self._fds:
                raise ProcessLookupError("no thread is left")
            if not on_exec:
                for fd in self._fds:
                    kernel.enable(fd)
        except OSError:
            self.close()
            raise

    def wait(self, timeout_s: float) -> None:
        """Take what comes within this time."""
        self._poll.poll(timeout_s * 1000)
        self.drain()

    def drain(self) -> None:
        """Take what is there, but for the newest of all where an earlier one may be on its way."""
        first = self._later + self._read()
        newest = max(map(time_of, first), default=0)
        # While one buffer was read more came into those before it, some of it earlier than what followed.
        second = self._read()
        self._later = [record for record in second if time_of(record) > newest]
        self._take(first + [record for record in second if time_of(record) <= newest])

    def _read(self) -> list[bytes]:
        return [record for ring in self._rings for record in split(ring.drain())]

    def _take(self, records: list[bytes]) -> None:
        for record in sorted(records, key=time_of):
            self._stream.take(record)

    def close(self) -> None:
        """Stop counting."""
        self._take(self._later)
        self._later = []
        for ring in self._rings:
            ring.close()
        for fd in self._fds:
            os.close(fd)
        self._rings, self._fds = [], []
