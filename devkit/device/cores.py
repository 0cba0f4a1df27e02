"""The phone's processors: which are big, which little, and masks of them for `taskset`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.errors import PHONE, DeviceError, UsageError

if TYPE_CHECKING:
    from devkit.device.phone import Device

NAMES = ("big", "little", "prime", "all")
_SYSFS = "/sys/devices/system/cpu"
# grep names each file; /dev/null keeps it doing so when there is only one.
_SCRIPT = (
    f"grep '' {_SYSFS}/online {_SYSFS}/cpu[0-9]*/cpu_capacity {_SYSFS}/cpu[0-9]*/cpufreq/cpuinfo_max_freq"
    " /dev/null 2>/dev/null; command -v taskset"
)
_LINE = re.compile(r"/sys/devices/system/cpu/(?:cpu(\d+)/)?([a-z_/]+):(.*)")


@dataclass(frozen=True)
class Cores:
    """The processors of a phone.

    Attributes:
        online: numbers of those that are switched on.
        strength: number → what the kernel says of its speed: cpu_capacity, which counts instructions
            for each clock too, else the highest frequency in kHz; empty when it says neither.
        by_clock: whether `strength` are frequencies.
        taskset: whether the phone has the program.
    """

    online: tuple[int, ...]
    strength: dict[int, int]
    taskset: bool = True
    by_clock: bool = False

    @property
    def all(self) -> tuple[int, ...]:
        """Also those that are switched off now, as far as they are known."""
        return tuple(sorted({*self.online, *self.strength}))

    def group(self, name: str) -> tuple[int, ...]:
        """The processors called "big" (all but the slowest kind), "little" (the slowest kind), "prime"
        (the fastest kind) or "all".

        Raises:
            DeviceError: the phone does not tell, or all are alike.
        """
        if name == "all":
            return self.online
        known = {cpu: self.strength[cpu] for cpu in self.online if cpu in self.strength}
        if len(known) < len(self.online) or not known:
            raise DeviceError(
                "the phone does not tell which of its processors are the fast ones",
                where=PHONE,
                evidence=f"cpu_capacity and cpuinfo_max_freq are missing for {len(self.online) - len(known)}"
                f" of {len(self.online)} processors",
                hints=["give a mask: --taskset f0", "or --taskset all"],
            )
        slowest, fastest = min(known.values()), max(known.values())
        if slowest == fastest:
            raise DeviceError(
                f"the phone's {len(known)} processors are all alike: none is {name}",
                where=PHONE,
                hints=["--taskset all", f"or a mask: --taskset {mask_of(self.online[:1])}"],
            )
        if name == "prime":
            return tuple(cpu for cpu, strength in known.items() if strength == fastest)
        return tuple(cpu for cpu, strength in known.items() if (strength == slowest) == (name == "little"))

    def choose(self, wanted: str) -> tuple[int, ...]:
        """The processors that a user means: a name, a hexadecimal mask (f0, 0xf0) or a list (4-7, 0,2).

        Raises:
            UsageError: it is none of these, or no processor of it is switched on.
            DeviceError: as `group`.
        """
        cpus = self.group(wanted) if wanted in NAMES else parse_cpus(wanted)
        usable = tuple(cpu for cpu in cpus if cpu in self.online)
        if not usable:
            raise UsageError(
                f"--taskset {wanted}: the phone has none of these processors",
                evidence=f"asked for {show_cpus(cpus)}; switched on are {show_cpus(self.online)}",
                hints=[f"--taskset {mask_of(self.online)} is all of them"],
            )
        return usable


def ask_cores(device: Device) -> Cores:
    """Ask a phone for its processors; it may list none. One round trip."""
    return parse_cores(device.shell(_SCRIPT).text)


def read_cores(device: Device) -> Cores:
    """Ask a phone for its processors. One round trip.

    Raises:
        DeviceError: it lists none.
    """
    cores = ask_cores(device)
    if not cores.online:
        raise DeviceError(
            f"the phone {device.serial} does not list its processors",
            where=PHONE,
            evidence=f"{_SYSFS}/online cannot be read",
        )
    return cores


def parse_cores(text: str) -> Cores:
    """What the script printed."""
    online: tuple[int, ...] = ()
    facts: dict[str, dict[int, int]] = {"cpu_capacity": {}, "cpufreq/cpuinfo_max_freq": {}}
    taskset = False
    for line in text.splitlines():
        found = _LINE.match(line)
        if found is None:
            taskset = taskset or line.strip().endswith("taskset")
        elif found[2] == "online":
            online = parse_cpus(found[3].strip(), is_list=True)
        elif found[1] and found[2] in facts and found[3].strip().isdigit():
            facts[found[2]][int(found[1])] = int(found[3])
    capacity, frequency = facts.values()
    complete = [table for table in (capacity, frequency) if online and set(online) <= set(table)]
    strength = complete[0] if complete else capacity or frequency
    return Cores(online, strength, taskset, by_clock=strength is frequency)


def parse_cpus(text: str, *, is_list: bool = False) -> tuple[int, ...]:
    """Numbers of processors from a hexadecimal mask, or from a list (`is_list`, or it holds `-` or `,`).

    Raises:
        UsageError: it is neither.
    """
    numbers: set[int] = set()
    try:
        if is_list or "-" in text or "," in text:
            for part in text.split(","):
                low, _, high = part.partition("-")
                numbers.update(range(int(low), int(high or low) + 1))
        else:
            mask = int(text, 16)
            numbers.update(cpu for cpu in range(mask.bit_length()) if mask >> cpu & 1)
    except ValueError:
        numbers.clear()
    if not numbers or max(numbers) > 1023:
        raise UsageError(
            f"{text!r} names no processors",
            hints=["a mask as taskset takes it (f0), a list (4-7), or one of: " + ", ".join(NAMES)],
        )
    return tuple(sorted(numbers))


def mask_of(cpus: Sequence[int]) -> str:
    """The hexadecimal mask, without 0x: toybox' taskset takes no prefix."""
    return f"{sum(1 << cpu for cpu in set(cpus)):x}"


def show_cpus(cpus: Sequence[int]) -> str:
    """(4, 5, 6, 7) → "4-7"."""
    parts: list[list[int]] = []
    for cpu in sorted(cpus):
        if parts and cpu == parts[-1][1] + 1:
            parts[-1][1] = cpu
        else:
            parts.append([cpu, cpu])
    return ",".join(f"{low}-{high}" if low != high else str(low) for low, high in parts)
