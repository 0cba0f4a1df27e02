"""What a profile cannot do without (`needs: [ndk>=21, qnn>=2.38, asan]`), and whether it is there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from devkit.config import nearest
from devkit.errors import ConfigError, ToolMissing

SDKS = ("ndk", "qnn", "asan")
_NAMES = {"ndk": "the NDK", "qnn": "the QNN SDK", "asan": "AddressSanitizer's runtime"}
_FORM = re.compile(r"(?P<sdk>[a-z]\w*)\s*(?:>=\s*r?(?P<minimum>\d+(?:\.\d+)*))?")


@dataclass(frozen=True)
class Requirement:
    """One entry of `needs`; `minimum` is the oldest version that does, or None for any."""

    sdk: str
    minimum: str | None = None

    def __str__(self) -> str:
        return f"{self.sdk}>={self.minimum}" if self.minimum else self.sdk


def parse_requirement(text: str, place: str) -> Requirement:
    """Read one entry; `place` is where it stands, for messages.

    Raises:
        ConfigError: it has another form, or names something that devkit does not know.
    """
    found = _FORM.fullmatch(text.strip())
    if found is None or found["sdk"] not in SDKS:
        guess = nearest(text.partition(">")[0].strip(), SDKS)
        raise ConfigError(
            f"{place}: {text!r} is nothing that devkit knows to look for",
            hints=[*([f"did you mean {guess}?"] if guess else []), "ndk, ndk>=25, qnn>=2.38 or asan"],
        )
    return Requirement(found["sdk"], found["minimum"])


def needed(needs: Iterable[str], sdk: str) -> Requirement | None:
    """The requirement of that SDK among `needs`, or None."""
    requirements = (parse_requirement(text, "needs") for text in needs)
    return next((r for r in requirements if r.sdk == sdk), None)


def check_version(
    needs: Iterable[str], sdk: str, version: str, *, profile: str, where: str, hint: str
) -> None:
    """Refuse an SDK that is older than a profile can use; an unknown version passes.

    Args:
        version: what was found: 27.3.13750724, 2.42.0.251225.
        where: its folder, for the message.

    Raises:
        ToolMissing: it is too old.
    """
    requirement = needed(needs, sdk)
    found = _numbers(version)
    if requirement is None or requirement.minimum is None or not found:
        return
    if found < _numbers(requirement.minimum):
        raise ToolMissing(
            f"{_NAMES[sdk]} {version} is too old for profile {profile}, "
            f"which needs {requirement.minimum} or later",
            evidence=where,
            hints=[hint, f"profiles: {{{profile}: {{needs: […]}}}} in devkit.yaml, if you know better"],
        )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in re.findall(r"\d+", version))
