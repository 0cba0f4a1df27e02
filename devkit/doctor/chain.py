"""The chain: this machine's links, those of the other one, the phone's."""

from __future__ import annotations

from collections.abc import Mapping

from devkit.config import Config
from devkit.device import AdbServer, known_servers, server_address
from devkit.doctor.machine import examine_machine
from devkit.doctor.own import examine_own
from devkit.doctor.phone import choose_phone, examine_phone
from devkit.doctor.report import BROKEN, Link, Report, Section, Wishes
from devkit.doctor.roles import PHONE, Roles, find_roles
from devkit.doctor.tunnel import examine_tunnels
from devkit.errors import ConfigError, DevkitError
from devkit.tunnels import state


def examine(
    config: Config | DevkitError,
    serial: str | None = None,
    *,
    environ: Mapping[str, str],
    wishes: Wishes | None = None,
) -> Report:
    """Look at every link, and change nothing; what can be mended comes along as the links' repairs.

    Args:
        config: the settings, or the error that reading them raised: that is a link, too.
        serial: which phone.
        wishes: repairs that are only there because the user asks for them.
    """
    wishes = wishes or Wishes()
    records = state.load_all()
    arrivals = [server for server in known_servers() if server.origin == "tunnel"]
    roles = find_roles(records, arrivals, _meant_server(config, environ))
    own: list[Link] = []
    here = Section(roles.building, own)
    if isinstance(config, DevkitError):
        here.broken("config", "settings", config)
        return _report(roles, own, [])
    # The phone decides what is needed here (a virtual one needs no NDK), so it is found first.
    adb: list[Link] = []
    device = choose_phone(adb, roles, config, serial, environ=environ)
    examine_machine(here, config, device, environ=environ, wishes=wishes)
    examine_own(here, config, environ=environ, wishes=wishes)
    rest: list[Link] = []
    examine_tunnels(rest, roles, records, arrivals)
    rest += adb
    if device is not None and not any(link.state == BROKEN for link in adb):
        examine_phone(Section(PHONE, rest), config, device)
    return _report(roles, own, rest)


def _report(roles: Roles, own: list[Link], rest: list[Link]) -> Report:
    links = sorted([*own, *rest], key=lambda link: roles.order.index(link.section))
    return Report(tuple(links), roles, frozenset(link.id for link in own))


def _meant_server(config: Config | DevkitError, environ: Mapping[str, str]) -> AdbServer | None:
    try:
        return server_address(environ, None if isinstance(config, DevkitError) else config.adb.server)
    except ConfigError:
        return None  # the link of the adb server says so
