"""A virtual phone and the Device that devkit drives it with, in one: for tests and scenarios."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from devkit.device import AdbServer, Device, find_private_adb
from devkit.errors import UsageError
from devkit.sim import break_phone, heal_phone, link_from, phone_status, slow_phone, start_phone
from devkit.sim.links import parse_bytes

if TYPE_CHECKING:
    from devkit.sim import Phone

_LINK_OPTIONS = ("rate", "rate_up", "rate_down", "delay", "delay_up", "delay_down")
OPTIONS = ("model", "android", "abi", "su", "auth", "storage", "memory", "confinement", *_LINK_OPTIONS)


class VirtualDevice(Device):
    """A Device whose phone can be broken and healed. Made by `start_virtual_device`.

    As a context manager it ends the phone; so does the death of this process.
    """

    def __init__(self, phone: Phone) -> None:
        record = phone.record
        assert record.adb_host is not None and record.adb_port is not None
        super().__init__(record.serial, AdbServer(record.adb_host, record.adb_port, "sim", record.name))
        self.name = record.name
        self._phone = phone

    def break_(self, fault: str, **options: Any) -> None:
        """Put a fault in force, as `devkit sim break`.

        Raises:
            UsageError: there is no such fault or option.
            SimError: the phone cannot have it.
        """
        break_phone(self.name, fault, options)

    def heal(self, fault: str | None = None) -> list[str]:
        """End a fault, or all; returns their names."""
        return heal_phone(self.name, fault)

    def slow(self, **link: str) -> None:
        """Change the link: rate="20mbit", delay="10ms", rate_up=…

        Raises:
            UsageError: a setting cannot be understood.
        """
        slow_phone(self.name, **link)

    @property
    def faults(self) -> list[str]:
        """The names of the faults in force."""
        return [fault["fault"] for fault in phone_status(self.name)["faults"]]

    def environment(self) -> dict[str, str]:
        """Variables that lead adb, LLDB and devkit to this phone and no other."""
        return {
            "ANDROID_SERIAL": self.serial,
            "ADB_SERVER_SOCKET": f"tcp:{self.server.host}:{self.server.port}",
            "ANDROID_ADB_SERVER_PORT": str(self.server.port),
        }

    def stop(self) -> None:
        """End the phone. Does nothing when it has ended already."""
        self._phone.stop()

    def __enter__(self) -> VirtualDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


def start_virtual_device(name: str, **options: Any) -> VirtualDevice:
    """Start a phone that ends with this process.

    Args:
        options: as those of `devkit sim start`, with underscores: model="sm8750", android="11",
            rate="20mbit", delay="10ms", storage="256mb", confinement="reduced"…

    Raises:
        UsageError: an option is unknown or cannot be understood.
        SimError: it does not start.
        ToolMissing: there is no adb.
    """
    from devkit import config

    unknown = [option for option in options if option not in OPTIONS]
    if unknown:
        raise UsageError(
            f"a virtual phone has no option {unknown[0]!r}", hints=[f"known are: {', '.join(OPTIONS)}"]
        )
    link = link_from(**{key: options.pop(key) for key in _LINK_OPTIONS if key in options})
    sizes: dict[str, Any] = {
        parameter: parse_bytes(str(options.pop(option)))
        for option, parameter in (("storage", "data_limit_bytes"), ("memory", "memory_limit_bytes"))
        if option in options
    }
    adb = find_private_adb(config.load().adb.path)
    phone = start_phone(
        name,
        adb=adb.path,
        lifeline=True,
        link=link,
        **sizes,
        **options,
    )
    return VirtualDevice(phone)
