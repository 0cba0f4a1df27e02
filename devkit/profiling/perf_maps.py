"""Which file lay at an address of a process, and when: mappings change by exec and by dlopen."""

from __future__ import annotations

import bisect
from typing import NamedTuple


class Mapping(NamedTuple):
    """A part of a file in memory. `offset` is where it begins in the file."""

    start: int
    end: int
    offset: int
    path: str
    build_id: str = ""


class Space:
    """The mappings of one process between two times at which something was replaced."""

    def __init__(self, since: int, mappings: list[Mapping] | None = None) -> None:
        self.since = since
        self._mappings = sorted(mappings or [])
        self._starts = [mapping.start for mapping in self._mappings]

    def find(self, address: int) -> Mapping | None:
        """The mapping an address lies in."""
        at = bisect.bisect_right(self._starts, address) - 1
        if at < 0 or address >= self._mappings[at].end:
            return None
        return self._mappings[at]

    def add(self, mapping: Mapping) -> bool:
        """Take one in; False when it takes the place of something else."""
        at = bisect.bisect_right(self._starts, mapping.start)
        neighbours = self._mappings[max(0, at - 1) : at + 1]
        for other in neighbours:
            if other.start < mapping.end and mapping.start < other.end:
                return _same(other, mapping)
        self._mappings.insert(at, mapping)
        self._starts.insert(at, mapping.start)
        return True

    def without(self, mapping: Mapping) -> list[Mapping]:
        """What is left when one has taken its place."""
        left: list[Mapping] = []
        for other in self._mappings:
            if other.end <= mapping.start or mapping.end <= other.start:
                left.append(other)
                continue
            if other.start < mapping.start:
                left.append(other._replace(end=mapping.start))
            if mapping.end < other.end:
                skipped = mapping.end - other.start
                left.append(other._replace(start=mapping.end, offset=other.offset + skipped))
        return left

    def copy(self, since: int) -> Space:
        """The same mappings, as a forked process has them."""
        return Space(since, list(self._mappings))


class Spaces:
    """The mappings of all processes. Changes have to come in the order of their times."""

    def __init__(self) -> None:
        self._by_pid: dict[int, list[Space]] = {}

    def map(self, pid: int, time: int, mapping: Mapping) -> None:
        """A file was mapped."""
        spaces = self._by_pid.setdefault(pid, [Space(0)])
        if not spaces[-1].add(mapping):
            space = Space(time, spaces[-1].without(mapping))
            space.add(mapping)
            spaces.append(space)

    def exec(self, pid: int, time: int) -> None:
        """A process has become another program."""
        self._by_pid.setdefault(pid, []).append(Space(time))

    def fork(self, parent: int, child: int, time: int) -> None:
        """A process has made another one."""
        spaces = self._by_pid.get(parent)
        self._by_pid[child] = [spaces[-1].copy(time) if spaces else Space(time)]

    def at(self, pid: int, time: int) -> Space:
        """The mappings of a process at a time."""
        spaces = self._by_pid.get(pid)
        if spaces is None:
            spaces = self._by_pid[pid] = [Space(0)]
        if len(spaces) == 1:
            return spaces[0]
        at = bisect.bisect_right([space.since for space in spaces], time) - 1
        return spaces[max(at, 0)]

    @property
    def single(self) -> dict[int, Space]:
        """The processes whose mappings were never replaced."""
        return {pid: spaces[0] for pid, spaces in self._by_pid.items() if len(spaces) == 1}


def _same(one: Mapping, other: Mapping) -> bool:
    """Whether two mappings say the same of the addresses they share."""
    return one.path == other.path and one.start - one.offset == other.start - other.offset
