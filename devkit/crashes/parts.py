"""A sanitizer's report in its parts: the access, the block, who allocated, who freed, the thread."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.crashes.model import ACCESS, ALLOCATED, CREATED, FREED, VARIABLE, Crash, Frame, Stack
from devkit.crashes.own import Excerpt, caller_of_allocator, excerpt, own_frame, own_frames
from devkit.symbols import Location

_REGION = re.compile(
    r"is located (?P<bytes>\d{1,20}) bytes (?P<side>to the right of|after|to the left of|before|inside of) "
    r"(?:(?P<size>\d{1,20})-byte (?:region|heap allocation)"
    r"|(?P<global>(?:global|static) variable .{1,500}? of size \d{1,20}))"
)
_SIDES = {
    "to the right of": "behind the end of", "after": "behind the end of",
    "to the left of": "before the beginning of", "before": "before the beginning of",
}  # fmt: skip
_OBJECT = re.compile(r"\[(?P<from>\d{1,12}), (?P<to>\d{1,12})\) (?P<name>'[^']{1,200}'.{0,40}?) <== ")
# Lines that `block_of` says in other words.
PLACED = re.compile(r" is located (?:\d|in stack of thread)| <== Memory access")
_MOST_PARTS = 12


@dataclass(frozen=True)
class Part:
    """One part of a report.

    Attributes:
        name: access, freed, allocated, thread or block.
        text: what it says, in a few words; the whole part where it has no stack.
        frame, location: the first of the user's own in its stack.
        source: the lines around the location.
    """

    name: str
    text: str
    frame: Frame | None = None
    location: Location | None = None
    source: Excerpt | None = None

    def as_dict(self) -> dict[str, object]:
        """As `--json` prints it."""
        function = self.location.function if self.location else self.frame.function if self.frame else None
        return {
            "part": self.name,
            "text": self.text,
            "frame": self.frame.number if self.frame else None,
            "function": function,
            "file": self.location.file if self.location else None,
            "line": self.location.line if self.location else None,
            "source": self.source.as_dict() if self.source else None,
        }


def parts_of(crash: Crash, roots: Sequence[Path]) -> list[Part]:
    """The parts that a report has, in the order in which people read it; the access is the first."""
    found: list[Part] = []
    by = f" by thread {crash.thread}" if crash.thread else ""
    found.append(_part("access", f"{crash.access or crash.what or 'error'}{by}", own_frame(crash), roots))
    block = block_of(crash)
    if block:
        found.append(Part("block", block))
    for stack in crash.stacks[1:]:
        name, text = _name(stack)
        if name and len(found) < _MOST_PARTS and all(part.text != text for part in found):
            who = (
                caller_of_allocator(stack.frames)
                if name in ("allocated", "freed")
                else next(own_frames(stack.frames), None)
            )
            found.append(_part(name, text, who, roots))
    return found


def block_of(crash: Crash) -> str | None:
    """Where the address lies, in plain words: bytes behind the end of which block, or which variable."""
    for detail in crash.details:
        if region := _REGION.search(detail):
            size = region["size"]
            what = f"a block of {size} bytes" if size else region["global"]
            count = int(region["bytes"])
            if region["side"] == "inside of":
                freed = any(stack.title == FREED for stack in crash.stacks)
                return f"byte {count} of {what}" + (", which had been freed" if freed else "")
            unit = "byte" if count == 1 else "bytes"
            return f"{count} {unit} {_SIDES[region['side']]} {what}"
        if variable := _OBJECT.search(detail):
            size_bytes = int(variable["to"]) - int(variable["from"])
            return f"outside of the local variable {variable['name']} of {size_bytes} bytes"
    return None


def _name(stack: Stack) -> tuple[str, str]:
    by = f" by thread {stack.thread}" if stack.thread else ""
    if stack.title in (ALLOCATED, FREED):
        name = stack.title.removesuffix(" by")
        return name, f"{name}{by}"
    if stack.title.endswith(CREATED):
        who = stack.title.removesuffix(CREATED)
        return "thread", f"{who} was started" + by
    if stack.title == VARIABLE:
        return "variable", "the variable belongs to"
    return ("", "") if stack.title == ACCESS else ("other", stack.title)


def _part(name: str, text: str, own: tuple[Frame, Location | None] | None, roots: Sequence[Path]) -> Part:
    if own is None:
        return Part(name, text)
    frame, location = own
    return Part(name, text, frame, location, excerpt(location, roots) if location else None)
