"""The virtual phone: a real adb device made of Linux namespaces, for demos and tests without hardware."""

from devkit.sim.api import Phone, list_phones, start_phone, stop_phone
from devkit.sim.links import LinkSettings, link_from
from devkit.sim.operations import (
    break_phone,
    change_wifi,
    count_bytes,
    heal_phone,
    phone_status,
    slow_phone,
)
from devkit.sim.state import PhoneRecord
from devkit.sim.taps import pending_keys, tap_allow, tap_deny

__all__ = [
    "LinkSettings",
    "Phone",
    "PhoneRecord",
    "break_phone",
    "change_wifi",
    "count_bytes",
    "heal_phone",
    "link_from",
    "list_phones",
    "pending_keys",
    "phone_status",
    "slow_phone",
    "start_phone",
    "stop_phone",
    "tap_allow",
    "tap_deny",
]
