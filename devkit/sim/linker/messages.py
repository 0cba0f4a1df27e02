"""The linker's sentences, as each API level has them (bionic/linker: linker.cpp, linker_phdr.cpp)."""

from __future__ import annotations

from dataclasses import dataclass

from devkit.sim.linker.objects import BadObject

# Up to Android 6 the program is not named; up to 8 the linker aborts instead of exiting.
_NAMES_PROGRAM_SINCE_API = 24
_EXITS_SINCE_API = 28
# Since Android 11 it says who needs a library, since 9 it names machines.
_NAMES_USER_SINCE_API = 30
_NAMES_MACHINE_SINCE_API = 28
_NAMES_MAGIC_SINCE_API = 30
CHECKS_ALIGNMENT_SINCE_API = 35

_MACHINES = {3: "EM_386", 40: "EM_ARM", 62: "EM_X86_64", 183: "EM_AARCH64", 243: "EM_RISCV", 164: "EM_QDSP6"}


@dataclass(frozen=True)
class Refusal:
    """Why a program is not started.

    Args:
        text: the whole sentence, without a newline.
        aborts: the linker dies of SIGABRT; else it exits with 1.
    """

    text: str
    aborts: bool


def refusal(program: str, reason: str, api_level: int) -> Refusal:
    """The sentence for a program that cannot be linked.

    Args:
        program: its argv[0].
    """
    if api_level >= _NAMES_PROGRAM_SINCE_API:
        text = f'CANNOT LINK EXECUTABLE "{program}": {reason}'
    else:
        text = f"CANNOT LINK EXECUTABLE: {reason}"
    return Refusal(text, _NAMES_PROGRAM_SINCE_API <= api_level < _EXITS_SINCE_API)


def missing_library(name: str, user: str | None, program: str, api_level: int) -> str:
    """A library is nowhere.

    Args:
        user: the path of the library that needs it, None when the program does.
        program: the program's argv[0].
    """
    if api_level < _NAMES_PROGRAM_SINCE_API:
        return (
            f'could not load library "{name}" needed by "{user or program}"; '
            f'caused by library "{name}" not found'
        )
    if api_level < _NAMES_USER_SINCE_API:
        return f'library "{name}" not found'
    if user is None:
        return f'library "{name}" not found: needed by main executable'
    return f'library "{name}" not found: needed by {user} in namespace (default)'


def missing_symbol(symbol: str, user: str) -> str:
    """A symbol is nowhere.

    Args:
        user: the path of what refers to it.
    """
    return f'cannot locate symbol "{symbol}" referenced by "{user}"...'


def bad_object(path: str, problem: BadObject, machine: int, api_level: int) -> str:
    """A file that is no library for this phone."""
    detail = problem.detail
    if problem.kind == "class":
        if detail == 1:
            return f'"{path}" is 32-bit instead of 64-bit'
        return f'"{path}" has unknown ELF class: {detail}'
    if problem.kind == "machine":
        if api_level < _NAMES_MACHINE_SINCE_API:
            return f'"{path}" has unexpected e_machine: {detail}'
        return f'"{path}" is for {_machine(detail)} ({detail}) instead of {_machine(machine)} ({machine})'
    if problem.kind == "small":
        return f'"{path}" is too small to be an ELF executable: only found {detail} bytes'
    if api_level < _NAMES_MAGIC_SINCE_API:
        return f'"{path}" has bad ELF magic'
    return f'"{path}" has bad ELF magic: {detail:08x}'


def bad_alignment(path: str, alignment: int, page_size: int) -> str:
    """A library whose segments cannot be mapped with the phone's pages."""
    return f'"{path}" program alignment ({alignment}) cannot be smaller than system page size ({page_size})'


def _machine(number: int) -> str:
    return _MACHINES.get(number, "EM_???")
