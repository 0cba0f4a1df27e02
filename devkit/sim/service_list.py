"""Which services and applets a phone has beside adbd."""

from __future__ import annotations

from collections.abc import Mapping

from devkit.sim.applets import Applet, Call, applets_service
from devkit.sim.crashes.service import LinkCheck, tombstoned_service
from devkit.sim.linker.check import LinkService
from devkit.sim.logs import logcat
from devkit.sim.logs.logd import logd_service
from devkit.sim.memory_killer import lmkd_service
from devkit.sim.services import PhoneFacts, Service
from devkit.sim.simpleperf import tool as simpleperf
from devkit.sim.su import su_service
from devkit.sim.users import ShellWorld


def services_of(facts: PhoneFacts, world: ShellWorld) -> list[Service]:
    """The services of a phone, in the order in which they start.

    Args:
        world: of the shell user.
    """
    services = [logd_service(), tombstoned_service(_link_check), applets_service(_applets, world)]
    if facts.su:
        services.append(su_service(world))
    if facts.memory_limit_bytes is not None:
        services.append(lmkd_service())
    return services


def _applets(facts: PhoneFacts) -> Mapping[str, Applet]:
    user_build = facts.properties.get("ro.build.type") == "user"

    def run_logcat(call: Call) -> int:
        return logcat.main(call.arguments, call.environment, api_level=facts.api_level, user_build=user_build)

    def run_simpleperf(call: Call) -> int:
        return simpleperf.main(call, facts.properties)

    return {"logcat": run_logcat, "simpleperf": run_simpleperf}


def _link_check(facts: PhoneFacts) -> LinkCheck:
    return LinkService(facts.api_level).answer
