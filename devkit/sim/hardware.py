"""What a model's kernel tells of its hardware: /sys/class/thermal, cpufreq, soc0 and /proc/meminfo, as files.

The files lie in a folder outside of the phone, which shows them read-only; the supervisor moves some.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

# Folders that appear on the phone in place of this machine's.
FOLDERS = ("sys/class/thermal", "sys/devices/soc0", "sys/devices/system/cpu")
MEMINFO = "proc/meminfo"
REFRESH_S = 2.0

_CPU_SYSFS = Path("/sys/devices/system/cpu")
_COPIED = ("possible", "present", "online", "offline", "isolated", "kernel_max")
_COPIED_TOPOLOGY = (
    "cluster_id",
    "core_cpus",
    "core_cpus_list",
    "core_id",
    "core_siblings",
    "core_siblings_list",
    "physical_package_id",
    "thread_siblings",
    "thread_siblings_list",
)
# Degrees around a zone's mean, and how long one swing takes.
_SWING_C, _SWING_S = 1.5, 40.0
_FREQUENCY_STEPS = 12


@dataclass(frozen=True)
class Cluster:
    """Cores that share a clock.

    Args:
        cpus: numbers of this machine's processors that stand for its cores.
    """

    cpus: tuple[int, ...]
    min_khz: int
    max_khz: int
    capacity: int

    @property
    def frequencies_khz(self) -> list[int]:
        """The clocks it can run at, in the steps of 19.2 MHz that these chips have."""
        step = (self.max_khz - self.min_khz) / (_FREQUENCY_STEPS - 1)
        inner = (round((self.min_khz + step * i) / 19200) * 19200 for i in range(1, _FREQUENCY_STEPS - 1))
        return [self.min_khz, *inner, self.max_khz]


def place_clusters(rows: list[Mapping[str, int]], cpu_count: int) -> list[Cluster]:
    """Spread a model's cores over the processors there are: the smallest first, the largest last.

    With fewer processors than cores some are left out, with more the larger clusters grow.
    """
    owners = [index for index, row in enumerate(rows) for _ in range(row["cores"])]
    last = len(owners) - 1
    chosen: dict[int, list[int]] = {}
    for cpu in range(cpu_count):
        core = last if cpu_count == 1 else round(cpu * last / (cpu_count - 1))
        chosen.setdefault(owners[core], []).append(cpu)
    return [
        Cluster(tuple(cpus), rows[index]["min_khz"], rows[index]["max_khz"], rows[index]["capacity"])
        for index, cpus in sorted(chosen.items())
    ]


def plan_files(row: Mapping[str, Any], cpu_count: int) -> dict[str, str]:
    """All files of a model, by their path on the phone; none for what the model leaves to the machine.

    Args:
        row: the model's from models.yaml.
        cpu_count: processors of this machine.
    """
    files: dict[str, str] = {}
    for index, (zone, celsius) in enumerate(row.get("thermal", {}).items()):
        folder = f"sys/class/thermal/thermal_zone{index}"
        files |= {
            f"{folder}/type": zone,
            f"{folder}/temp": str(celsius * 1000),
            f"{folder}/mode": "enabled",
            f"{folder}/policy": "step_wise",
        }
    files |= {f"sys/devices/soc0/{name}": str(value) for name, value in row.get("soc", {}).items()}
    if "cpu" in row:
        files |= _cpu_files(place_clusters(row["cpu"], cpu_count), row["governors"])
    if "memory_kb" in row:
        files[MEMINFO] = _meminfo(row["memory_kb"]).rstrip("\n")
    return files


class Hardware:
    """The planned files in a folder of this machine.

    Args:
        folder: where they lie, by their path on the phone.
        files: what `plan_files` made.
    """

    def __init__(self, folder: Path, files: Mapping[str, str]) -> None:
        self._folder = folder
        self._files = files

    def write(self) -> None:
        """Make all files.

        Raises:
            OSError: they cannot be written.
        """
        for name, text in self._files.items():
            path = self._folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n", encoding="ascii")
        cpus = self._folder / "sys/devices/system/cpu"
        for policy in sorted(cpus.glob("cpufreq/policy*")):
            for cpu in (policy / "related_cpus").read_text(encoding="ascii").split():
                (cpus / f"cpu{cpu}" / "cpufreq").symlink_to(f"../cpufreq/{policy.name}")

    def move(self, now_s: float) -> None:
        """Let temperatures and clocks move a little, as those of an idle phone do.

        Raises:
            OSError: the folder is gone or full.
        """
        for name, text in self._files.items():
            folder, _, kind = name.rpartition("/")
            if kind == "temp":
                swing = math.sin(2 * math.pi * now_s / _SWING_S + len(folder) + int(folder[-1]))
                self._replace(name, str(int(text) + round(swing * _SWING_C * 1000)))
            elif kind == "scaling_cur_freq":
                steps = self._files[f"{folder}/scaling_available_frequencies"].split()
                idle = steps[: len(steps) // 2]
                self._replace(name, idle[int(now_s / REFRESH_S) % len(idle)])

    def _replace(self, name: str, text: str) -> None:
        # The new content is written where the phone cannot see it: its folders list nothing else.
        temporary = self._folder / ".new"
        temporary.write_text(text + "\n", encoding="ascii")
        os.replace(temporary, self._folder / name)


def processors() -> int:
    """How many processors this machine has, whether this process may use them or not."""
    return os.cpu_count() or 1


def _cpu_files(clusters: list[Cluster], governors: str) -> dict[str, str]:
    files: dict[str, str] = {}
    for name in _COPIED:
        files |= _copy(name)
    for cluster in clusters:
        numbers = " ".join(map(str, cluster.cpus))
        steps = cluster.frequencies_khz
        policy = f"sys/devices/system/cpu/cpufreq/policy{cluster.cpus[0]}"
        files |= {
            f"{policy}/affected_cpus": numbers,
            f"{policy}/related_cpus": numbers,
            f"{policy}/cpuinfo_min_freq": str(cluster.min_khz),
            f"{policy}/cpuinfo_max_freq": str(cluster.max_khz),
            f"{policy}/scaling_min_freq": str(cluster.min_khz),
            f"{policy}/scaling_max_freq": str(cluster.max_khz),
            f"{policy}/scaling_cur_freq": str(steps[2]),
            f"{policy}/scaling_available_frequencies": " ".join(map(str, steps)),
            f"{policy}/scaling_available_governors": governors,
            f"{policy}/scaling_governor": governors.split()[0],
        }
        for cpu in cluster.cpus:
            files[f"sys/devices/system/cpu/cpu{cpu}/cpu_capacity"] = str(cluster.capacity)
            files |= _copy(f"cpu{cpu}/online")
            for name in _COPIED_TOPOLOGY:
                files |= _copy(f"cpu{cpu}/topology/{name}")
    return files


def _copy(name: str) -> dict[str, str]:
    try:
        return {f"sys/devices/system/cpu/{name}": (_CPU_SYSFS / name).read_text(encoding="ascii").strip()}
    except (OSError, ValueError):
        return {}


def _meminfo(total_kb: int) -> str:
    shares = {
        "MemTotal": 1.0, "MemFree": 0.07, "MemAvailable": 0.48, "Buffers": 0.0005, "Cached": 0.41,
        "SwapCached": 0.003, "Active": 0.17, "Inactive": 0.33, "SwapTotal": 0.75, "SwapFree": 0.62,
        "Dirty": 0.0001, "AnonPages": 0.1, "Mapped": 0.09, "Shmem": 0.005, "Slab": 0.05,
    }  # fmt: skip
    return "".join(f"{name + ':':<16}{int(total_kb * share):>8} kB\n" for name, share in shares.items())
