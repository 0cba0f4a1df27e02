"""What the output of cmake, ninja, make, compilers and linkers means."""

from __future__ import annotations

import re

EVIDENCE_ERRORS = 5

_NINJA_STEP = re.compile(r"^\[(\d+)/(\d+)\] (.*)")
_MAKE_STEP = re.compile(r"^\[ *(\d+)%\] (Building|Linking|Generating)\b(.*)")
_COMPILER_ERROR = re.compile(r"^(?:In file included from )?.+?:\d+(?::\d+)?: (?:fatal )?error: ")
_LINKER_ERROR = re.compile(
    r"undefined reference to|undefined symbol|multiple definition of|duplicate symbol"
    r"|cannot find -l|unable to find library -l|ld(?:\.lld|64\.lld)?: error:|^error: undefined"
    r"|relocation .* can not be used|file format not recognized|is incompatible with"
)
_OTHER_ERROR = re.compile(
    r"^(?:ninja|make(?:\[\d+\])?|cc1plus|c\+\+|g\+\+|clang(?:\+\+)?|zig): (?:fatal )?error: "
)
_MAKE_NO_RULE = re.compile(r"^make.*\*\*\* No rule to make target")
_ECHO = "linker command failed with exit code"  # clang's, after the linker has said why
_ERRORS = (_COMPILER_ERROR, _LINKER_ERROR, _OTHER_ERROR, _MAKE_NO_RULE)
_CMAKE_ERROR = re.compile(r"^CMake Error\b")
_UNUSED_HEADER = "Manually-specified variables were not used by the project:"
_QNN_HEADER = re.compile(r"fatal error: '?(?:QNN/)?Qnn\w+\.h'?(?: file not found|: No such file)")
_EMPTY_QNN_ROOT = re.compile(r"^(?:-- *)?QNN Root:[ \t]*$", re.MULTILINE)
# CMake's words when it is about to throw away the user's -D options and go on.
_CHANGED = "The following variables have changed:"
CACHE_DELETED = "You have changed variables that require your cache to be deleted"


def parse_step(line: str) -> tuple[float, float, str] | None:
    """(done, total, what) of a progress line of ninja (counts) or make (percent), else None."""
    found = _NINJA_STEP.match(line)
    if found:
        return float(found.group(1)), float(found.group(2)), found.group(3)
    found = _MAKE_STEP.match(line)
    if found:
        return float(found.group(1)), 100.0, found.group(2) + found.group(3)
    return None


def is_build_step(what: str) -> bool:
    """Whether a step made something, rather than re-ran CMake."""
    return not what.startswith("Re-running CMake")


def first_errors(text: str, limit: int = EVIDENCE_ERRORS) -> str:
    """The first errors of a failed configure or build, one or a few lines each.

    The last lines of a log are mostly "build stopped"; the first error is the cause.
    Empty when nothing looks like an error.
    """
    lines = text.splitlines()
    found: list[str] = []
    for number, line in enumerate(lines):
        if _CMAKE_ERROR.match(line):
            found.append(_with_indented(lines, number))
        elif line in found or _ECHO in line:
            continue
        elif any(rule.search(line) for rule in _ERRORS):
            found.append(line)
        if len(found) == limit:
            break
    return "\n".join(found)


def known_cause(text: str) -> str | None:
    """What a failed build comes from when its errors only show the consequence, else None.

    MNN prints an empty "QNN Root:" when it has no SDK, configures all the same, and the compiler
    stops minutes later at the first QNN header (alibaba/MNN#4449).
    """
    if _QNN_HEADER.search(text) and _EMPTY_QNN_ROOT.search(text):
        return "the cause: CMake had no QNN SDK (an empty 'QNN Root:' when it configured)"
    return None


def has_empty_qnn_root(text: str) -> bool:
    """Whether CMake said that it has no QNN SDK, as MNN does in passing."""
    return _EMPTY_QNN_ROOT.search(text) is not None


def dropped_cache(text: str) -> str | None:
    """What made CMake throw its cache away, as it says; None when it did not.

    It goes on then without the user's -D options, and ends with exit code 0 and a build for the
    wrong machine (makepad/makepad#1253, flutter/flutter#66484).
    """
    _, found, rest = text.partition(CACHE_DELETED)
    if not found:
        return None
    _, _, changed = rest.partition(_CHANGED)
    lines = [line.strip() for line in changed.splitlines()]
    names = [line for line in lines if re.match(r"[A-Z]\w*= ?", line)]
    return "\n".join(dict.fromkeys(names)) or CACHE_DELETED


def unused_variables(text: str) -> tuple[str, ...]:
    """Names that CMake says were given with -D and are unknown to the project."""
    _, header, rest = text.partition(_UNUSED_HEADER)
    if not header:
        return ()
    names: list[str] = []
    for line in rest.splitlines():
        if not line.strip():
            if names:
                break
            continue
        if not line.startswith(" "):
            break
        names.append(line.strip())
    return tuple(names)


def _with_indented(lines: list[str], start: int) -> str:
    """A CMake error and its text: indented lines, with blank ones among them."""
    block = [lines[start]]
    for line in lines[start + 1 :]:
        if line.strip() and not line.startswith(" "):
            break
        if line.strip():
            block.append(line)
    return "\n".join(block)
