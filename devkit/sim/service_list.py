"""Which services a phone has beside adbd."""

from __future__ import annotations

from devkit.sim.services import PhoneFacts, Service


def services_of(facts: PhoneFacts) -> list[Service]:
    """The services of a phone, in the order in which they start."""
    return []
