"""The text of a tombstone: libdebuggerd/tombstone_proto_to_text.cpp, with what older ones lack left out.

Lines are made once: those that also go to the log are marked.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from devkit.sim.crashes import signals
from devkit.sim.crashes.memory import Maps
from devkit.sim.crashes.registers import Processor, Registers
from devkit.sim.crashes.signals import SignalInfo
from devkit.sim.crashes.unwind import Frame

_STARS = " ".join(["***"] * 16)
_DASHES = " ".join(["---"] * 16)
_ROW = 4
_STACK_SLACK_BYTES = 256
_PAGE = 4096
_LAST_LOG_LINES = 50


@dataclass(frozen=True)
class MemoryDump:
    """Memory around what a register points to."""

    register: str
    mapping: str
    address: int
    data: bytes


@dataclass(frozen=True)
class ThreadReport:
    """A thread at the time of the crash."""

    tid: int
    name: str
    registers: Registers
    frames: Sequence[Frame]
    memory: Sequence[MemoryDump] = ()


@dataclass(frozen=True)
class MapLine:
    """A mapping and what is known of its file."""

    start: int
    end: int
    flags: str
    offset: int
    name: str
    build_id: str
    bias: int


@dataclass(frozen=True)
class Crash:
    """All that a tombstone tells.

    Args:
        api_level: of the release whose tombstones are imitated.
        timestamp: with nanoseconds and zone.
        threads: the one that crashed first.
        open_files: descriptor → path.
        logs: buffer name → lines of the process.
    """

    api_level: int
    fingerprint: str
    revision: str
    processor: Processor
    timestamp: str
    uptime_s: int
    command_line: Sequence[str]
    pid: int
    uid: int
    signal: SignalInfo
    abort_message: str
    threads: Sequence[ThreadReport]
    maps: Sequence[MapLine] = ()
    cause: str = ""
    open_files: Mapping[int, str] = field(default_factory=dict)
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)


# A line and whether it goes to the log too.
Line = tuple[str, bool]


def lines_of(crash: Crash) -> Iterator[Line]:
    """The tombstone, line by line."""
    yield _STARS, True
    yield f"Build fingerprint: '{crash.fingerprint}'", True
    yield f"Revision: '{crash.revision}'", True
    yield f"ABI: '{crash.processor.abi}'", True
    if crash.api_level >= 29:
        yield f"Timestamp: {_timestamp(crash)}", True
    if crash.api_level >= 31:
        yield f"Process uptime: {crash.uptime_s}s", True
    main = crash.threads[0]
    yield from _header(crash, main, log=True)
    yield _signal_line(crash), True
    if crash.cause:
        yield f"Cause: {crash.cause}", True
    if crash.abort_message:
        yield f"Abort message: '{crash.abort_message}'", True
    yield from _registers(crash.processor, main.registers, log=True)
    yield from _backtrace(crash, main, log=True)
    yield from _memory(main)
    yield "", False
    yield from _maps(crash)
    yield from _logs(crash, tail=True)
    for thread in crash.threads[1:]:
        yield _DASHES, False
        yield from _header(crash, thread, log=False)
        yield from _registers(crash.processor, thread.registers, log=False)
        yield from _backtrace(crash, thread, log=False)
    if crash.open_files:
        yield "", False
        yield "open files:", False
        for number, path in sorted(crash.open_files.items()):
            yield f"    fd {number}: {path} (unowned)", False
    yield from _logs(crash, tail=False)


def probable_cause(signal: SignalInfo, stack: int, maps: Maps) -> str:
    """What debuggerd thinks of a fault (tombstone_proto.cpp), "" when nothing."""
    address = signal.address
    if signal.number == signals.SIGSYS and signal.code == 1:
        return f"seccomp prevented call to disallowed system call {signal.syscall}"
    if signal.number != signals.SIGSEGV or address is None:
        return ""
    if signal.code == signals.SEGV_MAPERR and address < _PAGE:
        return "null pointer dereference"
    if signal.code == signals.SEGV_ACCERR:
        mapping = maps.find(address)
        if mapping is not None and mapping.flags == "--x":
            return "execute-only (no-read) memory access error; likely due to data in .text."
    if signal.code in (signals.SEGV_MAPERR, signals.SEGV_ACCERR):
        return _stack_overflow(address, stack, maps)
    return ""


def fatal_line(signal: SignalInfo, pid: int, tid: int, names: tuple[str, str]) -> str:
    """What the program's own handler says (handler/debuggerd_handler.cpp).

    Args:
        names: of the thread and of the process's first thread.
    """
    sender = _sender(signal, pid)
    address = f", fault addr {signal.address:#x}" if signal.address is not None else ""
    return (
        f"Fatal signal {signal.number} ({signal.name}), code {signal.code} ({signal.code_name}{sender})"
        f"{address} in tid {tid} ({names[0]}), pid {pid} ({names[1]})"
    )


def _timestamp(crash: Crash) -> str:
    if crash.api_level >= 31:
        return crash.timestamp
    head, _, tail = crash.timestamp.partition(".")
    return head + tail[9:]


def _header(crash: Crash, thread: ThreadReport, *, log: bool) -> Iterator[Line]:
    name = crash.command_line[0] if crash.command_line else "<unknown>"
    if crash.api_level >= 31 and crash.command_line:
        yield f"Cmdline: {' '.join(crash.command_line)}", log
    yield f"pid: {crash.pid}, tid: {thread.tid}, name: {thread.name}  >>> {name} <<<", log
    if crash.api_level >= 29:
        yield f"uid: {crash.uid}", log


def _signal_line(crash: Crash) -> str:
    signal = crash.signal
    if signal.address is None:
        address = "--------"
    else:
        address = f"0x{signal.address:016x}" if crash.api_level >= 33 else f"{signal.address:#x}"
    return (
        f"signal {signal.number} ({signal.name}), code {signal.code} "
        f"({signal.code_name}{_sender(signal, crash.pid)}), fault addr {address}"
    )


def _sender(signal: SignalInfo, pid: int) -> str:
    if signal.sender is None or signal.sender[0] == pid:
        return ""
    return f" from pid {signal.sender[0]}, uid {signal.sender[1]}"


def _stack_overflow(address: int, stack: int, maps: Maps) -> str:
    if abs(stack - address) > _STACK_SLACK_BYTES:
        return ""
    mapping = maps.find(stack)
    if mapping is None:
        return "stack pointer is in a non-existent map; likely due to stack overflow."
    if mapping.flags[:2] != "rw":
        return "stack pointer is not in a rw map; likely due to stack overflow."
    if stack - mapping.start <= _STACK_SLACK_BYTES:
        return "stack pointer is close to top of stack; likely stack overflow."
    return ""


def _registers(processor: Processor, registers: Registers, *, log: bool) -> Iterator[Line]:
    row: list[str] = []
    last: list[str] = []
    for name, number in processor.names.items():
        text = f"  {name:<3} {registers.get(number, 0):016x}"
        (last if name in processor.special else row).append(text)
        if len(row) == _ROW:
            yield "  " + "".join(row), log
            row = []
    if row:
        yield "  " + "".join(row), log
    yield "  " + "".join(last), log


def _backtrace(crash: Crash, thread: ThreadReport, *, log: bool) -> Iterator[Line]:
    yield "", False
    if crash.api_level >= 34:
        yield f"{len(thread.frames)} total frames", log
    yield "backtrace:", log
    for index, frame in enumerate(thread.frames):
        function = f" ({frame.function}+{frame.offset})" if frame.function else ""
        build_id = f" (BuildId: {frame.build_id})" if frame.build_id else ""
        yield f"      #{index:02} pc {frame.pc:016x}  {frame.file}{function}{build_id}", log


def _memory(thread: ThreadReport) -> Iterator[Line]:
    for dump in thread.memory:
        yield "", False
        where = f" ({dump.mapping})" if dump.mapping else ""
        yield f"memory near {dump.register}{where}:", False
        for offset in range(0, len(dump.data), 16):
            piece = dump.data[offset : offset + 16]
            words = "".join(
                f" {int.from_bytes(piece[at : at + 8], 'little'):016x}" for at in range(0, len(piece), 8)
            )
            text = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in piece)
            yield f"    {dump.address + offset:016x}{words}  {text.ljust(16, '.')}", False


def _maps(crash: Crash) -> Iterator[Line]:
    if not crash.maps:
        yield "No memory maps found", False
        return
    fault = crash.signal.address
    entries = "entry" if len(crash.maps) == 1 else "entries"
    header = f"memory map ({len(crash.maps)} {entries}):"
    marked = fault is None
    if fault is not None and fault < crash.maps[0].start:
        yield header, False
        yield f"--->Fault address falls at {_split(fault)} before any mapped regions", False
        marked = True
    else:
        yield header + (" (fault address prefixed with --->)" if fault is not None else ""), False
    for line in crash.maps:
        start = "    "
        if not marked and fault is not None:
            if fault < line.start:
                yield f"--->Fault address falls at {_split(fault)} between mapped regions", False
                marked = True
            elif fault < line.end:
                start, marked = "--->", True
        yield start + _map_text(line), False
    if not marked and fault is not None:
        yield f"--->Fault address falls at {_split(fault)} after any mapped regions", False


def _map_text(line: MapLine) -> str:
    text = (
        f"{_split(line.start)}-{_split(line.end - 1)} {line.flags}  {line.offset:8x}"
        f"  {line.end - line.start:8x}"
    )
    if line.name:
        text += f"  {line.name}"
        if line.build_id:
            text += f" (BuildId: {line.build_id})"
        if line.bias:
            text += f" (load bias {line.bias:#x})"
    return text


def _split(address: int) -> str:
    return f"{address >> 32:08x}'{address & 0xFFFFFFFF:08x}"


def _logs(crash: Crash, *, tail: bool) -> Iterator[Line]:
    for name, lines in crash.logs.items():
        if lines:
            yield f"--------- {'tail end of log' if tail else 'log'} {name}", False
            for line in lines[-_LAST_LOG_LINES:] if tail else lines:
                yield line, False
