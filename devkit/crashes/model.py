"""What a crash text says: crashes, their stacks and frames; and what symbols add to a frame."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from devkit.symbols import Location

# Kinds of crashes.
SIGNAL = "signal"
SANITIZER = "sanitizer"
KILLED = "killed"
BACKTRACE = "backtrace"
PROFILE = "profile"
# `what` of a BACKTRACE that is of all threads of a process.
THREADS = "all threads"

# Where a frame comes from, which decides what its address is.
DEBUGGERD = "debuggerd"
SANITIZED = "sanitizer"
GLIBC = "backtrace"
LLDB = "lldb"
BARE = "address"

# Verdicts on the file that a frame's lines come from.
MATCH = "match"
MISMATCH = "mismatch"
UNKNOWN = "unknown"

# Titles of a sanitizer's stacks.
ACCESS = "access"
ALLOCATED, FREED = "allocated by", "freed by"
CREATED = " created by"
VARIABLE = "the variable's function"


@dataclass(frozen=True)
class Frame:
    """One line of a stack.

    Attributes:
        number: as printed.
        text: the line as printed, without its header.
        origin: DEBUGGERD, SANITIZED, GLIBC, LLDB or BARE.
        pc: the address in the module, as printed; None where the line names none.
        address: the address in the process.
        module: path of the file as the phone has it; None for what is no file.
        offset: where in that file the library, or its mapping, begins: `(offset 0x...)`.
        function, function_offset: as printed; the offset in bytes.
        locations: innermost first; those before the last are inlined into it.
        verdict: MATCH, MISMATCH or UNKNOWN for a frame in a file; None for others.
        local: the file on this machine that the locations come from.
        note: why there is no line.
    """

    number: int
    text: str
    origin: str
    pc: int | None = None
    address: int | None = None
    module: str | None = None
    offset: int | None = None
    function: str | None = None
    function_offset: int | None = None
    build_id: str | None = None
    locations: tuple[Location, ...] = ()
    verdict: str | None = None
    local: Path | None = None
    library: str | None = None
    note: str | None = None

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        return {
            "number": self.number,
            "text": self.text.strip(),
            "pc": hex(self.pc) if self.pc is not None else None,
            "module": self.module,
            "library": self.library,
            "offset": hex(self.offset) if self.offset is not None else None,
            "function": self.function,
            "build_id": self.build_id,
            "verdict": self.verdict,
            "symbols_from": str(self.local) if self.local else None,
            "locations": [location.as_dict() for location in self.locations],
            "note": self.note,
        }


@dataclass
class Stack:
    """Frames under one heading: `backtrace`, ACCESS, `allocated by`, `freed by`, `thread 7 (name)` ...

    `thread` is the thread that ran it, as a sanitizer's report calls it ("T0", "T3 (worker)").
    """

    title: str
    frames: list[Frame] = field(default_factory=list)
    thread: str | None = None

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        frames = [frame.as_dict() for frame in self.frames]
        return {"title": self.title, "thread": self.thread, "frames": frames}


@dataclass
class Crash:
    """One crash, or one process that was killed.

    Attributes:
        kind: SIGNAL, SANITIZER, KILLED, BACKTRACE or PROFILE, which is none.
        signal, code: names: SIGSEGV, SEGV_MAPERR.
        fault_address: None where there is none; hexadecimal as printed, without leading zeros.
        printed_cause: the dump's own `Cause:`.
        tool: the sanitizer, or who killed it.
        what: what the sanitizer calls it: `heap-buffer-overflow`.
        access: `READ of size 4`.
        dumper: pid of the process that printed the dump; tells interleaved dumps apart.
        details: further lines worth showing.
        others: processes killed for memory around it.
        line: its first line in the input, from 1.
    """

    kind: str
    line: int
    signal: str | None = None
    code: str | None = None
    fault_address: str | None = None
    process: str | None = None
    pid: int | None = None
    tid: int | None = None
    thread: str | None = None
    abi: str | None = None
    abort_message: str | None = None
    printed_cause: str | None = None
    tool: str | None = None
    what: str | None = None
    access: str | None = None
    dumper: int | None = None
    tombstone: str | None = None
    when: str | None = None
    details: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)
    stacks: list[Stack] = field(default_factory=list)

    @property
    def frames(self) -> list[Frame]:
        """The frames of the stack that crashed; empty when only its end was told."""
        return self.stacks[0].frames if self.stacks else []


@dataclass
class Reading:
    """All that was read from a text.

    Attributes:
        lines: how many lines it has.
        folded, expired: lines that logd left out: repeated ones, and those of a process that wrote too much.
    """

    crashes: list[Crash] = field(default_factory=list)
    lines: int = 0
    folded: int = 0
    expired: int = 0
