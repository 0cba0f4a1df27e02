"""Why a phone on a USB cable may not be listed, and what to do about it on this kind of machine."""

from __future__ import annotations

import sys
from pathlib import Path

_OSRELEASE = Path("/proc/sys/kernel/osrelease")


def is_wsl(osrelease: Path = _OSRELEASE) -> bool:
    """Whether this Linux runs inside Windows (WSL 1 says "Microsoft", WSL 2 "microsoft")."""
    try:
        return "microsoft" in osrelease.read_text(encoding="ascii", errors="replace").lower()
    except OSError:
        return False


def usb_hints(platform: str = sys.platform, osrelease: Path = _OSRELEASE) -> tuple[str, ...]:
    """What to try, best first, when a cable is plugged in and no phone is listed."""
    if platform == "win32":
        return (
            "Device Manager must show the phone as an ADB interface; else install its maker's USB driver,"
            " or Google's",
            "pull down the phone's notifications and choose file transfer: some offer adb only then",
        )
    if platform == "darwin":
        return (
            "macOS needs no driver: try another cable (many only charge), and allow the accessory in"
            " System Settings > Privacy & Security",
            "system_profiler SPUSBDataType lists the phone when the cable is good",
        )
    if is_wsl(osrelease):
        return (
            "WSL sees no USB devices by itself. In an administrator's PowerShell: usbipd list;"
            " usbipd bind --busid BUS; usbipd attach --wsl --busid BUS (winget install usbipd)",
            "or leave the phone to the adb server of Windows: with networkingMode=mirrored in .wslconfig"
            " it is at 127.0.0.1:5037 here too, else bring its port in by SSH: on Windows, ssh -N -R"
            " 127.0.0.1:5038:127.0.0.1:5037 WSL-HOST; then ADB_SERVER_SOCKET=tcp:127.0.0.1:5038",
        )
    return ("lsusb must list the phone: else try another cable (many only charge) or port",)
