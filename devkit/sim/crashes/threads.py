"""Stopping another process's threads with ptrace, and reading their registers."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path
from typing import Any

from devkit.sim.crashes.registers import Processor, Registers

_PTRACE_DETACH = 17
_PTRACE_GETREGSET = 0x4204
_PTRACE_SEIZE = 0x4206
_PTRACE_INTERRUPT = 0x4207
_NT_PRSTATUS = 1
_WALL = 0x40000000
STOP_TIMEOUT_S = 5.0

_libc: Any = ctypes.CDLL(None, use_errno=True)
_libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
_libc.ptrace.restype = ctypes.c_long


class _Part(ctypes.Structure):
    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class StoppedThreads:
    """All threads of a process, standing still until `release`.

    Args:
        main: the thread that must be caught; others may be gone or belong to somebody else.

    Raises:
        OSError: the main thread cannot be caught: it is gone, or traced already.
    """

    def __init__(self, pid: int, main: int) -> None:
        self._pid = pid
        self.tids: list[int] = []
        try:
            # New threads may come while others are caught.
            while new := [tid for tid in self._listed() if tid not in self.tids]:
                caught = [tid for tid in new if self._catch(tid, required=tid == main)]
                if not caught:
                    break
            if main not in self.tids:
                raise OSError(f"thread {main} is gone")
        except BaseException:
            self.release()
            raise

    def registers(self, tid: int, processor: Processor) -> Registers:
        """A thread's registers.

        Raises:
            OSError: the thread is gone.
        """
        buffer = ctypes.create_string_buffer(1024)
        part = _Part(ctypes.addressof(buffer), len(buffer))
        _ptrace(_PTRACE_GETREGSET, tid, _NT_PRSTATUS, ctypes.addressof(part))
        return processor.from_ptrace(buffer.raw[: part.length])

    def release(self) -> None:
        """Let all threads go on."""
        for tid in self.tids:
            try:
                _ptrace(_PTRACE_DETACH, tid, 0, 0)
            except OSError:
                pass
        self.tids = []

    def _listed(self) -> list[int]:
        return sorted(int(name) for name in os.listdir(f"/proc/{self._pid}/task"))

    def _catch(self, tid: int, *, required: bool) -> bool:
        try:
            _ptrace(_PTRACE_SEIZE, tid, 0, 0)
        except OSError:
            if required:
                raise
            return False
        self.tids.append(tid)
        _ptrace(_PTRACE_INTERRUPT, tid, 0, 0)
        deadline = time.monotonic() + STOP_TIMEOUT_S
        while time.monotonic() < deadline:
            pid, _ = os.waitpid(tid, os.WNOHANG | _WALL)
            if pid:
                return True
            time.sleep(0.0005)
        return False


def tracer_of(pid: int) -> tuple[int, str] | None:
    """Who traces a process: pid and name; None when nobody does."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
        tracer = next(int(line.split()[1]) for line in lines if line.startswith("TracerPid:"))
    except (OSError, StopIteration):
        return None
    return (tracer, thread_name(tracer, tracer)) if tracer else None


def thread_name(pid: int, tid: int) -> str:
    """The name of a thread, `<unknown>` when it is gone."""
    try:
        name = Path(f"/proc/{pid}/task/{tid}/comm").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "<unknown>"
    return name.rstrip("\n")


def _ptrace(request: int, tid: int, address: int, data: int) -> None:
    if _libc.ptrace(request, tid, address, data) < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
