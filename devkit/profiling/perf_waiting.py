"""Weights of off-CPU samples: how long a thread did not run."""

from __future__ import annotations

_MOST = (1 << 63) - 1


class Waiting:
    """Samples of a recording with off-CPU time: one taken when a thread left its processor weighs as much
    as the time until the thread was seen again."""

    def __init__(self) -> None:
        self._rows: list[list[int]] = []
        self._left: dict[int, int] = {}
        self._last = 0

    def add(
        self, who: int, time: int, thread: int, event: int, stack: int, weight: int, *, waits: bool
    ) -> None:
        self.back(who, time)
        self._rows.append([stack, thread, 0 if waits else min(weight, _MOST), time & _MOST, event])
        if waits:
            self._left[who] = len(self._rows) - 1

    def back(self, who: int, time: int) -> None:
        """A thread runs again."""
        self._last = max(self._last, time & _MOST)
        index = self._left.pop(who, None)
        if index is not None:
            self._rows[index][2] = max(0, (time & _MOST) - self._rows[index][3])

    def finish(self) -> list[list[int]]:
        """All rows; who never came back waited until the end."""
        for index in self._left.values():
            self._rows[index][2] = max(0, self._last - self._rows[index][3])
        return self._rows
