"""Starting and restarting the phone: what init does when `sys.powerctl` says so, and what a boot renews."""

from __future__ import annotations

import os
import re
import time
import uuid
from pathlib import Path

from devkit.sim import namespaces
from devkit.sim.adbd.control import CHANGED_PROPERTIES, POWER_PROPERTY, changed_property
from devkit.sim.adbd.handover import Handover
from devkit.sim.adbd.log import log

# Long enough for adb to notice that the phone is away, short enough for tests.
BOOT_S = 1.5
_KEPT = "persist."
# How the fault `reboot` says for how long.
_LASTING = re.compile(r"reboot,devkit-(\d+(?:\.\d+)?)")


class Boot:
    """What is new after each boot: the boot id and the clocks that count from it.

    Args:
        boot_id: the file that programs see as /proc/sys/kernel/random/boot_id. Opened while it can be.
    """

    def __init__(self, boot_id: Path) -> None:
        self._fd = os.open(boot_id, os.O_WRONLY | os.O_CLOEXEC)

    def begin(self) -> None:
        """Before the first program of a boot is started."""
        os.pwrite(self._fd, f"{uuid.uuid4()}\n".encode(), 0)
        if not namespaces.restart_clocks():
            log("this kernel has no time namespaces: uptime is that of the machine")


def reboot_value(down_s: float) -> str:
    """The value of POWER_PROPERTY for a reboot that lasts so long."""
    return f"reboot,devkit-{down_s:g}"


def reboot_is_wanted() -> bool:
    """Whether somebody has asked for a reboot (or for power off, which is the same here)."""
    return changed_property(POWER_PROPERTY) != ""


def reboot(handover: Handover) -> None:
    """Be away for a while, then be as after a start. Every program has ended before.

    /data, the known hosts and `persist.` properties survive, as on a phone.

    Args:
        handover: where connections arrive; until the end they are turned away.
    """
    log(f"rebooting ({changed_property(POWER_PROPERTY)})")
    deadline = time.monotonic() + boot_seconds()
    while (left := deadline - time.monotonic()) > 0:
        handover.turn_away(left)
    forget_properties(CHANGED_PROPERTIES)


def boot_seconds() -> float:
    """How long the reboot that is wanted lasts."""
    lasting = _LASTING.fullmatch(changed_property(POWER_PROPERTY))
    return float(lasting[1]) if lasting else BOOT_S


def forget_properties(changed: Path) -> None:
    """Undo what was set since the boot, but for what outlives it."""
    for file in changed.iterdir():
        if not file.name.startswith(_KEPT):
            file.unlink(missing_ok=True)
