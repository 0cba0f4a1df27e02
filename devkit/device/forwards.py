"""adb's port forwards. devkit needs none; LLDB's platform plugin and lines for people to paste do."""

from __future__ import annotations

import contextlib
import re
import secrets
import socket
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from devkit.device.connection import ask, tell
from devkit.errors import DevkitError

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
    return [forward for forward in _forwards(device) if forward.remote.startswith(OWN_SOCKETS)]


def forwards_to(device: Device, remotes: Collection[str]) -> list[Forward]:
    """The phone's forwards that lead to one of these sockets, as "tcp:5039".

    Raises:
        ServerUnreachable, OperationTimeout, DeviceError: the adb server does not tell.
    """
    return [forward for forward in _forwards(device) if forward.remote in remotes]


def forwards_land_here(device: Device) -> bool:
    """Whether the adb server opens its forwards on this machine: it may be behind a tunnel. Leaves none."""
    if not device.server.is_local:
        return False
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    # To a socket that nobody has: adb accepts all the same.
    forward = Forward(device.serial, f"tcp:{port}", f"{OWN_SOCKETS}probe-{secrets.token_hex(8)}")
    request = f"host-serial:{forward.serial}:forward:{forward.local};{forward.remote}"
    try:
        tell(device.server, request, serial=forward.serial, doing="trying a forward")
    except DevkitError:
        return False
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
        return True
    except OSError:
        return False
    finally:
        with contextlib.suppress(DevkitError):
            remove_forward(device, forward)


def _forwards(device: Device) -> list[Forward]:
    found = []
    for line in ask(device.server, "host:list-forward", doing="listing forwards").splitlines():
        words = line.split(" ")
        if len(words) == 3 and words[0] == device.serial:
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
