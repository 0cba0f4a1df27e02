"""The supervisor's desk for faults and link changes: which are in force, and who has to do what."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.errors import SimError, UsageError
from devkit.sim import clock
from devkit.sim.faults.catalog import ADBD, Trouble, plan_trouble
from devkit.sim.link import Link
from devkit.sim.link_orders import OFFLINE, UNPLUGGED, UP, LinkOrder, LinkReport
from devkit.sim.links import LinkSettings, link_from
from devkit.sim.power import reboot_value
from devkit.sim.wifi import WIFI_FILE, check_address

# Read by the phone's adbd; the folder is visible to it, and only to read.
FAULTS_FILE = "faults.json"


class Desk:
    """Faults and link of one phone.

    Args:
        link: its cable.
        folder: where its adbd looks for FAULTS_FILE.
        settings: the link as it is without faults.
        wifi: the phone's address on the Wi-Fi.
        preload: the library that makes the clock of programs jump, None where that is not possible.
        reconnect: has the adb server (un)list the phone after the link's state changed.
    """

    def __init__(
        self,
        link: Link,
        folder: Path,
        settings: LinkSettings,
        *,
        wifi: str,
        preload: str | None,
        reconnect: Callable[[bool], None],
    ) -> None:
        self._link = link
        self._folder = folder
        self._settings = settings
        self._own_wifi = wifi
        self._wifi: str | None = wifi
        self._reconnect = reconnect
        self._preload = preload
        self._troubles: dict[str, Trouble] = {}
        self._order = LinkOrder()
        self._cuts_before = 0
        self._cut_number = 0
        self._counts = False

    @property
    def is_reachable(self) -> bool:
        """Whether the adb server is meant to reach the phone."""
        return self._wanted_state() == UP

    def begin(self) -> None:
        """Bring the link into its first state, before the phone starts."""
        self._write_faults()
        self._write_wifi()
        self._obey()

    def handle(self, request: dict[str, Any]) -> Any:
        """Answer a request of the control socket.

        Raises:
            UsageError: it makes no sense.
            SimError: it cannot be done.
        """
        operation = request.get("op")
        if operation == "status":
            return self.status()
        if operation == "count":
            self._counts = True
            return self.status()
        if operation == "break":
            return self.start_trouble(plan_trouble(str(request["fault"]), dict(request.get("options") or {})))
        if operation == "heal":
            return self.heal(request.get("fault"))
        if operation == "wifi":
            return self.change_wifi(request.get("address"), off=bool(request.get("off")))
        if operation == "slow":
            return self.change_link(link_from(self._settings, **request.get("link", {})))
        raise UsageError(f"there is no operation {operation!r}")

    def status(self) -> dict[str, Any]:
        """Faults in force, the link, and what it has done so far."""
        report = self._obey()
        return {
            "faults": [self._describe(trouble, report) for trouble in self._troubles.values()],
            "link": {**self._settings.as_dict(), "text": self._settings.describe()},
            "wifi": self._wifi,
            "bytes_up": report.bytes_up,
            "bytes_down": report.bytes_down,
        }

    def start_trouble(self, trouble: Trouble) -> dict[str, Any]:
        """Put a fault in force; the same one again changes nothing, other options replace it.

        Raises:
            SimError: the phone cannot do it; nothing has changed then.
        """
        if trouble.name == "reboot":
            self._write_faults({"reboot": {"value": reboot_value(trouble.options["down"])}})
            self._obey(refresh=True)
            self._write_faults()
            return trouble.as_dict()
        before, state = dict(self._troubles), self._order.state
        if before.get(trouble.name) != trouble or self._has_happened(trouble):
            if trouble.name == "cut":
                self._cuts_before = self._obey().cuts
                self._cut_number += 1
            self._troubles[trouble.name] = trouble
            try:
                self._apply(trouble)
            except SimError:
                self._troubles = before
                self._apply(trouble)
                raise
            self._settle(state)
        return trouble.as_dict()

    def heal(self, name: str | None = None) -> dict[str, Any]:
        """End a fault, or all of them. One that is not in force is no error.

        Raises:
            UsageError: there is no fault of that name.
        """
        if name is not None:
            # Its options do not matter, its name does.
            if name not in self._troubles:
                _check_name(name)
            healed = [self._troubles.pop(name)] if name in self._troubles else []
        else:
            healed, self._troubles = list(self._troubles.values()), {}
        state = self._order.state
        for trouble in healed:
            self._apply(trouble)
        self._settle(state)
        return {"healed": [trouble.name for trouble in healed]}

    def change_link(self, settings: LinkSettings) -> dict[str, Any]:
        """Change the link as it is without faults."""
        self._settings = settings
        self._obey()
        return {**settings.as_dict(), "text": settings.describe()}

    def change_wifi(self, address: str | None, *, off: bool) -> dict[str, Any]:
        """Give the phone another address, its first one (None), or none (`off`).

        Raises:
            UsageError: a phone cannot have that address.
        """
        self._wifi = None if off else check_address(address) if address else self._own_wifi
        self._write_wifi()
        self._obey()
        return {"wifi": self._wifi}

    def _write_wifi(self) -> None:
        paths.write_atomically(self._folder / WIFI_FILE, f"{self._wifi}\n" if self._wifi else "\n")

    def _has_happened(self, trouble: Trouble) -> bool:
        """Whether it was of the kind that happens once, and did."""
        if trouble.name != "cut" or trouble.options["repeat"]:
            return False
        return self._obey().cuts > self._cuts_before

    # ---- effects

    def _apply(self, trouble: Trouble) -> None:
        if trouble.fault.place == ADBD:
            self._write_faults()
            problem = self._obey(refresh=True).problem
            if problem is not None:
                raise SimError(f"the phone cannot have the fault {trouble.name}", evidence=problem)
            return
        self._obey()

    def _settle(self, before: str) -> None:
        """Have adb follow the link's state, if it has changed."""
        if self._order.state != before:
            self._reconnect(self._order.state != UNPLUGGED)

    def _write_faults(self, once: Mapping[str, Any] | None = None) -> None:
        data = {
            name: dict(trouble.options)
            for name, trouble in self._troubles.items()
            if trouble.fault.place == ADBD
        }
        data.update(once or {})
        paths.write_atomically(self._folder / FAULTS_FILE, json.dumps(data))
        clock.set_jump(self._folder, data.get("clock", {}).get("by"), preload=self._preload)

    def _obey(self, *, refresh: bool = False) -> LinkReport:
        self._order = self._wanted_order()
        return self._link.obey(replace(self._order, refresh=refresh))

    def _wanted_state(self) -> str:
        if "unplug" in self._troubles:
            return UNPLUGGED
        return OFFLINE if "offline" in self._troubles else UP

    def _wanted_order(self) -> LinkOrder:
        settings = self._settings
        slow = self._troubles.get("slow")
        if slow is not None:
            settings = link_from(**slow.options)
        up = down = None
        repeats = False
        cut = self._troubles.get("cut")
        if cut is not None:
            up = cut.options["after"] if cut.options["direction"] != "down" else None
            down = cut.options["after"] if cut.options["direction"] != "up" else None
            repeats = cut.options["repeat"]
        return LinkOrder(
            settings,
            self._wanted_state(),
            up,
            down,
            repeats,
            self._cut_number,
            count=self._counts,
            wifi=self._wifi,
        )

    def _describe(self, trouble: Trouble, report: LinkReport) -> dict[str, Any]:
        described = trouble.as_dict()
        if trouble.name == "cut":
            described["times"] = report.cuts - self._cuts_before
        return described


def _check_name(name: str) -> None:
    from devkit.sim.faults.catalog import FAULTS

    if name not in FAULTS:
        plan_trouble(name, {})
