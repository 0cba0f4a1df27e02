"""Registers of both processors: their DWARF numbers, debuggerd's order, the kernel's layouts."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass

# DWARF number → value. The program counter has the number PC on both.
Registers = dict[int, int]


@dataclass(frozen=True)
class Processor:
    """What differs between the processors.

    Args:
        abi: debuggerd's name of the ABI.
        names: register → DWARF number, in debuggerd's order.
        special: those on the last line.
        stack: DWARF number of the stack pointer.
        frame: of the frame pointer.
        pc: of the program counter.
        call_bytes: a return address minus this lies in the call.
        ptrace_names: registers in the order of NT_PRSTATUS.
        context_offset: where a ucontext_t has its registers.
        context_names: in the order of that.
    """

    abi: str
    names: Mapping[str, int]
    special: frozenset[str]
    stack: int
    frame: int
    pc: int
    call_bytes: int
    ptrace_names: tuple[str, ...]
    context_offset: int
    context_names: tuple[str, ...]

    def from_ptrace(self, data: bytes) -> Registers:
        """Registers from NT_PRSTATUS."""
        return self._unpack(self.ptrace_names, data, 0)

    def from_context(self, data: bytes) -> Registers:
        """Registers from the ucontext_t that a signal handler got."""
        return self._unpack(self.context_names, data, self.context_offset)

    @property
    def context_bytes(self) -> int:
        """How much of a ucontext_t is needed."""
        return self.context_offset + 8 * len(self.context_names)

    def _unpack(self, names: tuple[str, ...], data: bytes, offset: int) -> Registers:
        values = struct.unpack_from(f"<{len(names)}Q", data, offset)
        return {
            self.names[name]: value for name, value in zip(names, values, strict=True) if name in self.names
        }


_R8_R15 = tuple(f"r{n}" for n in range(8, 16))
X86_64 = Processor(
    abi="x86_64",
    names={
        **{"rax": 0, "rbx": 3, "rcx": 2, "rdx": 1},
        **{name: int(name[1:]) for name in _R8_R15},
        **{"rdi": 5, "rsi": 4, "rbp": 6, "rsp": 7, "rip": 16},
    },
    special=frozenset({"rbp", "rsp", "rip"}),
    stack=7,
    frame=6,
    pc=16,
    call_bytes=1,
    ptrace_names=(
        *("r15", "r14", "r13", "r12", "rbp", "rbx", "r11", "r10", "r9", "r8"),
        *("rax", "rcx", "rdx", "rsi", "rdi", "orig_rax", "rip", "cs", "eflags", "rsp"),
    ),
    context_offset=40,
    context_names=(*_R8_R15, "rdi", "rsi", "rbp", "rbx", "rdx", "rax", "rcx", "rsp", "rip"),
)

_X = tuple(f"x{n}" for n in range(30))
_ARM64_PC = 33
_ARM64_PSTATE = 34
AARCH64 = Processor(
    abi="arm64",
    names={**{name: int(name[1:]) for name in _X}, "lr": 30, "sp": 31, "pc": _ARM64_PC, "pst": _ARM64_PSTATE},
    special=frozenset({"lr", "sp", "pc", "pst"}),
    stack=31,
    frame=29,
    pc=_ARM64_PC,
    call_bytes=4,
    ptrace_names=(*_X, "lr", "sp", "pc", "pst"),
    # Behind a mask of 1024 bits, aligned to 16 bytes, stands the fault address.
    context_offset=184,
    context_names=(*_X, "lr", "sp", "pc", "pst"),
)


def processor(machine: str) -> Processor:
    """The processor of `uname -m`."""
    return AARCH64 if machine == "aarch64" else X86_64
