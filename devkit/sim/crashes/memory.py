"""Another process's memory and its map."""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_right
from dataclasses import dataclass

_PAGE = 4096
_LINE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) ([0-9a-f]+) (\S+) (\d+)\s*(.*)")


@dataclass(frozen=True)
class Mapping:
    """A line of /proc/PID/maps."""

    start: int
    end: int
    permissions: str
    offset: int
    device: str
    inode: int
    name: str

    @property
    def readable(self) -> bool:
        """Whether the process may read there."""
        return self.permissions[0] == "r"

    @property
    def executable(self) -> bool:
        """Whether the process may run code there."""
        return self.permissions[2] == "x"

    @property
    def flags(self) -> str:
        """`r-x`."""
        return self.permissions[:3]


class Memory:
    """Memory of a process that stands still, so that pages can be remembered."""

    def __init__(self, pid: int) -> None:
        self._fd = os.open(f"/proc/{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        self._pages: dict[int, bytes] = {}

    def close(self) -> None:
        """Let go of the process."""
        os.close(self._fd)

    def read(self, address: int, count: int) -> bytes:
        """Exactly `count` bytes.

        Raises:
            OSError: some of them cannot be read.
        """
        first, last = address // _PAGE, (address + max(count, 1) - 1) // _PAGE
        data = b"".join(self._page(number) for number in range(first, last + 1))
        start = address - first * _PAGE
        return data[start : start + count]

    def word(self, address: int) -> int:
        """An 8-byte number.

        Raises:
            OSError: it cannot be read.
        """
        value: int = struct.unpack("<Q", self.read(address, 8))[0]
        return value

    def text(self, address: int, limit: int = 4096) -> bytes:
        """A C string, cut at `limit`.

        Raises:
            OSError: it cannot be read.
        """
        result = b""
        while len(result) < limit:
            piece = self.read(address + len(result), _PAGE - (address + len(result)) % _PAGE)
            end = piece.find(b"\0")
            if end >= 0:
                return (result + piece[:end])[:limit]
            result += piece
        return result[:limit]

    def _page(self, number: int) -> bytes:
        page = self._pages.get(number)
        if page is None:
            try:
                page = os.pread(self._fd, _PAGE, number * _PAGE)
            except (OverflowError, ValueError):
                page = b""
            if len(page) != _PAGE:
                raise OSError(f"no memory at {number * _PAGE:#x}")
            self._pages[number] = page
        return page


class Maps:
    """A process's map, for finding what is at an address."""

    def __init__(self, mappings: list[Mapping]) -> None:
        self.all = mappings
        self._starts = [mapping.start for mapping in mappings]

    def find(self, address: int) -> Mapping | None:
        """The mapping that holds an address."""
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address < self.all[index].end:
            return self.all[index]
        return None

    def first_of(self, mapping: Mapping) -> Mapping:
        """The mapping that holds the beginning of the same file, as it was loaded with this one."""
        index = self.all.index(mapping)
        while index >= 0:
            other = self.all[index]
            if (other.device, other.inode, other.name) == (mapping.device, mapping.inode, mapping.name):
                if other.offset == 0:
                    return other
            elif other.name and other.inode:
                break
            index -= 1
        return mapping


def read_maps(pid: int) -> Maps:
    """The map of a process.

    Raises:
        OSError: the process is gone.
    """
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="surrogateescape") as file:
        text = file.read()
    return Maps(parse_maps(text))


def parse_maps(text: str) -> list[Mapping]:
    """The mappings of a maps file; names in it have newlines as \\012."""
    mappings = []
    for line in text.splitlines():
        found = _LINE.match(line)
        if found:
            start, end, permissions, offset, device, inode, name = found.groups()
            mappings.append(
                Mapping(
                    *(int(start, 16), int(end, 16), permissions, int(offset, 16)),
                    *(device, int(inode), name.replace("\\012", "\n")),
                )
            )
    return mappings
