"""The chain in its order: this machine's part, the adb server, the phone."""

from __future__ import annotations

from collections.abc import Mapping

from devkit.config import Config
from devkit.doctor.machine import examine_machine
from devkit.doctor.own import examine_own
from devkit.doctor.phone import choose_phone, examine_phone
from devkit.doctor.report import BROKEN, Link, Report, Section, Wishes
from devkit.doctor.tunnel import examine_tunnels
from devkit.errors import DevkitError


def examine(
    config: Config | DevkitError,
    serial: str | None = None,
    *,
    environ: Mapping[str, str],
    wishes: Wishes | None = None,
) -> Report:
    """Look at every link, and change nothing; what can be mended comes along as the links' repairs.

    The sections are in the order of the chain, and each makes its own links.

    Args:
        config: the settings, or the error that reading them raised: that is a link, too.
        serial: which phone.
        wishes: repairs that are only there because the user asks for them.
    """
    wishes = wishes or Wishes()
    links: list[Link] = []
    here = Section("this machine", links)
    if isinstance(config, DevkitError):
        here.broken("config", "settings", config)
        return Report(tuple(links))
    adb_links: list[Link] = []
    # The phone decides what is needed here (a virtual one needs no NDK), so it is found first.
    device = choose_phone(Section("adb", adb_links), config, serial, environ=environ)
    examine_machine(here, config, device, environ=environ, wishes=wishes)
    examine_own(here, config, environ=environ, wishes=wishes)
    examine_tunnels(Section("tunnel", links))
    links += adb_links
    if device is not None and not any(link.state == BROKEN for link in adb_links):
        examine_phone(Section("phone", links), config, device)
    return Report(tuple(links))
