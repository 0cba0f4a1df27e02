"""The faults there are: names, one line for people, options; and a user's wish checked against them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from devkit.errors import UsageError
from devkit.sim import links

# Who makes it happen: the link's process, adbd, or the supervisor.
LINK, ADBD, SUPERVISOR = "link", "adbd", "supervisor"
DIRECTIONS = ("up", "down", "both")


@dataclass(frozen=True)
class Option:
    """An option of a fault.

    Args:
        check: turns what the user wrote into the value; raises ValueError or UsageError.
        default: as the user would write it; None means that it has to be given.
    """

    name: str
    help: str
    check: Callable[[Any], Any]
    default: Any = None


@dataclass(frozen=True)
class Fault:
    """A fault that a phone can be made to have."""

    name: str
    summary: str
    place: str
    options: tuple[Option, ...] = ()


@dataclass(frozen=True)
class Trouble:
    """A fault with its options, as it is in force on a phone."""

    fault: Fault
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The fault's name."""
        return self.fault.name

    def as_dict(self) -> dict[str, Any]:
        """As JSON shows it."""
        return {"fault": self.name, "options": dict(self.options), "summary": self.fault.summary}


def plan_trouble(name: str, given: Mapping[str, Any]) -> Trouble:
    """Check a fault's name and the options given for it; fill in the defaults.

    Raises:
        UsageError: there is no such fault or option, an option is missing, or a value makes no sense.
    """
    fault = FAULTS.get(name)
    if fault is None:
        near = difflib.get_close_matches(name, FAULTS, n=1)
        raise UsageError(
            f"there is no fault named {name}",
            hints=[*(f"did you mean {each}?" for each in near), "devkit sim break --list"],
        )
    known = {option.name: option for option in fault.options}
    for key in given:
        if key not in known:
            takes = ", ".join(f"--{option.replace('_', '-')}" for option in known) or "none"
            raise UsageError(
                f"the fault {name} has no option --{key.replace('_', '-')}", hints=[f"its options: {takes}"]
            )
    values = {}
    for option in fault.options:
        value = given.get(option.name, option.default)
        flag = f"--{option.name.replace('_', '-')}"
        if value is None:
            raise UsageError(
                f"the fault {name} needs {flag}: {option.help}", hints=["devkit sim break --list"]
            )
        try:
            values[option.name] = option.check(value)
        except (ValueError, TypeError) as error:
            raise UsageError(f"{flag} {value} makes no sense: {error}") from None
    return Trouble(fault, values)


def _count(value: Any) -> int:
    return links.parse_bytes(str(value))


def _positive(value: Any) -> int:
    number = links.parse_bytes(str(value))
    if number < 1:
        raise ValueError("it must be at least 1")
    return number


def _seconds(value: Any) -> float:
    number = float(value)
    if not 0 <= number <= 600:
        raise ValueError("it must be between 0 and 600 s")
    return number


def _direction(value: Any) -> str:
    if value not in DIRECTIONS:
        raise ValueError("it is one of " + ", ".join(DIRECTIONS))
    return str(value)


def _glob(value: Any) -> str:
    if not str(value):
        raise ValueError("it must not be empty")
    return str(value)


def _rate(value: Any) -> str:
    links.parse_rate(str(value))
    return str(value)


def _delay(value: Any) -> str:
    links.parse_delay(str(value))
    return str(value)


_SERVICE = "which services, as a pattern: 'sync:*', 'shell*', 'localabstract:*'"
_DIRECTION = Option("direction", "up (to the phone), down (from it) or both", _direction, "both")

FAULTS: dict[str, Fault] = {
    fault.name: fault
    for fault in (
        Fault("unplug", "The cable is out: connections break and adb no longer lists the phone.", LINK),
        Fault("offline", "adbd does not answer: adb lists the phone as offline.", LINK),
        Fault(
            "slow",
            "The link is slow and far away.",
            LINK,
            (
                Option("rate", "for each direction", _rate, "1mbit"),
                Option("delay", "one way", _delay, "100ms"),
            ),
        ),
        Fault(
            "cut",
            "The connection breaks in the middle, after so many bytes.",
            LINK,
            (
                Option("after", "bytes from now", _positive, 1_000_000),
                _DIRECTION,
                Option("repeat", "again after as many bytes", bool, False),
            ),
        ),
        Fault(
            "corrupt",
            "One byte in so many arrives wrong; adb does not notice.",
            ADBD,
            (Option("every", "bytes of content", _positive, 1_000_000), _DIRECTION),
        ),
        Fault("refuse", "adbd refuses services.", ADBD, (Option("service", _SERVICE, _glob),)),
        Fault(
            "hang",
            "Answers stop in the middle and never go on; the connection stays open.",
            ADBD,
            (
                Option("after", "bytes of each stream's answer", _count, 1000),
                Option("service", _SERVICE, _glob, "*"),
            ),
        ),
        Fault(
            "endless",
            "Programs print something, then never stop printing.",
            ADBD,
            (Option("service", _SERVICE, _glob, "shell*"),),
        ),
        Fault(
            "sizes",
            "stat and list tell wrong sizes: files are shorter or longer than announced.",
            ADBD,
            (Option("by", "bytes more (or, negative, fewer) than there are", int, 1000),),
        ),
        Fault(
            "hostile",
            "File names, properties and a process carry escape sequences, newlines and broken UTF-8.",
            ADBD,
        ),
        Fault(
            "disk-full",
            "No space is left in /data/local/tmp (of a phone that was started with --storage).",
            ADBD,
            (Option("leave", "bytes that stay free", _count, 0),),
        ),
        Fault(
            "clock",
            "The phone's clock has jumped.",
            ADBD,
            (Option("by", "seconds forward (or, negative, back)", int, 86_400),),
        ),
        Fault(
            "reboot",
            "The phone restarts: everything on it ends and adbd is away for a while.",
            SUPERVISOR,
            (Option("down", "seconds until it is back", _seconds, 3),),
        ),
    )
}
