"""How many compilers run at once: as many as cores and memory allow."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from devkit.engine.build_types import BuildType

# As a container sees its own group: version 2, else the controllers of version 1.
_CGROUP = Path("/sys/fs/cgroup")
_MEMINFO = Path("/proc/meminfo")


@dataclass(frozen=True)
class Jobs:
    """`count` parallel jobs; `limited_by` is "cores" or "memory". Memory in megabytes, None: unknown."""

    count: int
    cores: int
    memory_mb: int | None
    limited_by: str

    @property
    def why(self) -> str:
        """Why they are fewer than the cores; empty when they are not."""
        if self.limited_by == "cores" or self.memory_mb is None:
            return ""
        return f"{self.count} of {self.cores} cores, for {self.memory_mb / 1024:.1f} GB of free memory"


def jobs_for(build_type: BuildType, *, cores: int | None = None, memory_mb: int | None = None) -> Jobs:
    """As many jobs as there are cores, and no more than the free memory holds.

    A Debug MNN on 16 cores with 8 GB ends in swap, or by the kernel's hand.

    Args:
        cores: default: those this process may use.
        memory_mb: default: what is free now, also within a container's limit.
    """
    cores = cores or available_cores()
    memory_mb = memory_mb if memory_mb is not None else available_memory_mb()
    if memory_mb is None:
        return Jobs(cores, cores, None, "cores")
    fit = max(1, memory_mb // build_type.memory_mb)
    return Jobs(min(cores, fit), cores, memory_mb, "memory" if fit < cores else "cores")


def available_cores() -> int:
    """Cores that this process may run on: affinity and a container's quota count."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _read(_CGROUP / "cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and quota[1].isdigit():
        cores = min(cores, max(1, int(quota[0]) // int(quota[1])))
    return cores


def available_memory_mb() -> int | None:
    """Megabytes that can be used without swapping; None when the system does not say (macOS)."""
    found = [line.split() for line in _read(_MEMINFO).splitlines() if line.startswith("MemAvailable:")]
    free = int(found[0][1]) // 1024 if found else None
    for limit, used, statistics, inactive in _MEMORY_FILES:
        left = _left_in_group(limit, used, statistics, inactive)
        if left is not None:
            return left if free is None else min(free, left)
    return free


# The limit, what is used, and of it the file cache that nobody has open: it gives way, as in MemAvailable.
# https://docs.kernel.org/admin-guide/cgroup-v2.html, .../cgroup-v1/memory.html
_MEMORY_FILES = (
    ("memory.max", "memory.current", "memory.stat", "inactive_file"),
    (
        "memory/memory.limit_in_bytes",
        "memory/memory.usage_in_bytes",
        "memory/memory.stat",
        "total_inactive_file",
    ),
)


def _left_in_group(limit: str, used: str, statistics: str, inactive: str) -> int | None:
    """Megabytes below a control group's limit; None when there is no such limit."""
    most, now = _read(_CGROUP / limit).strip(), _read(_CGROUP / used).strip()
    if not (most.isdigit() and now.isdigit()):
        return None
    rows = (line.split() for line in _read(_CGROUP / statistics).splitlines())
    cached = next((int(row[1]) for row in rows if row[:1] == [inactive]), 0)
    return max(0, int(most) - max(0, int(now) - cached)) // 1_048_576


def _read(file: Path) -> str:
    try:
        return file.read_text("utf-8", "replace")
    except OSError:
        return ""
