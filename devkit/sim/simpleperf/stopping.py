"""Samples without the kernel's help: running threads are stopped for a moment (ptrace), their stacks copied.

For machines that refuse perf_event_open, as Docker's usual filter does. A sample weighs as much as the
processor time its thread has had since the last one, so that shares stay true when a round comes late.
"""

from __future__ import annotations

import ctypes
import errno
import os
import time
from typing import Any

from devkit.sim.crashes.memory import Memory
from devkit.sim.crashes.registers import processor
from devkit.sim.simpleperf import writer
from devkit.sim.simpleperf.sampling import Stream
from devkit.sim.simpleperf.spaces import name_of, threads_of, unwind

_SEIZE, _INTERRUPT, _DETACH, _CONT, _GETREGSET = 0x4206, 0x4207, 17, 7, 0x4204
_NT_PRSTATUS = 1
_WALL = 0x40000000
_EVENT_STOP = 128
_GLANCE_S = 0.00005
_MAPS_S = 0.05
_STACK_BYTES = 16384
_PAGE = 4096

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _Iovec(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("size", ctypes.c_size_t)]


class StoppingSampler:
    """Stops the threads of processes, round by round. To be used by one thread only.

    Args:
        stack_bytes: how much of a stack is copied.
        dwarf: unwind by call frame information.
        chains: calls are wanted at all.

    Raises:
        OSError: a thread cannot be traced.
    """

    def __init__(
        self, stream: Stream, pids: list[int], frequency: int, *, dwarf: bool, chains: bool,
        tids: list[int] | None = None,
    ) -> None:  # fmt: skip
        self.ids = [1]
        self._stream = stream
        self._pause_s = 1.0 / max(frequency, 1)
        self._dwarf, self._chains = dwarf, chains
        self._processor = processor(os.uname().machine)
        self._pids = pids
        self._only = set(tids or ())
        self._ran: dict[tuple[int, int], int] = {}
        self._described: set[int] = set()
        self._maps: dict[int, str] = {}
        self._maps_again = 0.0
        self._names: dict[int, str] = {}
        # Threads that have ended; their numbers stay in /proc for a moment.
        self._gone: set[int] = set()
        self._next = time.monotonic()
        for pid in pids:
            for tid in self._threads(pid):
                self._seize(pid, tid)

    def wait(self, timeout_s: float) -> None:
        """One round, at its time."""
        pause = self._next - time.monotonic()
        if pause > 0:
            time.sleep(min(pause, timeout_s))
        self._next = max(self._next + self._pause_s, time.monotonic())
        self.drain()

    def drain(self) -> None:
        """Sample each thread that has run since the last time."""
        if time.monotonic() >= self._maps_again:
            self._maps_again = time.monotonic() + _MAPS_S
            for pid in self._pids:
                self._follow_maps(pid)
        for pid in self._pids:
            for tid in self._threads(pid):
                if tid in self._gone:
                    continue
                if (pid, tid) not in self._ran:
                    try:
                        self._seize(pid, tid)
                    except OSError:
                        continue
                self._look(pid, tid)

    def close(self) -> None:
        """Let all threads go."""
        for _, tid in list(self._ran):
            if self._stop(tid):
                _ptrace(_DETACH, tid, 0)
        self._ran.clear()

    def _threads(self, pid: int) -> list[int]:
        return [tid for tid in threads_of(pid) if not self._only or tid in self._only]

    def _seize(self, pid: int, tid: int) -> None:
        if _ptrace(_SEIZE, tid, 0) < 0:
            number = ctypes.get_errno()
            raise OSError(number, os.strerror(number))
        self._ran[(pid, tid)] = _runtime_ns(pid, tid)
        if pid not in self._described:
            self._described.add(pid)
            self._stream.describe(pid, [tid], name_of, self.ids[0])

    def _look(self, pid: int, tid: int) -> None:
        ran = _runtime_ns(pid, tid)
        period = ran - self._ran[(pid, tid)]
        if period <= 0:
            self._let_go_on(tid)
            return
        if not self._stop(tid):
            return
        self._ran[(pid, tid)] = ran
        now = time.monotonic_ns()
        name = name_of(pid, tid)
        if name and self._names.get(tid) != name:
            self._names[tid] = name
            self._stream.records.append((now, writer.comm(pid, tid, name, now, self.ids[0])))
        try:
            size = 8 * len(self._processor.ptrace_names)
            buffer = ctypes.create_string_buffer(1024)
            part = _Iovec(ctypes.cast(buffer, ctypes.c_void_p), len(buffer))
            if _ptrace(_GETREGSET, tid, _NT_PRSTATUS, ctypes.addressof(part)) < 0:
                return
            registers = self._processor.from_ptrace(buffer.raw[: max(size, part.size)])
            chain = [registers.get(self._processor.pc, 0)]
            if self._stream.space(pid).find(chain[0]) is None:
                self._follow_maps(pid)
            if self._chains:
                stack = _stack(pid, registers.get(self._processor.stack, 0))
                chain = unwind(
                    registers, stack, self._stream.space(pid), self._stream.files, self._processor,
                    dwarf=self._dwarf,
                ) or chain  # fmt: skip
            self._stream.add_sample(pid, tid, now, self.ids[0], 0, period, chain)
        finally:
            _ptrace(_CONT, tid, 0)

    def _follow_maps(self, pid: int) -> None:
        """Look whether it has mapped something, or has become another program."""
        try:
            with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
                text = "\n".join(line for line in file if " r-x" in line)
        except OSError:
            return
        if text != self._maps.get(pid):
            self._maps[pid] = text
            self._stream.forget(pid)
            self._stream.describe(pid, [pid], name_of, self.ids[0], time.monotonic_ns())

    def _stop(self, tid: int) -> bool:
        """Let a thread stand still; False when it has ended."""
        if _ptrace(_INTERRUPT, tid, 0) < 0:
            return False
        while True:
            try:
                ended, status = os.waitpid(tid, _WALL | os.WNOHANG)
            except ChildProcessError:
                return False
            if not ended:
                # The end of a process's first thread is told when those of its other threads were taken.
                for _, other in list(self._ran):
                    if other != tid:
                        self._let_go_on(other)
                time.sleep(_GLANCE_S)
                continue
            if not os.WIFSTOPPED(status):
                self._forget(tid)
                return False
            if status >> 16 == _EVENT_STOP:
                return True
            _ptrace(_CONT, tid, _signal_of(status))

    def _let_go_on(self, tid: int) -> None:
        """A signal on its way stops a thread; one that has ended is kept until its tracer has seen it."""
        try:
            ended, status = os.waitpid(tid, _WALL | os.WNOHANG)
        except ChildProcessError:
            return
        if ended and os.WIFSTOPPED(status):
            _ptrace(_CONT, tid, _signal_of(status))
        elif ended:
            self._forget(tid)

    def _forget(self, tid: int) -> None:
        for key in [key for key in self._ran if key[1] == tid]:
            del self._ran[key]
            self._gone.add(tid)


def _signal_of(status: int) -> int:
    """The signal that a stop is about, 0 for the others."""
    return os.WSTOPSIG(status) if status >> 16 == 0 else 0


def _ptrace(request: int, tid: int, data: int, address: int | None = None) -> int:
    if address is not None:
        result: int = _libc.ptrace(request, tid, data, address)
    else:
        result = _libc.ptrace(request, tid, None, data)
    return result


def _runtime_ns(pid: int, tid: int) -> int:
    try:
        with open(f"/proc/{pid}/task/{tid}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return 0


def _stack(pid: int, at: int) -> bytes:
    try:
        memory = Memory(pid)
    except OSError:
        return b""
    try:
        data = b""
        while len(data) < _STACK_BYTES:
            piece = _PAGE - (at + len(data)) % _PAGE
            data += memory.read(at + len(data), piece)
        return data
    except OSError:
        return data
    finally:
        memory.close()


def may_fall_back(error: OSError) -> bool:
    """Whether a refusal is of the machine, not of what was asked."""
    return error.errno in (errno.EPERM, errno.EACCES, errno.ENOSYS)
