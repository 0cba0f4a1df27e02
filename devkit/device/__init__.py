"""One phone: adb servers, listing and choosing, shell, files, sockets, facts.

The public face is loaded on first use, so that a command pays only for what it touches.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from devkit.device.adb_program import AdbProgram, find_adb, find_private_adb
    from devkit.device.commands import ShellResult
    from devkit.device.failures import DeviceNotReady, NoPhone, NothingListens, PhoneLost, ServerUnreachable
    from devkit.device.listing import DeviceEntry, Inventory, list_devices
    from devkit.device.phone import Device
    from devkit.device.processes import ProcessEntry
    from devkit.device.quoting import quote, quote_word
    from devkit.device.select import remember_choice, select_device
    from devkit.device.servers import AdbServer, known_servers, server_address
    from devkit.device.shell import ShellStream
    from devkit.device.sync import FileStat, PushItem

_HOME = {
    "AdbProgram": "adb_program",
    "find_adb": "adb_program",
    "find_private_adb": "adb_program",
    "DeviceNotReady": "failures",
    "NoPhone": "failures",
    "NothingListens": "failures",
    "PhoneLost": "failures",
    "ServerUnreachable": "failures",
    "DeviceEntry": "listing",
    "Inventory": "listing",
    "list_devices": "listing",
    "Device": "phone",
    "ShellResult": "commands",
    "ProcessEntry": "processes",
    "quote": "quoting",
    "quote_word": "quoting",
    "remember_choice": "select",
    "select_device": "select",
    "AdbServer": "servers",
    "known_servers": "servers",
    "server_address": "servers",
    "ShellStream": "shell",
    "FileStat": "sync",
    "PushItem": "sync",
}

__all__ = [  # noqa: RUF022 (grouped as above)
    "AdbProgram",
    "find_adb",
    "find_private_adb",
    "DeviceNotReady",
    "NoPhone",
    "NothingListens",
    "PhoneLost",
    "ServerUnreachable",
    "DeviceEntry",
    "Inventory",
    "list_devices",
    "Device",
    "ShellResult",
    "ProcessEntry",
    "quote",
    "quote_word",
    "remember_choice",
    "select_device",
    "AdbServer",
    "known_servers",
    "server_address",
    "ShellStream",
    "FileStat",
    "PushItem",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
