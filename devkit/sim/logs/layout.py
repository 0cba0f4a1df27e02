"""The layouts of `logcat -v`, byte for byte those of liblog/logprint.cpp."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from devkit.sim.logs.entry import Entry
from devkit.sim.logs.wire import DEBUG, ERROR, FATAL, INFO, WARN

LAYOUTS = ("brief", "long", "process", "raw", "tag", "thread", "threadtime", "time")
MODIFIERS = ("color", "descriptive", "epoch", "monotonic", "nsec", "printable", "uid", "usec", "year", "zone")
LETTERS = b"??VDIWEFS"

_COLORS = {DEBUG: 34, INFO: 32, WARN: 33, ERROR: 31, FATAL: 31}
_DEFAULT_COLOR = 39
# Prefix and suffix have buffers of this size, one byte of which is the end.
_MAX_AFFIX_BYTES = 127
_USER_NAMES = {0: "root", 2000: "shell"}
_ESCAPES = {7: b"\\a", 8: b"\\b", 10: b"\\n", 11: b"\\v", 12: b"\\f", 13: b"\\r", 92: b"\\\\"}
_PLAIN = re.compile(rb"[\t\x20-\x5b\x5d-\x7e]+")
_ZONE = re.compile(r"(UTC|GMT|[A-Za-z]{3,}[+-]?\d{1,2}(:\d\d)?.*)\Z")


@dataclass
class Layout:
    """A layout and what modifies it.

    Args:
        zone: value for TZ when a time zone was asked for.
    """

    name: str = ""
    modifiers: set[str] = field(default_factory=set)
    zone: str | None = None

    def add(self, words: str) -> str | None:
        """Take the value of `-v`; the first word that is none of the known is returned."""
        for word in re.split(r"[,:; \t\n\r\f]", words):
            if word in LAYOUTS:
                self.name = word
            elif word == "zone":
                # Said twice it is off again.
                self.modifiers ^= {"zone"}
            elif word in MODIFIERS:
                self.modifiers.add(word)
            elif word == "colour":
                self.modifiers.add("color")
            elif _ZONE.match(word):
                self.zone = "UTC0" if word in ("UTC", "GMT") else word
                self.modifiers ^= {"zone"}
            else:
                return word
        return None

    def formatter(self) -> Callable[[Entry], bytes]:
        """The function that lays entries out."""
        if self.name == "threadtime" and self.modifiers <= {"year", "usec", "nsec", "zone"}:
            return _Plain(self.modifiers).format
        return _Formatter(self).format


def stamp_digits(modifiers: set[str]) -> int:
    """How many digits of a second are shown."""
    return 9 if "nsec" in modifiers else 6 if "usec" in modifiers else 3


class _Clock:
    """Times as text; what a second's entries have in common is made once."""

    def __init__(self, modifiers: set[str]) -> None:
        self._counted = bool({"epoch", "monotonic"} & modifiers)
        self._monotonic = "monotonic" in modifiers
        self._year = "year" in modifiers
        self._zone = "zone" in modifiers and not self._counted
        self._offset_ns = time.time_ns() - time.monotonic_ns() if self._monotonic else 0
        self._digits = stamp_digits(modifiers)
        self._second = -1
        self._head = b""
        self._tail = b""

    def text(self, sec: int, nsec: int) -> bytes:
        if self._monotonic:
            sec, nsec = divmod(sec * 10**9 + nsec - self._offset_ns, 10**9)
        if sec != self._second:
            self._second = sec
            self._head, self._tail = self.parts(sec)
        return b"%b%0*d%b" % (self._head, self._digits, nsec // 10 ** (9 - self._digits), self._tail)

    def parts(self, sec: int) -> tuple[bytes, bytes]:
        if self._counted:
            return (b"%6d." if self._monotonic else b"%19d.") % sec, b""
        local = time.localtime(sec)
        pattern = "%Y-%m-%d %H:%M:%S." if self._year else "%m-%d %H:%M:%S."
        return (
            time.strftime(pattern, local).encode(),
            time.strftime(" %z", local).encode() if self._zone else b"",
        )


class _Plain:
    """threadtime with no more than longer stamps, which nearly everybody uses: made to be fast."""

    def __init__(self, modifiers: set[str]) -> None:
        self._parts = _Clock(modifiers).parts
        digits = stamp_digits(modifiers)
        self._divisor = 10 ** (9 - digits)
        self._pattern = b"%%b%%0%dd%%b %%5d %%5d %%c %%-8b: " % digits
        self._second = -1
        self._head = self._tail = b""

    def format(self, entry: Entry) -> bytes:
        _, _, pid, tid, sec, nsec, priority, tag, message = entry
        if sec != self._second:
            self._second = sec
            self._head, self._tail = self._parts(sec)
        letter = LETTERS[priority] if priority < 9 else 63
        prefix = self._pattern % (self._head, nsec // self._divisor, self._tail, pid, tid, letter, tag)
        if len(prefix) > _MAX_AFFIX_BYTES:
            prefix = prefix[:_MAX_AFFIX_BYTES]
        if b"\n" not in message:
            return prefix + message + b"\n"
        return b"".join(prefix + line + b"\n" for line in lines_of(message))


class _Formatter:
    """Any layout with any modifiers."""

    def __init__(self, layout: Layout) -> None:
        self._name = layout.name
        self._modifiers = layout.modifiers
        self._clock = _Clock(layout.modifiers)

    def format(self, entry: Entry) -> bytes:
        prefix, suffix = self._affixes(entry)
        if "color" in self._modifiers:
            prefix = b"\x1b[%dm" % _COLORS.get(entry.priority, _DEFAULT_COLOR) + prefix
            suffix = b"\x1b[0m" + suffix
        prefix = prefix[:_MAX_AFFIX_BYTES]
        if len(suffix) > _MAX_AFFIX_BYTES:
            suffix = suffix[: _MAX_AFFIX_BYTES - 1] + b"\n"
        # The long layout has its header once, the others before every line.
        lines = [entry.message] if self._name == "long" else lines_of(entry.message)
        if "printable" in self._modifiers:
            lines = [printable(line) for line in lines]
        return b"".join(prefix + line + suffix for line in lines)

    def _affixes(self, entry: Entry) -> tuple[bytes, bytes]:
        name, pid, tid, tag = self._name, entry.pid, entry.tid, entry.tag
        letter = LETTERS[entry.priority] if entry.priority < len(LETTERS) else ord("?")
        uid = _user(entry.uid) if "uid" in self._modifiers else b""
        if name == "raw":
            return b"", b"\n"
        if name == "tag":
            return b"%c/%-8b: " % (letter, tag), b"\n"
        if name == "process":
            return b"%c(%b%5d) " % (letter, uid, pid), b"  (%b)\n" % tag
        if name == "thread":
            return b"%c(%b%5d:%5d) " % (letter, uid, pid, tid), b"\n"
        if name == "brief":
            return b"%c/%-8b(%b%5d): " % (letter, tag, uid, pid), b"\n"
        stamp = self._clock.text(entry.sec, entry.nsec)
        if name == "time":
            return b"%b %c/%-8b(%b%5d): " % (stamp, letter, tag, uid, pid), b"\n"
        if name == "long":
            return b"[ %b %b%5d:%5d %c/%-8b ]\n" % (stamp, uid, pid, tid, letter, tag), b"\n\n"
        uid = uid.replace(b":", b" ")
        return b"%b %b%5d %5d %c %-8b: " % (stamp, uid, pid, tid, letter, tag), b"\n"


def lines_of(message: bytes) -> list[bytes]:
    """The lines of a message; one that ends with a newline has no empty line after it."""
    lines = message.split(b"\n")
    if len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def printable(text: bytes) -> bytes:
    """Text with everything escaped that a terminal could take for more than text (convertPrintable)."""
    result = bytearray()
    at = 0
    while at < len(text):
        plain = _PLAIN.match(text, at)
        if plain:
            result += plain[0]
            at = plain.end()
            continue
        byte = text[at]
        if byte in _ESCAPES:
            result += _ESCAPES[byte]
            at += 1
        elif byte < 0x20 or byte == 0x7F:
            result += b"\\x%02X" % byte
            at += 1
        else:
            size = _utf8_size(text, at)
            result += text[at : at + size] if size else b"\\x%02X" % byte
            at += size or 1
    return bytes(result)


def _utf8_size(text: bytes, at: int) -> int:
    """How many bytes the character at this place has, 0 when it is none."""
    for size in (2, 3, 4):
        try:
            text[at : at + size].decode("utf-8")
        except UnicodeDecodeError:
            continue
        return min(size, len(text) - at)
    return 0


def _user(uid: int) -> bytes:
    name = _USER_NAMES.get(uid, str(uid))
    return b"%5b:" % name.encode()
