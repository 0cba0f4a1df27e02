"""What devkit left on a phone when it, or the link, was killed in the middle."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.runtime.commit import STAGING_PREFIX
from devkit.runtime.preparing import STALE_MINUTES
from devkit.runtime.pulls import MARKER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Sequence

    from devkit.device import Device

# A run's marker is needed until it ends.
_LONGEST_RUN_MINUTES = 7 * 24 * 60
# A guard's file holds the session it watches: while that lives it is needed, however old it is. A recording
# that goes on is written to.
_SCRIPT = """\
dir={folder}
find "$dir" -maxdepth 2 \\( -name '{staging}*' -o -name '.devkit-trial-*' -o -name 'lldb-server-*.tmp' \
  -o -name '.devkit-partial-*' \\) -mmin +{minutes} 2>/dev/null
find "$dir" -maxdepth 2 -name '{run}*' -mmin +{run_minutes} 2>/dev/null
for file in "$dir"/.devkit-guard-* "$dir"/*/.devkit-guard-* "$dir"/.devkit-lldb/.devkit-guard-*; do
  [ -s "$file" ] || continue
  read -r session < "$file" && [ ! -d "/proc/$session" ] && echo "$file"
done
for folder in "$dir"/.devkit-perf/run-* "$dir"/.devkit-perf/simpleperf-*.tmp; do
  [ -e "$folder" ] && [ -z "$(find "$folder" -mmin -{minutes} 2>/dev/null)" ] && echo "$folder"
done
echo "== sizes =="
"""
_PLACES = re.compile(
    r"(\.devkit-(staging|trial|run|guard|partial)-|lldb-server-\w+\.|\.devkit-perf/(run|simpleperf)-)[^/]*$"
)


@dataclass(frozen=True)
class PhoneLeftover:
    """A file or folder of devkit on the phone that nobody uses any more."""

    path: str
    size_bytes: int


def find_leftovers(device: Device, folder: str) -> list[PhoneLeftover]:
    """Unfinished pushes, trials and recordings older than an hour, markers of runs older than a week, and
    guards of sessions that have ended.

    Args:
        folder: devkit's folder on the phone.
    """
    from devkit.device import quote_word

    script = _SCRIPT.format(
        folder=quote_word(folder),
        staging=STAGING_PREFIX,
        minutes=STALE_MINUTES,
        run=MARKER_PREFIX,
        run_minutes=_LONGEST_RUN_MINUTES,
    )
    lines = device.shell(script).text.partition("== sizes ==")[0].splitlines()
    # Once: one folder is named by two patterns.
    return measure(device, [line for line in dict.fromkeys(lines) if _PLACES.search(line)])


def measure(device: Device, files: Sequence[str]) -> list[PhoneLeftover]:
    """The same with sizes, as the phone's `du` counts them."""
    from devkit.device import quote

    if not files:
        return []
    sizes: dict[str, int] = {}
    for line in device.shell(quote(["du", "-sk", *files]) + " 2>/dev/null").text.splitlines():
        size, _, name = line.partition("\t")
        if size.isdigit():
            sizes[name] = int(size) * 1024
    return [PhoneLeftover(file, sizes.get(file, 0)) for file in files]


def remove_leftovers(device: Device, leftovers: Sequence[PhoneLeftover]) -> None:
    """Remove them.

    Raises:
        DeviceError: the phone refused.
    """
    from devkit.device import quote

    device.shell(quote(["rm", "-rf", *(leftover.path for leftover in leftovers)]), check=True)
