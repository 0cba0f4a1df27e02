"""--trace-offcpu: a sample of sched:sched_switch for each time a thread leaves its processor.

The kernel tells when (PERF_RECORD_SWITCH). Where it waits is read from /proc/PID/task/TID/syscall and its
stack while it does; of a wait that is over before it was looked at only the time is known.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from devkit.sim.crashes.memory import Memory
from devkit.sim.crashes.registers import processor
from devkit.sim.simpleperf import kernel, writer
from devkit.sim.simpleperf.kernel import EventAttr
from devkit.sim.simpleperf.sampling import Stream
from devkit.sim.simpleperf.spaces import unwind

# No counter of the kernel has this id.
EVENT_ID = (1 << 62) + 7
_CONFIG = 316
_STACK_BYTES = 8192
_PAGE = 4096


@dataclass
class _Wait:
    pid: int
    tid: int
    since: int


class Waits:
    """Turns switches into samples."""

    def __init__(self, stream: Stream, event: str) -> None:
        self._stream = stream
        base = stream.attr
        self._attr = EventAttr(
            kernel.TRACEPOINT, _CONFIG, 1, base.sample_type, base.flags & ~kernel.FREQ,
            base.registers, base.stack_bytes,
        )  # fmt: skip
        self._open: dict[int, _Wait] = {}
        self._processor = processor(os.uname().machine)
        stream.on_switch = self._switched

    def events(self) -> list[writer.Event]:
        """The event of these samples."""
        return [writer.Event("sched:sched_switch", self._attr, (EVENT_ID,))]

    def look(self) -> None:
        """See where those wait that left since the last time."""
        for wait in list(self._open.values()):
            chain = self._chain(wait)
            if chain:
                self._stream.add_sample(wait.pid, wait.tid, wait.since, EVENT_ID, 0, 1, chain, self._attr)
            self._open.pop(wait.tid, None)

    def _switched(self, pid: int, tid: int, time: int, out: bool) -> None:
        if out:
            self._open[tid] = _Wait(pid, tid, time)
        else:
            self._open.pop(tid, None)
            record = writer.switch_in(pid, tid, time, EVENT_ID)
            self._stream.records.append((time, record))

    def _chain(self, wait: _Wait) -> list[int]:
        try:
            with open(f"/proc/{wait.pid}/task/{wait.tid}/syscall", encoding="ascii") as file:
                words = file.read().split()
            if len(words) < 3:
                return []  # running
            stack, pc = int(words[-2], 16), int(words[-1], 16)
            memory = Memory(wait.pid)
        except (OSError, ValueError):
            return []
        data = b""
        try:
            while len(data) < _STACK_BYTES:
                data += memory.read(stack + len(data), _PAGE - (stack + len(data)) % _PAGE)
        except OSError:
            pass
        finally:
            memory.close()
        registers = {self._processor.pc: pc, self._processor.stack: stack}
        space = self._stream.space(wait.pid)
        return unwind(registers, data, space, self._stream.files, self._processor, dwarf=True)
