"""How many threads of a model the phone's cores carry well."""

from __future__ import annotations

from typing import TYPE_CHECKING

from devkit.models.findings import ERROR, WARNING, Finding
from devkit.models.folder import ModelConfig

if TYPE_CHECKING:
    from devkit.device.cores import Cores

# Weak cores: below half of the biggest one's capacity (A510 beside X3: 0.3; SM8750's slower ones: 0.75),
# or, where the kernel tells no capacity, below 0.7 of its clock (A55 beside X1: 0.63; A78 beside it: 0.85).
_STRONG_CAPACITY, _STRONG_CLOCK = 0.5, 0.7


def strong_cores(cores: Cores) -> tuple[int, ...]:
    """Numbers of those that are worth a thread of a model; all, where the phone tells too little.

    Not `Cores.group("big")`: a chip without little cores (SM8750) carries a thread on each.
    """
    if not cores.strength or not set(cores.all) <= set(cores.strength):
        return cores.all
    limit = max(cores.strength.values()) * (_STRONG_CLOCK if cores.by_clock else _STRONG_CAPACITY)
    return tuple(cpu for cpu in cores.all if cores.strength[cpu] >= limit)


def check_threads(config: ModelConfig, cores: Cores, phone: str) -> list[Finding]:
    """thread_num against the phone: above the number of cores MNN's threads spin and wait for each other."""
    if not cores.all:
        return []
    found = []
    strong = strong_cores(cores)
    mllm = config.merged.get("mllm")
    places = [("thread_num", config.value("thread_num"), config.value("backend_type"))]
    if isinstance(mllm, dict):
        places.append(("mllm.thread_num", mllm.get("thread_num", 4), mllm.get("backend_type", "cpu")))
    for key, threads, backend in places:
        # For a GPU the number is a set of flags (68 for OpenCL), not of threads.
        if backend not in ("cpu", "auto", "") or not isinstance(threads, int) or threads <= len(strong):
            continue
        where = config.place(key.partition(".")[0]) if "thread_num" in config.merged else config.name
        hint = f'"thread_num": {len(strong)}'
        has = f"{threads} threads, but {phone} has"
        if threads > len(cores.all):
            what = f"{has} {len(cores.all)} cores: they spin and wait for each other, many times slower"
            found.append(Finding(ERROR, where, key, what, hint))
        else:
            what = f"{has} {len(strong)} strong cores of {len(cores.all)}: the weak ones hold the others up"
            found.append(Finding(WARNING, where, key, what, hint))
    return found
