"""Times of logs and of `--since`: stamps to nanoseconds since 1970, and back."""

from __future__ import annotations

import calendar
import re
import time
from datetime import datetime, timedelta

from devkit.errors import UsageError

_NS = 1_000_000_000
_DAY_S = 86_400
# Counted seconds below this are `-v monotonic`: since the boot, no time of day.
_FIRST_EPOCH_S = 100_000_000
_STAMP = re.compile(
    rb"(?:(\d{4})-)?(\d\d)-(\d\d) (\d\d):(\d\d):(\d\d)\Z",
)
_AGO = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)\Z")
_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": float(_DAY_S)}


class Clock:
    """Reads the stamps of a text log. What a second's lines have in common is read once.

    Args:
        year: of stamps without one (default: this year, or the last where that lies in the future).
    """

    def __init__(self, year: int | None = None) -> None:
        self._year = year
        self._seen = b""
        self._second = 0

    def time_ns(self, stamp: bytes) -> int | None:
        """Nanoseconds since 1970; without a zone in this machine's time. None: no time of day."""
        stamp = stamp.strip()
        head, _, fraction = stamp.partition(b".")
        fraction, _, zone = fraction.partition(b" ")
        nanoseconds = int(fraction[:9].ljust(9, b"0"))
        if head.isdigit():
            return int(head) * _NS + nanoseconds if int(head) >= _FIRST_EPOCH_S else None
        key = head + zone
        if key != self._seen:
            second = self._read(head, zone)
            if second is None:
                return None
            self._seen, self._second = key, second
        return self._second * _NS + nanoseconds

    def _read(self, head: bytes, zone: bytes) -> int | None:
        found = _STAMP.match(head)
        if found is None:
            return None
        year, month, day, hour, minute, second = (int(group or 0) for group in found.groups())
        if not (1 <= month <= 12 and 1 <= day <= 31):
            return None
        now = time.time()
        year = year or self._year or time.localtime(now).tm_year
        seconds = _seconds((year, month, day, hour, minute, second), zone)
        if not found[1] and self._year is None and seconds > now + _DAY_S:
            seconds = _seconds((year - 1, month, day, hour, minute, second), zone)
        return seconds


def _seconds(fields: tuple[int, int, int, int, int, int], zone: bytes) -> int:
    if zone:
        offset = int(zone[1:3]) * 3600 + int(zone[3:5]) * 60
        return calendar.timegm((*fields, 0, 0, 0)) - (offset if zone[:1] == b"+" else -offset)
    return int(time.mktime((*fields, 0, 0, -1)))


def parse_duration(text: str, *, option: str) -> float:
    """Seconds of "30", "30s", "5m", "2h".

    Raises:
        UsageError: it is none of these.
    """
    found = _AGO.match(text.strip() if not text.strip().replace(".", "", 1).isdigit() else f"{text.strip()}s")
    if found is None:
        raise UsageError(f"{option} {text!r} is no duration", hints=["30s, 5m, 2h"])
    return float(found[1]) * _UNITS_S[found[2]]


def parse_moment(text: str, *, option: str = "--since") -> int:
    """A moment that a user names, as nanoseconds since 1970.

    Args:
        text: "90s", "10m", "2h", "1d" (ago), "10:22", "10:22:30.5" (the last such time),
            "05-14 10:22:30", "2026-05-14 10:22:30", or seconds since 1970.

    Raises:
        UsageError: it is none of these.
    """
    text = text.strip()
    ago = _AGO.match(text)
    if ago:
        return int((time.time() - float(ago[1]) * _UNITS_S[ago[2]]) * _NS)
    if re.fullmatch(r"\d{9,10}(\.\d{1,9})?", text):
        whole, _, part = text.partition(".")
        return int(whole) * _NS + int(part.ljust(9, "0"))
    now = datetime.now()
    for pattern in (
        "%Y-%m-%d %H:%M:%S.%f",
        "%Y-%m-%d %H:%M:%S",
        "%Y-%m-%d %H:%M",
        "%Y-%m-%dT%H:%M:%S",
        "%Y-%m-%d",
    ):
        # A date without a year is read with one in front: strptime would take 1900, which has no 02-29.
        for candidate, step in (
            (text, None),
            (f"{now.year}-{text}", timedelta(days=365)),
            (f"{now:%Y-%m-%d} {text}", timedelta(days=1)),
        ):
            try:
                moment = datetime.strptime(candidate, pattern)
            except ValueError:
                continue
            if step is not None and moment > now:
                moment = moment.replace(year=moment.year - 1) if step.days > 1 else moment - step
            return int(moment.timestamp()) * _NS + moment.microsecond * 1000
    raise UsageError(
        f"{option} {text!r} is no time",
        hints=["90s, 10m, 2h (ago), 10:22:30, '05-14 10:22:30' or '2026-05-14 10:22:30.101'"],
    )
