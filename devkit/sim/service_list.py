"""Which services and applets a phone has beside adbd."""

from __future__ import annotations

from collections.abc import Mapping

from devkit.sim.applets import Applet, applets_service
from devkit.sim.logs import logcat
from devkit.sim.logs.logd import logd_service
from devkit.sim.services import PhoneFacts, Service


def services_of(facts: PhoneFacts) -> list[Service]:
    """The services of a phone, in the order in which they start."""
    return [logd_service(), applets_service(_applets)]


def _applets(facts: PhoneFacts) -> Mapping[str, Applet]:
    user_build = facts.properties.get("ro.build.type") == "user"

    def run_logcat(arguments: list[str], environment: Mapping[str, str]) -> int:
        return logcat.main(arguments, environment, api_level=facts.api_level, user_build=user_build)

    return {"logcat": run_logcat}
