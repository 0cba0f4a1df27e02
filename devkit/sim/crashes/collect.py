"""Collects what a tombstone tells from a process whose threads stand still."""

from __future__ import annotations

import os
import re
import time
from pathlib import Path

from devkit.sim.clock import now_ns
from devkit.sim.crashes.memory import Memory, read_maps
from devkit.sim.crashes.registers import Processor, Registers
from devkit.sim.crashes.report import Crash, MapLine, MemoryDump, ThreadReport, probable_cause
from devkit.sim.crashes.signals import SIGABRT, SignalInfo
from devkit.sim.crashes.threads import StoppedThreads, thread_name
from devkit.sim.crashes.unwind import Unwinder
from devkit.sim.logs.read import process_lines

_DUMPED_BYTES = 256
_BEFORE_BYTES = 32
_PAGE = 4096
_MAX_ADDRESS = (1 << 64) - 1
_MAX_MESSAGE_BYTES = 64 * 1024
# Where glibc keeps what it says before it aborts (debug/assert): struct { unsigned size; char text[]; }.
_ABORT_MESSAGE = b"__abort_msg"
_LIBC = re.compile(r"/libc(-[\d.]+)?\.so")


class Collector:
    """Everything about one crash.

    Args:
        context: where the signal handler's ucontext_t lies in the process.
    """

    def __init__(
        self,
        pid: int,
        tid: int,
        signal: SignalInfo,
        context: int,
        processor: Processor,
        stopped: StoppedThreads,
    ) -> None:
        self._pid = pid
        self._tid = tid
        self._signal = signal
        self._processor = processor
        self._stopped = stopped
        self._memory = Memory(pid)
        self._maps = read_maps(pid)
        self._unwinder = Unwinder(self._memory, self._maps, processor)
        self._context = context

    def collect(self, properties: dict[str, str], *, api_level: int, uid: int, message: str = "") -> Crash:
        """The crash.

        Args:
            message: what the program aborts with, if that is known from elsewhere.

        Raises:
            OSError: the process is gone, or its registers cannot be read.
        """
        data = self._memory.read(self._context, self._processor.context_bytes)
        registers = self._processor.from_context(data)
        main = ThreadReport(
            self._tid,
            thread_name(self._pid, self._tid),
            registers,
            self._unwinder.backtrace(registers),
            self._dumps(registers),
        )
        others = [self._thread(tid) for tid in sorted(self._stopped.tids) if tid != self._tid]
        if not message and self._signal.number == SIGABRT:
            message = self._abort_message()
        debuggable = properties.get("ro.debuggable") == "1"
        return Crash(
            api_level=api_level,
            fingerprint=properties.get("ro.build.fingerprint", "unknown"),
            revision=properties.get("ro.revision", "0"),
            processor=self._processor,
            timestamp=_timestamp(),
            uptime_s=_uptime_s(self._pid),
            command_line=_command_line(self._pid),
            pid=self._pid,
            uid=uid,
            signal=self._signal,
            abort_message=message,
            threads=[main, *others],
            maps=self._map_lines(),
            cause=probable_cause(self._signal, registers.get(self._processor.stack, 0), self._maps),
            open_files=_open_files(self._pid),
            logs={name: process_lines(name, self._pid) for name in ("system", "main")} if debuggable else {},
        )

    def close(self) -> None:
        """Let go of the process."""
        self._memory.close()

    def _thread(self, tid: int) -> ThreadReport:
        try:
            registers = self._stopped.registers(tid, self._processor)
        except OSError:
            registers = {}
        frames = self._unwinder.backtrace(registers) if registers else []
        return ThreadReport(tid, thread_name(self._pid, tid), registers, frames)

    def _dumps(self, registers: Registers) -> list[MemoryDump]:
        dumps = []
        for name, number in self._processor.names.items():
            address = registers.get(number, 0)
            mapping = self._maps.find(address)
            start = address & ~15
            start -= _BEFORE_BYTES if start >= _PAGE + _BEFORE_BYTES else 0
            if not _PAGE <= start <= _MAX_ADDRESS - _DUMPED_BYTES:
                continue
            start, data = self._readable(start)
            if data:
                dumps.append(MemoryDump(name, mapping.name if mapping else "", start, data))
        return dumps

    def _readable(self, start: int) -> tuple[int, bytes]:
        """As much of the bytes from `start` on as there is; what is missing at the front is left out."""
        end = start + _DUMPED_BYTES
        border = (start // _PAGE + 1) * _PAGE
        pieces = [(start, min(end, border)), (border, end)] if border < end else [(start, end)]
        first, data = start, b""
        for low, high in pieces:
            try:
                piece = self._memory.read(low, high - low)
            except OSError:
                if data:
                    break
                continue
            if not data:
                first = low
            data += piece
        return first, data

    def _abort_message(self) -> str:
        for mapping in self._maps.all:
            if mapping.offset == 0 and _LIBC.search(mapping.name):
                module = self._unwinder.modules.at(mapping)
                place = module.exported(_ABORT_MESSAGE) if module is not None else None
                if place is None:
                    return ""
                try:
                    pointer = self._memory.word(place)
                    text = self._memory.text(pointer + 4, _MAX_MESSAGE_BYTES) if pointer else b""
                except OSError:
                    return ""
                return text.rstrip(b"\n\0").decode("utf-8", "replace")
        return ""

    def _map_lines(self) -> list[MapLine]:
        lines = []
        for mapping in self._maps.all:
            module = self._unwinder.modules.at(mapping) if mapping.name.startswith(("/", "[vdso")) else None
            lines.append(
                MapLine(
                    *(mapping.start, mapping.end, mapping.flags, mapping.offset, mapping.name),
                    build_id=module.build_id if module is not None else "",
                    bias=0,
                )
            )
        return lines


def _timestamp() -> str:
    now = now_ns()
    local = time.localtime(now // 10**9)
    return time.strftime("%Y-%m-%d %H:%M:%S", local) + f".{now % 10**9:09}" + time.strftime("%z", local)


def _uptime_s(pid: int) -> int:
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        started = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        return int(float(Path("/proc/uptime").read_text().split()[0]) - started)
    except (OSError, ValueError, IndexError):
        return 0


def _command_line(pid: int) -> list[str]:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
    return [word.decode("utf-8", "replace") for word in words[:-1]]


def _open_files(pid: int) -> dict[int, str]:
    found = {}
    folder = f"/proc/{pid}/fd"
    try:
        names = os.listdir(folder)
    except OSError:
        return {}
    for name in names:
        try:
            found[int(name)] = os.readlink(f"{folder}/{name}")
        except OSError:
            continue
    return found
