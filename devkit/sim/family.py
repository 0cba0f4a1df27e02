"""Processes by their parents: those below one, and ending them all."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Collection


def end_descendants(ancestor: int, keep: set[int]) -> None:
    """Kill every process below `ancestor` until none is left, whatever it starts meanwhile.

    The caller must have adopted orphans (`namespaces.adopt_orphans`), else some get away.

    Args:
        keep: processes that stay, with what is below them.
    """
    while found := descendants(ancestor, keep):
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        _reap(set(found))
        time.sleep(0.01)


def descendants(ancestor: int, keep: Collection[int] = ()) -> list[int]:
    """Every living process below another, but for some and what is below those."""
    parents: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                fields = file.read().rpartition(b")")[2].split()
        except OSError:
            continue
        if fields[0] not in (b"Z", b"X"):
            parents[int(entry)] = int(fields[1])
    found: list[int] = []
    waiting = [ancestor]
    while waiting:
        parent = waiting.pop()
        below = [pid for pid, its in parents.items() if its == parent and pid not in keep]
        found += below
        waiting += below
    return found


def _reap(pids: set[int]) -> None:
    for pid in pids:
        try:
            os.waitpid(pid, os.WNOHANG)
        except ChildProcessError:
            pass
