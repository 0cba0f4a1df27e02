"""adb's port forwards. devkit needs none; lines it prints for people to paste (`--print-commands`) do."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.device.connection import ask, tell

if TYPE_CHECKING:
    from devkit.device.phone import Device

# The sockets of devkit's lldb-servers have this prefix: nobody else forwards to them.
OWN_SOCKETS = "localabstract:devkit-"
# The eighth column of /proc/net/unix; @ stands for an abstract socket.
_ABSTRACT = re.compile(r"@(\S+)$", re.MULTILINE)


@dataclass(frozen=True)
class Forward:
    """One forward: `local` is on the adb server's machine, `remote` on the phone."""

    serial: str
    local: str
    remote: str

    def __str__(self) -> str:
        return f"{self.local} → {self.remote}"


def own_forwards(device: Device) -> list[Forward]:
    """The phone's forwards that lead to sockets of devkit.

    Raises:
        ServerUnreachable, OperationTimeout, DeviceError: the adb server does not tell.
    """
    found = []
    for line in ask(device.server, "host:list-forward", doing="listing forwards").splitlines():
        words = line.split(" ")
        if len(words) == 3 and words[0] == device.serial and words[2].startswith(OWN_SOCKETS):
            found.append(Forward(*words))
    return found


def dead_forwards(device: Device, forwards: list[Forward]) -> list[Forward] | None:
    """Those at whose end nobody listens; None when the phone does not tell.

    Nothing is connected to: a gdbserver takes one connection, and it is not ours.
    """
    if not forwards:
        return []
    listed = device.shell("cat /proc/net/unix").text
    # Hardened phones show an empty table or none: then nothing can be said.
    if not listed.strip().count("\n"):
        return None
    names = set(_ABSTRACT.findall(listed))
    return [f for f in forwards if f.remote.removeprefix("localabstract:") not in names]


def remove_forward(device: Device, forward: Forward) -> None:
    """Remove one forward.

    Raises:
        DeviceError: it is not there any more, or the phone is gone.
    """
    request = f"host-serial:{forward.serial}:killforward:{forward.local}"
    tell(device.server, request, serial=forward.serial, doing=f"removing the forward {forward}")
