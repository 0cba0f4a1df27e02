"""logcat's command line: getopt_long's rules, then what each option means (logcat/logcat.cpp)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from devkit.sim.logs import wire
from devkit.sim.logs.filters import Filters
from devkit.sim.logs.layout import Layout

_SHORT_WITH_VALUE = "tTGfrnvbPme"
_SHORT_ALONE = "cdDhLgsQBSp"
# Long name → (letter or the name itself, "none" | "required" | "optional").
_LONG = {
    "binary": ("B", "none"),
    "buffer": ("b", "required"),
    "buffer-size": ("g", "optional"),
    "clear": ("c", "none"),
    "debug": ("debug", "none"),
    "dividers": ("D", "none"),
    "file": ("f", "required"),
    "format": ("v", "required"),
    "grep": ("e", "required"),
    "head": ("m", "required"),
    "help": ("h", "none"),
    "last": ("L", "none"),
    "max-count": ("m", "required"),
    "pid": ("pid", "required"),
    "print": ("print", "none"),
    "prune": ("p", "optional"),
    "regex": ("e", "required"),
    "rotate-count": ("n", "required"),
    "rotate-kbytes": ("r", "required"),
    "statistics": ("S", "none"),
    "tail": ("t", "required"),
    "uid": ("uid", "required"),
    "wrap": ("wrap", "optional"),
}
_MULTIPLIERS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3}
DEFAULT_ROTATED_FILES = 4


class LogcatError(Exception):
    """What logcat says before it ends with exit code 1."""


@dataclass
class Options:
    """What is asked for.

    Args:
        warnings: to be printed first.
        start: nanoseconds since 1970 from which on to print, 0 for the beginning.
    """

    filters: Filters = field(default_factory=Filters)
    layout: Layout = field(default_factory=Layout)
    warnings: list[str] = field(default_factory=list)
    mask: int = 0
    clear: bool = False
    ends: bool = False
    help: bool = False
    get_size: bool = False
    set_size: int = 0
    statistics: bool = False
    get_prune_list: bool = False
    set_prune_list: str | None = None
    last: bool = False
    tail: int = 0
    start: int = 0
    pid: int = 0
    uids: frozenset[int] = frozenset()
    regex: re.Pattern[bytes] | None = None
    max_count: int = 0
    print_all: bool = False
    dividers: bool = False
    binary: bool = False
    file: str | None = None
    rotate_kib: int = 0
    rotated_files: int = DEFAULT_ROTATED_FILES


def parse(arguments: list[str], environment: Mapping[str, str], *, kernel_by_default: bool) -> Options:
    """Understand a command line.

    Args:
        kernel_by_default: whether the kernel's messages are shown without being asked for.

    Raises:
        LogcatError: it is wrong.
    """
    options = Options()
    seen_t = False
    free: list[str] = []
    for letter, value in _scan(arguments, free):
        seen_t |= letter == "t"
        _apply(options, letter, value)
    if options.max_count and seen_t:
        raise LogcatError("Cannot use -m (--max-count) and -t together.")
    if options.print_all and not (options.regex and options.max_count):
        options.warnings.append(
            "WARNING: --print ignored, to be used in combination with\n"
            "         --regex <expr> and --max-count <N>"
        )
        options.print_all = False
    if not options.mask:
        chosen = [wire.MAIN, wire.SYSTEM, wire.CRASH, *([wire.KERNEL] if kernel_by_default else [])]
        options.mask = sum(1 << number for number in chosen)
    if options.rotate_kib and options.file is None:
        raise LogcatError("-r requires -f as well.")
    # What was logged before the reboot has an end.
    options.ends |= options.last
    if not options.layout.name:
        _layout_from_environment(options, environment.get("ANDROID_PRINTF_LOG", ""))
    _add_filters(options, free, environment.get("ANDROID_LOG_TAGS"))
    if options.last and options.clear and options.file is not None:
        raise LogcatError("-c is ambiguous with both -f and -L specified.")
    asks = options.get_size or options.set_size or options.statistics
    asks = asks or options.get_prune_list or options.set_prune_list is not None
    if options.last and asks:
        raise LogcatError("-L is incompatible with -g/-G, -S, and -p/-P.")
    if options.file is not None and asks:
        raise LogcatError("-f is incompatible with -g/-G, -S, and -p/-P.")
    return options


def parse_time(text: str) -> tuple[int, str] | None:
    """A time of `-t` or `-T` as nanoseconds since 1970, and what follows it; None when it is none."""
    fraction = r"\.(\d{1,9})(.*)"
    calendar = re.match(r"(?:(\d{4})-)?(\d{1,2})-(\d{1,2}) +(\d{1,2}):(\d{1,2}):(\d{1,2})" + fraction, text)
    if calendar:
        year, month, day, hour, minute, second = (int(group or 0) for group in calendar.groups()[:6])
        fields = (year or time.localtime().tm_year, month, day, hour, minute, second, 0, 0, -1)
        try:
            seconds = int(time.mktime(fields))
        except (OverflowError, ValueError):
            return None
        return seconds * 10**9 + int(calendar[7].ljust(9, "0")), calendar[8]
    counted = re.match(r"(\d+)" + fraction, text)
    if counted:
        return int(counted[1]) * 10**9 + int(counted[2].ljust(9, "0")), counted[3]
    return None


def _scan(arguments: list[str], free: list[str]) -> Iterator[tuple[str, str | None]]:
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if word == "--":
            free.extend(waiting)
            return
        if word.startswith("--"):
            yield _long(word, waiting)
        elif word.startswith("-") and len(word) > 1:
            letters = word[1:]
            while letters:
                letter, letters = letters[0], letters[1:]
                if letter in _SHORT_ALONE:
                    yield letter, None
                elif letter in _SHORT_WITH_VALUE:
                    if not letters and not waiting:
                        raise LogcatError(f"Option '{word}' needs an argument.")
                    yield letter, letters or waiting.pop(0)
                    letters = ""
                else:
                    raise LogcatError(f"Unknown option '{word}'.")
        else:
            free.append(word)


def _long(word: str, waiting: list[str]) -> tuple[str, str | None]:
    name, has_value, value = word[2:].partition("=")
    matches = [name] if name in _LONG else [known for known in _LONG if known.startswith(name)]
    if len({_LONG[match] for match in matches}) != 1:
        raise LogcatError(f"Unknown option '{word}'.")
    letter, kind = _LONG[matches[0]]
    if kind == "none" and has_value:
        raise LogcatError(f"Unknown option '{word}'.")
    if kind == "required" and not has_value:
        if not waiting:
            raise LogcatError(f"Option '{word}' needs an argument.")
        value, has_value = waiting.pop(0), "="
    return letter, value if has_value else None


def _apply(options: Options, letter: str, value: str | None) -> None:
    if letter in _FLAGS:
        setattr(options, _FLAGS[letter], True)
    elif letter == "s":
        options.filters.add("*:s")
    elif letter == "g":
        options.get_size = value is None
        options.set_size = _size(value) if value is not None else options.set_size
    elif letter == "p" and value is None:
        options.get_prune_list = True
    elif letter in ("p", "P"):
        options.set_prune_list = value
    elif value is None:
        pass  # --debug, --wrap, -Q: nothing that could be seen.
    else:
        _apply_value(options, letter, value)


_FLAGS = {
    "c": "clear",
    "d": "ends",
    "h": "help",
    "L": "last",
    "S": "statistics",
    "D": "dividers",
    "B": "binary",
    "print": "print_all",
}


def _apply_value(options: Options, letter: str, value: str) -> None:
    if letter in ("t", "T"):
        options.ends |= letter == "t"
        _apply_tail(options, letter, value)
    elif letter == "G":
        options.set_size = _size(value)
    elif letter == "b":
        options.mask |= _mask(value)
    elif letter == "v":
        unknown = options.layout.add(value)
        if unknown is not None:
            raise LogcatError(f"Invalid -v '{unknown}'.")
    elif letter == "e":
        try:
            options.regex = re.compile(value.encode("utf-8", "surrogateescape"))
        except re.error as error:
            raise LogcatError(f"Invalid -e '{value}': {error}") from None
    elif letter == "m":
        options.max_count = _positive(value, f"-m '{value}' isn't an integer greater than zero.")
    elif letter == "f":
        options.file = value
    elif letter == "r":
        options.rotate_kib = _positive(value, f"Invalid -r '{value}'.")
    elif letter == "n":
        options.rotated_files = _positive(value, f"Invalid -n '{value}'.")
    elif letter == "pid":
        if options.pid:
            raise LogcatError("Only one --pid argument can be provided.")
        options.pid = _positive(value, f"pid '{value}' out of range.")
    elif letter == "uid":
        words = re.split(r"[,:; \t\n\r\f]", value)
        if wrong := [word for word in words if not word.isdecimal()]:
            raise LogcatError(f"Unable to parse UID '{wrong[0]}'")
        options.uids |= {int(word) for word in words}


def _apply_tail(options: Options, letter: str, value: str) -> None:
    if re.fullmatch(r"[0-9]*", value):
        options.tail = int(value or 0)
        if options.tail < 1:
            options.warnings.append(f"WARNING: -{letter} {value} invalid, setting to 1")
            options.tail = 1
        return
    parsed = parse_time(value)
    if parsed is None:
        raise LogcatError(f"-{letter} '{value}' not in time format.")
    options.start, rest = parsed
    if rest:
        known = value[: len(value) - len(rest)]
        options.warnings.append(f"WARNING: -{letter} '{known}' '{rest[0]}{rest[1:]}' time truncated")


def _size(text: str) -> int:
    found = re.fullmatch(r"(\d+)([bBkKmMgG]?)", text)
    if not found or int(found[1]) < 1:
        raise LogcatError("-G must be specified as <num><multiplier>.")
    return int(found[1]) * _MULTIPLIERS[found[2].upper()]


def _mask(names: str) -> int:
    mask = 0
    for name in re.split(r"[,:; \t\n\r\f]", names):
        if name == "default":
            mask |= 1 << wire.MAIN | 1 << wire.SYSTEM | 1 << wire.CRASH
        elif name == "all":
            mask |= (1 << len(wire.BUFFER_NAMES)) - 1 & ~(1 << wire.SECURITY)
        elif name in wire.BUFFER_NAMES:
            mask |= 1 << wire.BUFFER_NAMES.index(name)
        else:
            raise LogcatError(f"Unknown -b buffer '{name}'.")
    return mask


def _positive(text: str, complaint: str) -> int:
    if not (text.isascii() and text.isdigit()) or int(text) < 1:
        raise LogcatError(complaint)
    return int(text)


def _layout_from_environment(options: Options, text: str) -> None:
    unknown = options.layout.add(text) if text else None
    if unknown is not None:
        options.warnings.append(f"invalid format in ANDROID_PRINTF_LOG '{unknown}'")
    options.layout.name = options.layout.name or "threadtime"


def _add_filters(options: Options, free: list[str], tags: str | None) -> None:
    for text in free:
        if not options.filters.add(text):
            raise LogcatError(f"Invalid filter expression '{text}'.")
    if not free and tags is not None and not options.filters.add(tags):
        raise LogcatError(f"Invalid filter expression '{tags}' in ANDROID_LOG_TAGS.")
