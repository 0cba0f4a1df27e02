"""Memory, load, clocks and temperatures of the phone while a profile is recorded.

One shell on the phone writes a block every PERIOD_S; nothing is installed. It costs some per cent of a core.
What a phone does not show (GPU load without root, on most) is not in the series.
"""

from __future__ import annotations

import re
import threading
from array import array
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING

from devkit.device import quote
from devkit.errors import DevkitError
from devkit.profiling.model import NUMBER, REAL, Series

if TYPE_CHECKING:
    from devkit.device import Device, ShellStream

PERIOD_S = 0.25
# smaps_rollup walks all pages of the process: not in every block.
_PSS_EVERY = 4
_WAIT_S = 10.0
_NS = 1_000_000_000

# A line `@ SECONDS` begins each block. `echo` fails when nobody listens any more, which ends the loop.
_SCRIPT = """\
pid={pid}; n=0
echo "hz $(getconf CLK_TCK 2>/dev/null || echo 100)"
while [ -d /proc/$pid ]; do
  read -r up rest < /proc/uptime; echo "@ $up" || exit 0
  cat /proc/$pid/stat 2>/dev/null || exit 0
  grep -E '^Vm(RSS|HWM|Swap):' /proc/$pid/status 2>/dev/null
  [ $((n % {pss})) = 0 ] && grep -s '^Pss:' /proc/$pid/smaps_rollup
  grep -s . /sys/devices/system/cpu/cpufreq/policy*/scaling_cur_freq \
    /sys/class/thermal/thermal_zone*/type /sys/class/thermal/thermal_zone*/temp \
    /sys/class/kgsl/kgsl-3d0/gpu_busy_percentage /sys/class/kgsl/kgsl-3d0/gpuclk \
    /sys/class/misc/mali0/device/utilization /sys/kernel/ged/hal/gpu_utilization /dev/null
  n=$((n+1)); sleep {period}
done
"""
_FILE = re.compile(r"^(/sys/\S+?):(.*)$")
_STATUS = re.compile(r"^(Vm\w+|Pss):\s+(\d+) kB")
# Zones that follow the load; batteries, modems and the like would fill the picture.
_WARM = re.compile(r"cpu|gpu|soc|npu|nsp|apc|cluster|big|little|skin|tsens|mtktscpu", re.IGNORECASE)
_PLAUSIBLE_C = (-20.0, 150.0)


class PhoneSampler:
    """Samples one process and the phone until it is left or the process ends.

    Args:
        pid: of the process on the phone.
    """

    def __init__(self, device: Device, pid: int) -> None:
        self._device, self._pid = device, pid
        self._stream: ShellStream | None = None
        self._thread: threading.Thread | None = None
        self._data: list[bytes] = []

    def __enter__(self) -> PhoneSampler:
        script = _SCRIPT.format(pid=int(self._pid), pss=_PSS_EVERY, period=PERIOD_S)
        self._stream = self._device.open_shell(
            quote(["sh", "-c", script]), doing="sampling memory and clocks"
        )
        self._thread = threading.Thread(target=self._read, name="devkit phone sampler", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._stream is not None:
            self._stream.close()
        if self._thread is not None:
            self._thread.join(_WAIT_S)

    def series(self) -> list[Series]:
        """What came until now."""
        return parse_samples(b"".join(self._data).decode("utf-8", "replace").splitlines())

    def _read(self) -> None:
        assert self._stream is not None
        try:
            for name, data in self._stream:
                if name == "stdout" and isinstance(data, bytes):
                    self._data.append(data)
        except DevkitError:
            # The link broke, or we closed it: what came is what there is.
            return


def parse_samples(lines: Iterable[str]) -> list[Series]:
    """The script's blocks as series; times are the phone's, since it was started."""
    points: dict[tuple[str, str, str], list[tuple[int, float]]] = {}
    hertz, now, ticks_before = 100.0, 0, None
    zones: dict[str, str] = {}

    def add(kind: str, name: str, unit: str, value: float) -> None:
        points.setdefault((kind, name, unit), []).append((now, value))

    for line in lines:
        if line.startswith("hz "):
            hertz = _number(line[3:]) or hertz
        elif line.startswith("@ "):
            seconds = _number(line[2:])
            if seconds is None:
                continue
            now, zones = int(seconds * _NS), {}
        elif found := _STATUS.match(line):
            add("memory", found[1], "kB", float(found[2]))
        elif found := _FILE.match(line):
            _file(found[1], found[2].strip(), zones, add)
        elif ") " in line and line.split(" ", 1)[0].isdigit():
            # The name in field 2 may hold blanks and brackets; utime and stime are fields 14 and 15.
            fields = line.rpartition(") ")[2].split()
            if len(fields) < 13 or not (fields[11].isdigit() and fields[12].isdigit()):
                continue
            ticks = int(fields[11]) + int(fields[12])
            if ticks_before is not None and now > ticks_before[0]:
                busy = (ticks - ticks_before[1]) / hertz / ((now - ticks_before[0]) / _NS)
                add("load", "process", "%", 100 * max(0.0, busy))
            ticks_before = now, ticks
    return [
        Series(kind, name, unit, array(NUMBER, (t for t, _ in rows)), array(REAL, (v for _, v in rows)))
        for (kind, name, unit), rows in points.items()
    ]


def _file(path: str, text: str, zones: dict[str, str], add: object) -> None:
    assert callable(add)
    parts = path.split("/")
    value = _number(text.rstrip(" %"))
    if path.endswith("/type"):
        zones[parts[-2]] = text
    elif path.endswith("/temp") and value is not None:
        degrees = value / 1000 if abs(value) >= 1000 else value
        name = zones.get(parts[-2], parts[-2])
        if _WARM.search(name) and _PLAUSIBLE_C[0] < degrees < _PLAUSIBLE_C[1]:
            add("temperature", name, "°C", degrees)
    elif path.endswith("/scaling_cur_freq") and value is not None:
        add("frequency", f"cpu {parts[-2]}", "MHz", value / 1000)
    elif path.endswith("/gpuclk") and value is not None:
        add("frequency", "GPU", "MHz", value / 1e6)
    elif path.endswith(("utilization", "gpu_busy_percentage")) and value is not None:
        add("load", "GPU", "%", value)


def _number(text: str) -> float | None:
    words = text.split()
    try:
        return float(words[0]) if words else None
    except ValueError:
        return None
