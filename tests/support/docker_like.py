"""docker_like.py [--users-only] PROGRAM ARGS…: a program under a seccomp filter like Docker's default one.

No namespaces, no mounts, no change of personality; the filter is inherited and cannot be left. With
--users-only nothing is refused but user namespaces, as on hardened servers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
import sys

# System calls by number: x86_64, aarch64.
_REFUSED = {
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsmount": (432, 432),
    "mount_setattr": (442, 442),
}
_PERSONALITY = (135, 92)
_HARMLESS_PERSONALITIES = (0x0, 0x8, 0xFFFFFFFF)
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_NEW_NAMESPACES = 0x7E020000 | 0x80
_NEW_USERS = 0x10000000
_ALLOW, _ERROR = 0x7FFF0000, 0x00050000
_LOAD, _JUMP_EQUAL, _JUMP_ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER_OFFSET, _FIRST_ARGUMENT_OFFSET = 0, 16


def main(argv: list[str]) -> None:
    column = {"x86_64": 0, "aarch64": 1}[os.uname().machine]
    users_only = argv[0] == "--users-only"
    install(no_user_namespaces(column) if users_only else docker(column))
    argv = argv[users_only:]
    os.execvp(argv[0], argv)


def no_user_namespaces(column: int) -> list[tuple[int, int, int, int]]:
    filters = [
        (_LOAD, 0, 0, _NUMBER_OFFSET),
        (_JUMP_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
    ]
    for number in (_REFUSED["unshare"][column], _CLONE[column]):
        filters += [
            (_JUMP_EQUAL, 0, 4, number),
            (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
            (_JUMP_ANY_BIT, 0, 1, _NEW_USERS),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
            (_RETURN, 0, 0, _ALLOW),
        ]
    return [*filters, (_RETURN, 0, 0, _ALLOW)]


def docker(column: int) -> list[tuple[int, int, int, int]]:
    filters = [(_LOAD, 0, 0, _NUMBER_OFFSET)]
    for numbers in _REFUSED.values():
        filters += [
            (_JUMP_EQUAL, 0, 1, numbers[column]),
            (_RETURN, 0, 0, _ERROR | errno.EPERM),
        ]
    harmless = [(_JUMP_EQUAL, len(_HARMLESS_PERSONALITIES) - i, 0, value)
                for i, value in enumerate(_HARMLESS_PERSONALITIES)]  # fmt: skip
    filters += [
        (_JUMP_EQUAL, 0, len(harmless) + 3, _PERSONALITY[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        *harmless,
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        # As in Docker: glibc falls back to clone, whose flags a filter can see.
        (_JUMP_EQUAL, 0, 1, _CLONE3[column]),
        (_RETURN, 0, 0, _ERROR | errno.ENOSYS),
        (_JUMP_EQUAL, 0, 3, _CLONE[column]),
        (_LOAD, 0, 0, _FIRST_ARGUMENT_OFFSET),
        (_JUMP_ANY_BIT, 0, 1, _NEW_NAMESPACES & ~0x80),
        (_RETURN, 0, 0, _ERROR | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return filters


def install(filters: list[tuple[int, int, int, int]]) -> None:
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in filters)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(filters), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None, use_errno=True)
    zero = ctypes.c_ulong(0)
    for option, argument in ((38, ctypes.c_ulong(1)), (22, ctypes.c_ulong(2))):
        pointer = ctypes.c_char_p(program) if option == 22 else zero
        if libc.prctl(option, argument, pointer, zero, zero) != 0:
            raise OSError(ctypes.get_errno(), f"prctl {option}")


if __name__ == "__main__":
    main(sys.argv[1:])
