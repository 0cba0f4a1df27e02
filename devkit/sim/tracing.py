"""A phone on which processes may not be traced: the property `debug.devkit.ptrace_scope`.

Set to 1 or more, programs that are started from then on cannot attach to others, as where Yama forbids it;
they can still trace what they start themselves.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable
from typing import Any

from devkit.sim.adbd.control import changed_property

SCOPE_PROPERTY = "debug.devkit.ptrace_scope"
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_SECCOMP = 22
_SECCOMP_MODE_FILTER = 2
_RET_ALLOW = 0x7FFF0000
_RET_ERRNO = 0x00050000
_EPERM = 1
_PTRACE_ATTACH, _PTRACE_SEIZE = 16, 0x4206
# The number of ptrace and the AUDIT_ARCH of the processor.
_ARCHITECTURES = {"x86_64": (101, 0xC000003E), "aarch64": (117, 0xC00000B7)}
_LOAD, _JUMP_EQUAL, _RETURN = 0x20, 0x15, 0x06
_OFFSET_NUMBER, _OFFSET_ARCH, _OFFSET_FIRST = 0, 4, 16

_libc: Any = ctypes.CDLL(None, use_errno=True)


def attach_guard() -> Callable[[], None] | None:
    """What a new program has to do before it runs, None when attaching is allowed."""
    return forbid_attach if changed_property(SCOPE_PROPERTY) not in ("", "0") else None


def forbid_attach() -> None:
    """From here on this process and all it starts get EPERM when they attach to others.

    Raises:
        OSError: the kernel has no seccomp filters.
    """
    number, architecture = _ARCHITECTURES[os.uname().machine]
    steps = [
        (_LOAD, 0, 0, _OFFSET_ARCH),
        (_JUMP_EQUAL, 0, 5, architecture),
        (_LOAD, 0, 0, _OFFSET_NUMBER),
        (_JUMP_EQUAL, 0, 3, number),
        # The low half of the first argument.
        (_LOAD, 0, 0, _OFFSET_FIRST),
        (_JUMP_EQUAL, 2, 0, _PTRACE_ATTACH),
        (_JUMP_EQUAL, 1, 0, _PTRACE_SEIZE),
        (_RETURN, 0, 0, _RET_ALLOW),
        (_RETURN, 0, 0, _RET_ERRNO | _EPERM),
    ]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *step) for step in steps))
    program = ctypes.create_string_buffer(struct.pack("<H6xQ", len(steps), ctypes.addressof(code)))
    _prctl(_PR_SET_NO_NEW_PRIVS, 1, 0)
    _prctl(_PR_SET_SECCOMP, _SECCOMP_MODE_FILTER, ctypes.addressof(program))


def _prctl(option: int, first: int, second: int) -> None:
    arguments = [ctypes.c_ulong(value) for value in (first, second, 0, 0)]
    if _libc.prctl(option, *arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
