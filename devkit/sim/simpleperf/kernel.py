"""perf_event_open and what belongs to it, by ctypes."""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import struct
from dataclasses import dataclass
from typing import Any

IP, TID, TIME, ID, CPU, PERIOD, CALLCHAIN = 1, 2, 4, 64, 128, 256, 32
REGS_USER, STACK_USER = 4096, 8192
TRACEPOINT = 2
SAMPLE, MMAP2, COMM, FORK, SWITCH, LOST = 9, 10, 3, 7, 14, 2
SWITCH_OUT = 1 << 13

_NUMBERS = {"x86_64": 298, "aarch64": 241}
_FD_CLOEXEC = 8
_SET_OUTPUT, _ENABLE, _GET_ID = 0x2405, 0x2400, 0x80082407
ATTR_BYTES = 112
# Flags of perf_event_attr, bit by bit.
DISABLED, INHERIT, EXCLUDE_KERNEL, EXCLUDE_HV = 1, 1 << 1, 1 << 5, 1 << 6
MMAP_FLAG, COMM_FLAG, FREQ, ENABLE_ON_EXEC, TASK = 1 << 8, 1 << 9, 1 << 10, 1 << 12, 1 << 13
SAMPLE_ID_ALL, EXCLUDE_CALLCHAIN_USER, MMAP2_FLAG, COMM_EXEC = 1 << 18, 1 << 22, 1 << 23, 1 << 24
CONTEXT_SWITCH = 1 << 26

_libc: Any = ctypes.CDLL(None, use_errno=True)

# name → (type, config). The hardware's own come first, as `simpleperf list` shows them.
HARDWARE = {
    "cpu-cycles": 0, "instructions": 1, "cache-references": 2, "cache-misses": 3,
    "branch-instructions": 4, "branch-misses": 5, "bus-cycles": 6,
    "stalled-cycles-frontend": 7, "stalled-cycles-backend": 8,
}  # fmt: skip
SOFTWARE = {
    "cpu-clock": 0, "task-clock": 1, "page-faults": 2, "context-switches": 3, "cpu-migrations": 4,
    "minor-faults": 5, "major-faults": 6, "alignment-faults": 7, "emulation-faults": 8,
}  # fmt: skip
# Registers of a sample in the order of their bits: (mask, DWARF number of each).
REGISTERS: dict[str, tuple[int, tuple[int, ...]]] = {
    # ax bx cx dx si di bp sp ip, r8 … r15
    "x86_64": (0x1FF | 0xFF << 16, (0, 3, 2, 1, 4, 5, 6, 7, 16, *range(8, 16))),
    "aarch64": ((1 << 33) - 1, (*range(31), 31, 33)),
}


@dataclass(frozen=True)
class EventAttr:
    """The parts of a perf_event_attr that are used."""

    kind: int
    config: int
    value: int
    sample_type: int
    flags: int
    registers: int = 0
    stack_bytes: int = 0

    def pack(self) -> bytes:
        """As the kernel takes it, and as it stands in perf.data."""
        head = struct.pack(
            "<IIQQQQQ", self.kind, ATTR_BYTES, self.config, self.value, self.sample_type, 0, self.flags
        )
        # wakeup_events, bp_type, config1, config2, branch_sample_type, sample_regs_user, sample_stack_user.
        tail = struct.pack("<IIQQQQI", 1, 0, 0, 0, 0, self.registers, self.stack_bytes)
        return (head + tail).ljust(ATTR_BYTES, b"\0")


def event_of(name: str) -> tuple[int, int] | None:
    """Type and number of an event without modifiers, None when there is none of that name."""
    if name in HARDWARE:
        return 0, HARDWARE[name]
    if name in SOFTWARE:
        return 1, SOFTWARE[name]
    return None


def open_event(attr: EventAttr, tid: int, cpu: int) -> int:
    """A descriptor of a counter.

    Raises:
        OSError: the kernel refuses.
    """
    data = ctypes.create_string_buffer(attr.pack(), ATTR_BYTES)
    number = _NUMBERS[os.uname().machine]
    fd: int = _libc.syscall(number, data, tid, cpu, -1, _FD_CLOEXEC)
    if fd < 0:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))
    return fd


def send_to(fd: int, other: int) -> None:
    """Let a counter write into the buffer of another one of its processor."""
    fcntl.ioctl(fd, _SET_OUTPUT, other)


def enable(fd: int) -> None:
    """Begin to count."""
    fcntl.ioctl(fd, _ENABLE, 0)


def id_of(fd: int) -> int:
    """The number that stands for a counter in the records."""
    return int.from_bytes(fcntl.ioctl(fd, _GET_ID, bytes(8)), "little")


class Ring:
    """The buffer into which the kernel writes the records of one processor.

    Raises:
        OSError: the user may lock no more memory.
    """

    _HEAD, _TAIL = 1024, 1032

    def __init__(self, fd: int, pages: int) -> None:
        self.fd = fd
        self._size = pages * mmap.PAGESIZE
        self._map = mmap.mmap(
            fd, mmap.PAGESIZE + self._size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE
        )

    def drain(self) -> bytes:
        """What was written since the last time; whole records."""
        head = struct.unpack_from("<Q", self._map, self._HEAD)[0]
        tail = struct.unpack_from("<Q", self._map, self._TAIL)[0]
        if head == tail:
            return b""
        begin, end = tail % self._size, head % self._size
        base = mmap.PAGESIZE
        if begin < end:
            data = self._map[base + begin : base + end]
        else:
            data = self._map[base + begin : base + self._size] + self._map[base : base + end]
        struct.pack_into("<Q", self._map, self._TAIL, head)
        return data

    def close(self) -> None:
        """Give it back."""
        self._map.close()


def open_ring(fd: int) -> Ring:
    """The largest buffer that this user may have.

    Raises:
        OSError: there is none at all.
    """
    pages = 512 * 1024 // mmap.PAGESIZE
    while True:
        try:
            return Ring(fd, pages)
        except OSError:
            if pages == 1:
                raise
            pages //= 2
