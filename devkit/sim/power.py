"""Restarting the phone: what init does when `sys.powerctl` says so."""

from __future__ import annotations

import select
import socket
import time

from devkit.sim.adbd.control import CHANGED_PROPERTIES, POWER_PROPERTY, changed_property
from devkit.sim.adbd.log import log

# Long enough for adb to notice that the phone is away, short enough for tests.
BOOT_S = 1.5
_KEPT = "persist."


def reboot_is_wanted() -> bool:
    """Whether somebody has asked for a reboot (or for power off, which is the same here)."""
    return changed_property(POWER_PROPERTY) != ""


def reboot(listener: socket.socket) -> None:
    """Be away for a while, then be as after a start. Every program has ended before.

    /data, the known hosts and `persist.` properties survive, as on a phone.

    Args:
        listener: adbd's; its port is kept, and until the end nobody is served there.
    """
    log(f"rebooting ({changed_property(POWER_PROPERTY)})")
    deadline = time.monotonic() + BOOT_S
    while (left := deadline - time.monotonic()) > 0:
        if select.select([listener], [], [], left)[0]:
            listener.accept()[0].close()
    for file in CHANGED_PROPERTIES.iterdir():
        if not file.name.startswith(_KEPT):
            file.unlink(missing_ok=True)
