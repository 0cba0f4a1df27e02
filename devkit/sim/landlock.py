"""Landlock: writing only below given folders, without any privilege (Linux 5.13 and later)."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from devkit.sim import namespaces

# The same numbers on every architecture.
_SYS_CREATE_RULESET = 444
_SYS_ADD_RULE = 445
_SYS_RESTRICT_SELF = 446
_VERSION_FLAG = 1
_RULE_PATH_BENEATH = 1

# include/uapi/linux/landlock.h: what changes a file or a folder, and in which version it came.
WRITE_FILE = 1 << 1
_MAKE_AND_REMOVE = sum(1 << bit for bit in range(4, 13))
_REFER = 1 << 13  # version 2
_TRUNCATE = 1 << 14  # version 3
EVERYTHING = WRITE_FILE | _MAKE_AND_REMOVE | _REFER | _TRUNCATE

_libc: Any = ctypes.CDLL(None, use_errno=True)


def restrict_writing(allowed: Mapping[Path, int]) -> bool:
    """Let this process and its future children write only below these folders.

    Args:
        allowed: folder → which of the rights above; folders that do not exist are left out.

    Returns:
        False when this kernel or a sandbox has no Landlock; nothing is restricted then.

    Raises:
        OSError: a step failed although Landlock is there.
    """
    version = _libc.syscall(_SYS_CREATE_RULESET, None, ctypes.c_size_t(0), _VERSION_FLAG)
    if version < 1:
        return False
    handled = WRITE_FILE | _MAKE_AND_REMOVE
    handled |= (_REFER if version >= 2 else 0) | (_TRUNCATE if version >= 3 else 0)
    attributes = struct.pack("=Q", handled)
    ruleset = _libc.syscall(_SYS_CREATE_RULESET, attributes, ctypes.c_size_t(len(attributes)), 0)
    _check(ruleset)
    try:
        for folder, rights in allowed.items():
            try:
                fd = os.open(folder, os.O_PATH | os.O_CLOEXEC)
            except OSError:
                continue
            try:
                # Packed in the kernel's header.
                rule = struct.pack("=Qi", rights & handled, fd)
                _check(_libc.syscall(_SYS_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0))
            finally:
                os.close(fd)
        namespaces.forbid_new_privileges()
        _check(_libc.syscall(_SYS_RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return True


def _check(result: int) -> None:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"landlock: {os.strerror(number)}")
