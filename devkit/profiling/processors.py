"""How busy CPU, GPU and NPU were while a profile was recorded, and what each number rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devkit.profiling.engine_times import EngineTimes
from devkit.profiling.model import Profile, Series

LOAD = "load"
_NS = 1e9


@dataclass(frozen=True)
class Busy:
    """One processor: busy seconds, their part of the recording's (CPU: above 1 with several cores)."""

    processor: str
    seconds: float
    share: float
    source: str


def wall_seconds(profile: Profile) -> float:
    """How long the recording was: from the first sample or point to the last."""
    times = [t for t in (min(profile.sample_time_ns, default=0), max(profile.sample_time_ns, default=0)) if t]
    for series in profile.series:
        if len(series.times_ns):
            times += [series.times_ns[0], series.times_ns[-1]]
    return (max(times) - min(times)) / _NS if times else 0.0


def busy_processors(profile: Profile, engine: Sequence[EngineTimes]) -> list[Busy]:
    """What is known; a processor of which nothing is known is not in the list."""
    wall = wall_seconds(profile)
    found: list[Busy] = []

    def add(processor: str, seconds: float | None, source: str) -> None:
        if seconds is not None and wall > 0:
            found.append(Busy(processor, seconds, seconds / wall, source))

    loads = {series.name: series for series in profile.series if series.kind == LOAD}
    if "process" in loads:
        add("CPU", _mean(loads["process"]) / 100 * wall, "the process's time in /proc")
    else:
        on_cpu = [i for i, event in enumerate(profile.events) if event.unit == "ns" and not event.off_cpu]
        if on_cpu:
            add("CPU", profile.total(on_cpu[0]) / _NS, f"samples of {profile.events[on_cpu[0]].name}")
    for name, series in loads.items():
        if name.startswith("GPU"):
            add("GPU", _mean(series) / 100 * wall, "the driver's load, of all processes")
            break
    npu = [one for one in engine if one.npu_ms is not None]
    if npu:
        add("NPU", sum(one.npu_ms or 0.0 for one in npu) / 1000, f"QNN's profile {npu[0].source}")
    return found


def _mean(series: Series) -> float:
    """Weighted by how long each value held."""
    times, values = series.times_ns, series.values
    if len(times) < 2 or times[-1] == times[0]:
        return values[0] if len(values) else 0.0
    area = sum(values[i] * (times[i] - times[i - 1]) for i in range(1, len(times)))
    return area / (times[-1] - times[0])
