"""The virtual phone: a real adb device made of Linux namespaces, for demos and tests without hardware."""

from devkit.sim.api import Phone, list_phones, start_phone, stop_phone
from devkit.sim.state import PhoneRecord
from devkit.sim.taps import pending_keys, tap_allow, tap_deny

__all__ = [
    "Phone",
    "PhoneRecord",
    "list_phones",
    "pending_keys",
    "start_phone",
    "stop_phone",
    "tap_allow",
    "tap_deny",
]
