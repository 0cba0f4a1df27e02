"""What can be done to a running phone from any process of its user: faults, link, status."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from devkit.sim.control import ask
from devkit.sim.faults.catalog import plan_trouble
from devkit.sim.links import link_from


def break_phone(name: str, fault: str, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Put a fault in force on a phone; the same one again changes nothing, other options replace it.

    Args:
        fault: a name of `devkit.sim.faults.FAULTS`.
        options: that fault's; what is not given has its default.

    Returns:
        the fault and its options as they are in force.

    Raises:
        UsageError: there is no such fault or option.
        SimError: there is no such phone, or it cannot have that fault.
    """
    plan_trouble(fault, options or {})
    answer: dict[str, Any] = ask(name, {"op": "break", "fault": fault, "options": dict(options or {})})
    return answer


def heal_phone(name: str, fault: str | None = None) -> list[str]:
    """End a fault, or all; the phone is usable again on return. Returns what was healed.

    Raises:
        UsageError: there is no fault of that name.
        SimError: there is no such phone.
    """
    healed: list[str] = ask(name, {"op": "heal", "fault": fault})["healed"]
    return healed


def slow_phone(name: str, **link: str | None) -> dict[str, Any]:
    """Change a phone's link for good, connections in use included.

    Args:
        link: as `devkit.sim.links.link_from` takes it: rate="20mbit", delay="10ms"…

    Returns:
        the link's settings.

    Raises:
        UsageError: a setting cannot be understood.
        SimError: there is no such phone.
    """
    given = {key: value for key, value in link.items() if value is not None}
    link_from(None, **given)
    answer: dict[str, Any] = ask(name, {"op": "slow", "link": given})
    return answer


def change_wifi(name: str, address: str | None = None, *, off: bool = False) -> str | None:
    """Give a phone another address on its Wi-Fi, its first one (None), or none (`off`).

    What adbd in TCP mode serves there breaks off, as on a phone that changes networks.

    Returns:
        the address it has now.

    Raises:
        UsageError: a phone cannot have that address.
        SimError: there is no such phone.
    """
    wifi: str | None = ask(name, {"op": "wifi", "address": address, "off": off})["wifi"]
    return wifi


def count_bytes(name: str) -> dict[str, Any]:
    """`phone_status`, and from now on all bytes are counted: they run through the link's process.

    Raises:
        SimError: there is no such phone.
    """
    answer: dict[str, Any] = ask(name, {"op": "count"})
    return answer


def phone_status(name: str) -> dict[str, Any]:
    """A phone's faults in force ("faults"), its link ("link") and bytes counted while it was shaped.

    Raises:
        SimError: there is no such phone.
    """
    answer: dict[str, Any] = ask(name, {"op": "status"})
    return answer
