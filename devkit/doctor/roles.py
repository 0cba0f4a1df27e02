"""Which machine of the chain this one is, and to which machine a link belongs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from devkit.device import AdbServer
from devkit.tunnels.spec import SERVER_SIDE
from devkit.tunnels.state import TunnelRecord

# The words of `section` in `--json`.
LAPTOP, SERVER, PHONE = "laptop", "server", "phone"


@dataclass(frozen=True)
class Roles:
    """What this machine is.

    `here` is (LAPTOP,), (SERVER,), or both: then the phones hang on the machine that builds, or
    nothing tells yet that there is another one.
    """

    here: tuple[str, ...] = (SERVER, LAPTOP)

    @property
    def building(self) -> str:
        """The section of what is built and kept on this machine."""
        return SERVER if SERVER in self.here else LAPTOP

    @property
    def own_adb(self) -> str:
        """The section of this machine's adb program, and of adb servers that run on it."""
        return LAPTOP if LAPTOP in self.here else SERVER

    def adb_of(self, server: AdbServer) -> str:
        """The machine of an adb server: behind a tunnel, or at another address, it is the laptop's."""
        return LAPTOP if server.origin == "tunnel" or not server.is_local else self.own_adb

    @property
    def order(self) -> tuple[str, ...]:
        """The sections as they are shown: this machine first, because its faults show in the others."""
        return (LAPTOP, SERVER, PHONE) if self.here == (LAPTOP,) else (SERVER, LAPTOP, PHONE)

    def heading(self, section: str) -> str:
        """A section's name for people; both of a machine that is both have one."""
        return f"{' and '.join(self.here)} (this machine)" if section in self.here else section


def find_roles(
    records: Sequence[TunnelRecord], arrivals: Sequence[AdbServer], meant: AdbServer | None
) -> Roles:
    """What this machine is by its tunnels, also by those whose process has ended.

    Args:
        records: the tunnels that are kept up from here.
        arrivals: adb servers that tunnels bring here.
        meant: the adb server that the user's settings and variables name.
    """
    sides = {SERVER if record.spec.get("side") == SERVER_SIDE else LAPTOP for record in records}
    if arrivals or (meant is not None and not meant.is_local):
        sides.add(SERVER)
    return Roles((next(iter(sides)),)) if len(sides) == 1 else Roles()


def section_of(machine: str, record: TunnelRecord) -> str:
    """The section of a tunnel's link by the machine at its end; jump hosts are the way to the far one."""
    if machine in (LAPTOP, SERVER, PHONE):
        return machine
    return LAPTOP if record.spec.get("side") == SERVER_SIDE else SERVER
