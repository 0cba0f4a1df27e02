"""The chain in its order: this machine's part, the adb server, the phone."""

from __future__ import annotations

from collections.abc import Mapping

from devkit.config import Config
from devkit.doctor.machine import examine_machine
from devkit.doctor.phone import choose_phone, examine_phone
from devkit.doctor.report import BROKEN, Link, Report, Section
from devkit.errors import DevkitError


def examine(
    config: Config | DevkitError, serial: str | None = None, *, environ: Mapping[str, str], fix: bool = False
) -> Report:
    """Look at every link. Nothing is changed, except with `fix` what is safe to repair.

    Args:
        config: the settings, or the error that reading them raised: that is a link, too.
        serial: which phone.
        fix: start the user's adb server when it is the only thing missing.
    """
    links: list[Link] = []
    here = Section("this machine", links)
    if isinstance(config, DevkitError):
        here.broken("config", "settings", config)
        return Report(tuple(links))
    adb_links: list[Link] = []
    # The phone decides what is needed here (a virtual one needs no NDK), so it is found first.
    device = choose_phone(Section("adb", adb_links), config, serial, environ=environ, fix=fix)
    examine_machine(here, config, device, environ=environ)
    links += adb_links
    if device is not None and not any(link.state == BROKEN for link in adb_links):
        examine_phone(Section("phone", links), config, device)
    return Report(tuple(links))
