"""The phone's processor cores, in one round trip, and how many threads they carry well."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.models.findings import ERROR, WARNING, Finding
from devkit.models.folder import ModelConfig

if TYPE_CHECKING:
    from devkit.device import Device

_SCRIPT = """\
for c in /sys/devices/system/cpu/cpu[0-9]*; do
  a=$(cat $c/cpu_capacity 2>/dev/null || echo -)
  f=$(cat $c/cpufreq/cpuinfo_max_freq 2>/dev/null || echo -)
  echo "${c##*/} $a $f"
done"""
_LINE = re.compile(r"cpu(\d+) (\d+|-) (\d+|-)")
# Little cores: below half of the biggest one's capacity (A510 beside X3: 0.3; SM8750's slower ones: 0.75),
# or, where the kernel tells no capacity, below 0.7 of its clock (A55 beside X1: 0.63; A78 beside it: 0.85).
_BIG_CAPACITY, _BIG_CLOCK = 0.5, 0.7


@dataclass(frozen=True)
class Core:
    """One core. `capacity` is the kernel's (the biggest core has 1024), `max_khz` its highest clock."""

    number: int
    capacity: int | None
    max_khz: int | None


@dataclass(frozen=True)
class Cores:
    """All cores of a phone; `big` are those that are worth a thread of a model."""

    all: tuple[Core, ...]
    big: tuple[Core, ...]


def read_cores(device: Device) -> Cores:
    """Ask the phone for its cores. One round trip."""
    return parse_cores(device.shell(_SCRIPT).text)


def parse_cores(text: str) -> Cores:
    """The output of the script."""
    cores = sorted(
        (
            Core(int(number), _number(capacity), _number(clock))
            for number, capacity, clock in _LINE.findall(text)
        ),
        key=lambda core: core.number,
    )
    capacities = [core.capacity for core in cores]
    big: Sequence[Core] = cores
    if cores and all(capacities):
        limit = max(c or 0 for c in capacities) * _BIG_CAPACITY
        big = [core for core in cores if (core.capacity or 0) >= limit]
    elif cores and all(core.max_khz for core in cores):
        limit = max(core.max_khz or 0 for core in cores) * _BIG_CLOCK
        big = [core for core in cores if (core.max_khz or 0) >= limit]
    return Cores(tuple(cores), tuple(big))


def check_threads(config: ModelConfig, cores: Cores, phone: str) -> list[Finding]:
    """thread_num against the phone: above the number of cores MNN's threads spin and wait for each other."""
    if not cores.all:
        return []
    found = []
    mllm = config.merged.get("mllm")
    places = [("thread_num", config.value("thread_num"), config.value("backend_type"))]
    if isinstance(mllm, dict):
        places.append(("mllm.thread_num", mllm.get("thread_num", 4), mllm.get("backend_type", "cpu")))
    for key, threads, backend in places:
        # For a GPU the number is a set of flags (68 for OpenCL), not of threads.
        if backend not in ("cpu", "auto", "") or not isinstance(threads, int) or threads <= len(cores.big):
            continue
        where = config.place(key.partition(".")[0]) if "thread_num" in config.merged else config.name
        hint = f'"thread_num": {len(cores.big)}'
        has = f"{threads} threads, but {phone} has"
        if threads > len(cores.all):
            what = f"{has} {len(cores.all)} cores: they spin and wait for each other, many times slower"
            found.append(Finding(ERROR, where, key, what, hint))
        else:
            what = f"{has} {len(cores.big)} big cores of {len(cores.all)}: the little ones hold the others up"
            found.append(Finding(WARNING, where, key, what, hint))
    return found


def _number(text: str) -> int | None:
    return int(text) if text.isdigit() and int(text) > 0 else None
