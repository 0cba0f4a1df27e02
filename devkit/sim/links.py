"""How fast and how far away a phone is: the settings of its link, and how users write them."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, replace
from typing import Any

from devkit.errors import UsageError

_RATE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmg]?)bit(?:/s)?", re.IGNORECASE)
_DELAY = re.compile(r"(\d+(?:\.\d+)?)\s*(us|ms|s)", re.IGNORECASE)
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(|b|kb|mb|gb)", re.IGNORECASE)
_SIZE_UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9}
_RATE_UNITS = {"": 1.0, "k": 1e3, "m": 1e6, "g": 1e9}
_DELAY_UNITS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
NO_LIMIT = "unlimited"
MIN_RATE_BITS_S = 1000.0
MAX_DELAY_S = 60.0


@dataclass(frozen=True)
class LinkSettings:
    """A link's two directions: up is towards the phone (push), down is from it (pull).

    Rates are in bits a second, None for no limit; delays are one way, in seconds.
    """

    rate_up_bits_s: float | None = None
    rate_down_bits_s: float | None = None
    delay_up_s: float = 0.0
    delay_down_s: float = 0.0

    @property
    def is_shaped(self) -> bool:
        """Whether bytes have to be held back at all."""
        return self != LinkSettings()

    def as_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @staticmethod
    def from_dict(data: dict[str, Any]) -> LinkSettings:
        """What `as_dict` made."""
        return LinkSettings(**data)

    def describe(self) -> str:
        """For people: "20 Mbit/s up, 5 Mbit/s down, 10 ms each way"."""
        if not self.is_shaped:
            return NO_LIMIT
        if self.rate_up_bits_s == self.rate_down_bits_s:
            rates = show_rate(self.rate_up_bits_s)
        else:
            rates = f"{show_rate(self.rate_up_bits_s)} up, {show_rate(self.rate_down_bits_s)} down"
        up, down = f"{self.delay_up_s * 1000:g} ms", f"{self.delay_down_s * 1000:g} ms"
        delays = f"{up} each way" if up == down else f"{up} up, {down} down"
        return f"{rates}, {delays}"


def link_from(
    base: LinkSettings | None = None,
    *,
    rate: str | None = None,
    rate_up: str | None = None,
    rate_down: str | None = None,
    delay: str | None = None,
    delay_up: str | None = None,
    delay_down: str | None = None,
) -> LinkSettings:
    """Settings from what users write; what is not given stays as in `base`.

    Args:
        rate: for both directions, as "20mbit"; "unlimited" lifts the limit. `rate_up` and
            `rate_down` win over it.
        delay: one way, for each direction, as "10ms".

    Raises:
        UsageError: something cannot be understood.
    """
    settings = base or LinkSettings()
    for text, fields in (
        (rate, ("rate_up_bits_s", "rate_down_bits_s")),
        (rate_up, ("rate_up_bits_s",)),
        (rate_down, ("rate_down_bits_s",)),
    ):
        if text is not None:
            settings = replace(settings, **dict.fromkeys(fields, parse_rate(text)))
    for text, fields in (
        (delay, ("delay_up_s", "delay_down_s")),
        (delay_up, ("delay_up_s",)),
        (delay_down, ("delay_down_s",)),
    ):
        if text is not None:
            settings = replace(settings, **dict.fromkeys(fields, parse_delay(text)))
    return settings


def parse_rate(text: str) -> float | None:
    """'20mbit' → 20e6 bits a second; 'unlimited' → None.

    Raises:
        UsageError: it is no rate, or one below MIN_RATE_BITS_S.
    """
    if text == NO_LIMIT:
        return None
    match = _RATE.fullmatch(text.strip())
    rate = float(match[1]) * _RATE_UNITS[match[2].lower()] if match else 0.0
    if rate < MIN_RATE_BITS_S:
        raise UsageError(f"{text!r} is not a rate", hints=["20mbit", "500kbit", "1.5gbit", NO_LIMIT])
    return rate


def parse_delay(text: str) -> float:
    """'10ms' → 0.01 seconds.

    Raises:
        UsageError: it is no time, or one above MAX_DELAY_S.
    """
    match = _DELAY.fullmatch(text.strip()) if text.strip() != "0" else None
    delay = float(match[1]) * _DELAY_UNITS[match[2].lower()] if match else 0.0
    if (match is None and text.strip() != "0") or delay > MAX_DELAY_S:
        raise UsageError(f"{text!r} is not a delay", hints=["10ms", "0.5s", "0"])
    return delay


def parse_bytes(text: str) -> int:
    """'256mb' → 256,000,000 bytes.

    Raises:
        UsageError: it is no size.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is not a size", hints=["256mb", "4gb", "100kb", "4096"])
    return round(float(match[1]) * _SIZE_UNITS[match[2].lower()])


def show_rate(rate_bits_s: float | None) -> str:
    """20e6 → '20 Mbit/s'."""
    if rate_bits_s is None:
        return NO_LIMIT
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate_bits_s >= size:
            return f"{rate_bits_s / size:g} {unit}bit/s"
    return f"{rate_bits_s:g} bit/s"
