"""How warm the phone is and how fast its cores may run: one round trip, whatever the phone has of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from devkit.device import Device

POLL_S = 5.0
# One process for all files: a phone has up to a hundred zones, and a `cat` for each takes a second.
_SCRIPT = """\
grep -s . /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp \
/sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq \
/sys/devices/system/cpu/cpufreq/policy*/scaling_max_freq \
/sys/devices/system/cpu/cpufreq/policy*/cpuinfo_max_freq /dev/null; :"""
_LINE = re.compile(r"^(\S*/(?:thermal_zone|policy)(\d+)/(\w+)):(.*)$", re.MULTILINE)
# Zones that follow the load. Batteries, modems, cameras and regulators do not, or much later.
_LOADED = re.compile(r"cpu|gpu|soc|npu|nsp|apc|cluster|big|little|mtktscpu|tsens", re.IGNORECASE)
_PLAUSIBLE_C = (-20.0, 150.0)


@dataclass(frozen=True)
class PhoneState:
    """One look at the phone.

    Attributes:
        zones: degrees Celsius by the zone's type; of several with one type the hottest.
        clocks_khz: what the cores of each cpufreq policy run at.
        capped: policies that may not run as fast as they can (heat, power saving), with how fast in kHz.
    """

    zones: Mapping[str, float]
    clocks_khz: Mapping[str, int]
    capped: Mapping[str, int]

    @property
    def hottest_c(self) -> float | None:
        """The hottest zone that follows the load, else the hottest of all; None when none can be read."""
        loaded = [degrees for name, degrees in self.zones.items() if _LOADED.search(name)]
        return max(loaded or self.zones.values(), default=None)

    def as_dict(self) -> dict[str, object]:
        """The state as JSON."""
        return {
            "hottest_c": self.hottest_c,
            "zones_c": dict(self.zones),
            "clocks_khz": dict(self.clocks_khz),
            "capped_khz": dict(self.capped),
        }


def read_state(device: Device) -> PhoneState:
    """Look at the phone. One round trip; what it does not show is empty."""
    return parse_state(device.shell(_SCRIPT).text)


def parse_state(text: str) -> PhoneState:
    """The output of the script: `path:value` lines."""
    values: dict[str, dict[str, str]] = {}
    for path, number, name, value in _LINE.findall(text):
        kind = "zone" if "thermal_zone" in path else "policy"
        values.setdefault(f"{kind}{number}", {})[name] = value.strip()
    zones: dict[str, float] = {}
    clocks: dict[str, int] = {}
    capped: dict[str, int] = {}
    for place, row in values.items():
        if place.startswith("zone"):
            degrees = _degrees(row.get("temp", ""))
            if degrees is not None:
                name = row.get("type", place)
                zones[name] = max(degrees, zones.get(name, degrees))
            continue
        now, limit, top = (
            _integer(row.get(f)) for f in ("scaling_cur_freq", "scaling_max_freq", "cpuinfo_max_freq")
        )
        if now is not None:
            clocks[place] = now
        if limit is not None and top is not None and limit < top:
            capped[place] = limit
    return PhoneState(zones, clocks, capped)


def cool_down(
    device: Device,
    *,
    pause_s: float,
    max_c: float | None,
    limit_s: float,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> PhoneState:
    """Wait before a run, and say how the phone is then.

    Args:
        pause_s: in any case.
        max_c: wait on until the hottest part is below that.
        limit_s: but no longer than this, in all.
    """
    began = clock()
    sleep(pause_s)
    while True:
        state = read_state(device)
        left = limit_s - (clock() - began)
        if max_c is None or state.hottest_c is None or state.hottest_c <= max_c or left <= 0:
            return state
        sleep(min(POLL_S, left))


def _degrees(text: str) -> float | None:
    """Kernels give thousandths of a degree; some drivers whole ones."""
    try:
        value = int(text)
    except ValueError:
        return None
    degrees = value / 1000 if abs(value) >= 1000 else float(value)
    return degrees if _PLAUSIBLE_C[0] < degrees < _PLAUSIBLE_C[1] else None


def _integer(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None
