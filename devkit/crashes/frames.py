"""One line of a stack, in the layouts of debuggerd, the sanitizers, glibc's backtrace_symbols and LLDB."""

from __future__ import annotations

import re

from devkit.crashes.model import BARE, DEBUGGERD, GLIBC, LLDB, SANITIZED, Frame
from devkit.symbols import Location

# `      #00 pc 00000000000004cc  ` and, in an ANR's stacks, `  native: #00 pc ...`.
_DEBUGGERD = re.compile(r"\s{0,40}(?:native: )?#(\d{1,4}) {1,4}pc (?:0x)?([0-9a-fA-F]{1,16})(?: {1,8}|$)")
_SANITIZER = re.compile(r"\s{0,40}#(\d{1,4}) {1,4}0x([0-9a-fA-F]{1,16})(?: {1,8}|$)")
_GLIBC = re.compile(
    r"\s{0,40}(?:\[?#?(?P<number>\d{1,4})\]?[:.)]? {1,8})?(?P<module>[^\s()\[][^()\[]{0,1000})"
    r"\((?P<function>[^()+]{0,2000})(?:\+0x(?P<offset>[0-9a-fA-F]{1,16}))?\)"
    r" ?\[0x(?P<address>[0-9a-fA-F]{1,16})\]"
)
# `#3 0x7a123454cc`, `[03] 0x7a123454cc`, `3: 0x7a123454cc`: what a program's own handler prints.
_BARE = re.compile(
    r"\s{0,40}\[?#?(?P<number>\d{1,4})[\]:.)]{0,2} {1,8}0x(?P<address>[0-9a-fA-F]{6,16})\s{0,8}$"
)
_LLDB = re.compile(
    r"\s{0,40}(?:\* )?frame #(?P<number>\d{1,4}): 0x(?P<address>[0-9a-fA-F]{1,16})"
    r"(?: (?P<module>[^`]{1,500})`)?"
)
_LLDB_AT = re.compile(r" at (?P<file>[^\s:]{1,500}):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?(?: |$)")
_BUILD_ID = re.compile(r"\s{0,4}\(BuildId: ([0-9a-fA-F]{2,64})\)\s{0,8}$")
_OFFSET = re.compile(r" ?\(offset 0x([0-9a-fA-F]{1,16})\)")
_SOURCE = re.compile(
    r" (?P<file>/[^:]{1,1000}|[\w.-]{1,200}\.\w{1,5}):(?P<line>\d{1,9})(?::(?P<column>\d{1,9}))?$"
)
_NO_FILE = ("<", "???", "[", "/memfd:", "anon_inode:", "/dev/ashmem")


def parse_frame(text: str) -> Frame | None:
    """The frame that a line is, or None."""
    if "#" in text:
        if match := _DEBUGGERD.match(text):
            return _debuggerd(text, match)
        if not (text.endswith(")") or " in " in text) and (match := _BARE.match(text)):
            return Frame(int(match["number"]), text, BARE, address=int(match["address"], 16))
        if match := _SANITIZER.match(text):
            return _sanitizer(text, match)
        if "frame #" in text and (match := _LLDB.match(text)):
            return _lldb(text, match)
    if "[0x" in text and (match := _GLIBC.match(text)):
        offset = int(match["offset"], 16) if match["offset"] else None
        function = match["function"] or None
        return Frame(
            int(match["number"] or 0),
            text,
            GLIBC,
            pc=None if function else offset,
            address=int(match["address"], 16),
            module=match["module"].strip(),
            function=function,
            function_offset=offset if function else None,
        )
    if "0x" in text and len(text) < 100 and (match := _BARE.match(text)):
        return Frame(int(match["number"]), text, BARE, address=int(match["address"], 16))
    return None


def split_module(module: str) -> tuple[str, str | None]:
    """The file on the phone and the library inside it: `base.apk!libllm.so`; None where it is not named."""
    outer, mark, inner = module.partition("!")
    return outer, inner.rpartition("/")[2] if mark and inner else None


def is_file(module: str | None) -> bool:
    """Whether a frame's module is a file that can hold native code: no mapping, no Java archive."""
    if not module or module.startswith(_NO_FILE):
        return False
    return not module.endswith((".jar", ".dex", ".oat", ".odex", ".vdex", ".art", "(deleted)"))


def _debuggerd(text: str, match: re.Match[str]) -> Frame:
    rest, build_id = _without_build_id(text[match.end() :])
    offset = None
    found = _OFFSET.search(rest)
    if found is not None:
        offset = int(found[1], 16)
        if found.start() == 0:
            rest, found = rest[found.end() :].strip(), None  # some of Android 9's stand before the module
    if found is not None:
        module, function = rest[: found.start()], rest[found.end() :].strip()
    else:
        start = rest.find(" (")
        if rest.startswith(" (deleted)", start):
            start = rest.find(" (", start + 1)
        module, function = (rest, "") if start < 0 else (rest[:start], rest[start:].strip())
    if function.startswith("(") and function.endswith(")"):
        function = function[1:-1]
    name, plus = _with_offset(function)
    name = None if name == "???" else name  # ART, of what it has no name for
    return Frame(
        int(match[1]), text, DEBUGGERD,
        pc=int(match[2], 16), module=module.strip() or None, offset=offset,
        function=name, function_offset=plus, build_id=build_id,
    )  # fmt: skip


def _sanitizer(text: str, match: re.Match[str]) -> Frame:
    rest, build_id = _without_build_id(text[match.end() :])
    rest = rest.strip()
    module: str | None = None
    pc: int | None = None
    locations: tuple[Location, ...] = ()
    if rest.endswith(")") and "+0x" in rest:
        before, _, number = rest[:-1].rpartition("+0x")
        start = 0 if rest.startswith("(") else before.rfind(" (") + 1
        if _is_hex(number) and before[start : start + 1] == "(":
            module, pc = before[start + 1 :], int(number, 16)
            rest = before[:start].strip()
    function = rest[3:].strip() if rest.startswith("in ") else ""
    if source := _SOURCE.search(function):
        function = function[: source.start()].strip()
        locations = (
            Location(function, source["file"], int(source["line"]), int(source["column"] or 0) or None),
        )
    return Frame(
        int(match[1]), text, SANITIZED,
        pc=pc, address=int(match[2], 16), module=module, function=function or None,
        build_id=build_id, locations=locations,
    )  # fmt: skip


def _lldb(text: str, match: re.Match[str]) -> Frame:
    rest = text[match.end() :]
    locations: tuple[Location, ...] = ()
    at = _LLDB_AT.search(rest)
    function, plus = _with_offset(rest[: at.start()] if at else rest, " + ")
    function = (function or "").replace(" [inlined]", "").strip() or None
    if at and function:
        locations = (Location(function, at["file"], int(at["line"]), int(at["column"] or 0) or None),)
    return Frame(
        int(match["number"]), text, LLDB,
        address=int(match["address"], 16), module=match["module"],
        function=function, function_offset=plus, locations=locations,
    )  # fmt: skip


def _without_build_id(rest: str) -> tuple[str, str | None]:
    start = rest.rfind("(BuildId: ")
    if start >= 0 and (found := _BUILD_ID.match(rest, start)):
        return rest[:start].rstrip(), found[1].lower()
    return rest.rstrip(), None


def _with_offset(function: str, sign: str = "+") -> tuple[str | None, int | None]:
    name, found, number = function.rpartition(sign)
    if found and number.strip().isascii() and number.strip().isdigit() and len(number) < 20:
        return name or None, int(number)
    return function or None, None


def _is_hex(text: str) -> bool:
    return 0 < len(text) <= 16 and all(c in "0123456789abcdefABCDEF" for c in text)
