"""Signals in debuggerd's words: names, codes, senders, causes."""

from __future__ import annotations

import struct
from dataclasses import dataclass

SIGILL, SIGTRAP, SIGABRT, SIGBUS, SIGFPE, SIGSEGV, SIGSTKFLT, SIGSYS = 4, 5, 6, 7, 8, 11, 16, 31
SEGV_MAPERR, SEGV_ACCERR = 1, 2

_NAMES = {
    SIGILL: "SIGILL",
    SIGTRAP: "SIGTRAP",
    SIGABRT: "SIGABRT",
    SIGBUS: "SIGBUS",
    SIGFPE: "SIGFPE",
    SIGSEGV: "SIGSEGV",
    SIGSTKFLT: "SIGSTKFLT",
    SIGSYS: "SIGSYS",
}
# By signal, from code 1 on (asm-generic/siginfo.h).
_CODES = {
    SIGILL: ["OPC", "OPN", "ADR", "TRP", "PRVOPC", "PRVREG", "COPROC", "BADSTK", "BADIADDR"],
    SIGFPE: ["INTDIV", "INTOVF", "FLTDIV", "FLTOVF", "FLTUND", "FLTRES", "FLTINV", "FLTSUB"],
    SIGSEGV: ["MAPERR", "ACCERR", "BNDERR", "PKUERR", "ACCADI", "ADIDERR", "ADIPERR", "MTEAERR", "MTESERR"],
    SIGBUS: ["ADRALN", "ADRERR", "OBJERR", "MCEERR_AR", "MCEERR_AO"],
    SIGTRAP: ["BRKPT", "TRACE", "BRANCH", "HWBKPT", "UNK"],
    SIGSYS: ["SECCOMP", "USER_DISPATCH"],
}
_PREFIXES = {SIGILL: "ILL", SIGFPE: "FPE", SIGSEGV: "SEGV", SIGBUS: "BUS", SIGTRAP: "TRAP", SIGSYS: "SYS"}
_GENERAL = {
    0: "SI_USER",
    -1: "SI_QUEUE",
    -2: "SI_TIMER",
    -3: "SI_MESGQ",
    -4: "SI_ASYNCIO",
    -5: "SI_SIGIO",
    -6: "SI_TKILL",
    -7: "SI_DETHREAD",
    128: "SI_KERNEL",
}
_WITH_ADDRESS = frozenset({SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP})
_SENT_BY_HAND = frozenset({0, -1, -6})


@dataclass(frozen=True)
class SignalInfo:
    """A siginfo_t.

    Args:
        address: si_addr, None when this signal has none.
        sender: process and user, None when nobody sent it.
        syscall: the system call that seccomp refused.
    """

    number: int
    code: int
    address: int | None
    sender: tuple[int, int] | None
    syscall: int

    @property
    def name(self) -> str:
        """SIGSEGV…"""
        return _NAMES.get(self.number, "?")

    @property
    def code_name(self) -> str:
        """SEGV_MAPERR…"""
        names = _CODES.get(self.number, [])
        if 1 <= self.code <= len(names):
            return f"{_PREFIXES[self.number]}_{names[self.code - 1]}"
        return _GENERAL.get(self.code, "?")


def parse_siginfo(data: bytes) -> SignalInfo:
    """Take the kernel's siginfo_t of a 64-bit process apart."""
    number, _, code = struct.unpack_from("<iii", data)
    address = struct.unpack_from("<Q", data, 16)[0]
    pid, uid = struct.unpack_from("<iI", data, 16)
    return SignalInfo(
        number,
        code,
        address if number in _WITH_ADDRESS and code not in _SENT_BY_HAND else None,
        (pid, uid) if code <= 0 and pid != 0 else None,
        struct.unpack_from("<i", data, 24)[0] if number == SIGSYS else 0,
    )
