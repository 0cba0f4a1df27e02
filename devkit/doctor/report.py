"""What the doctor found: one line a link, and which one is broken first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from devkit import output
from devkit.doctor.roles import Roles
from devkit.errors import DevkitError

OK, WARNING, BROKEN, NOT_NEEDED, NOT_CHECKED = "ok", "warning", "broken", "not needed", "not checked"
_MARKS = {OK: "ok", WARNING: "warn", BROKEN: "BROKEN", NOT_NEEDED: "-", NOT_CHECKED: "?"}
_STYLES = {OK: "green", WARNING: "yellow", BROKEN: "red", NOT_NEEDED: "dim", NOT_CHECKED: "dim"}


@dataclass(frozen=True)
class Repair:
    """What `--fix` may do for a link: `what` says it beforehand, `apply` does it and says what it did."""

    what: str
    apply: Callable[[], str]


@dataclass(frozen=True)
class Wishes:
    """What `--fix` does only when it is asked for by name: an NDK to install, the block in the rc file."""

    ndk: str | None = None
    shell_rc: bool = False


@dataclass(frozen=True)
class Link:
    """One link of the chain.

    `section` is the machine it is on: "laptop", "server" or "phone". `state` is one of the constants
    above, `evidence` what was seen, `hints` what mends it, and
    `repair` what `--fix` can do about it.
    """

    id: str
    section: str
    title: str
    state: str
    evidence: str = ""
    hints: tuple[str, ...] = ()
    repair: Repair | None = None

    def as_dict(self) -> dict[str, Any]:
        plain = {name: value for name, value in self.__dict__.items() if name != "repair"}
        return {**plain, "hints": list(self.hints), "fix": self.repair.what if self.repair else None}


@dataclass(frozen=True)
class Report:
    """All links, section by section, each in the order of the chain.

    `roles` says what this machine is, `own` which links are this machine's without its adb, tunnels
    and phones (ids).
    """

    links: tuple[Link, ...]
    roles: Roles
    own: frozenset[str] = frozenset()

    @property
    def first_broken(self) -> Link | None:
        """Where to start: what comes behind it may only follow from it."""
        return next((link for link in self.links if link.state == BROKEN), None)

    def as_dict(self) -> dict[str, Any]:
        """The report as `--json` prints it."""
        broken = self.first_broken
        return {
            "first_broken": broken.id if broken else None,
            "this_machine": list(self.roles.here),
            "links": [link.as_dict() for link in self.links],
        }

    def as_text(self, style: output.Output) -> str:
        """One line a link, hints below those that need one."""
        lines: list[str] = []
        heading = None
        for link in self.links:
            if self.roles.heading(link.section) != heading:
                heading = self.roles.heading(link.section)
                lines.append(heading)
            mark = style.style(f"{_MARKS[link.state]:>6}", _STYLES[link.state])
            first, *more = (link.evidence or "").splitlines() or [""]
            lines.append(f"  {mark}  {link.title:18} {first}".rstrip())
            lines += [f"{'':29}{line}" for line in more[:6]]
            if link.state in (BROKEN, WARNING):
                lines += [f"{'':29}try: {hint}" for hint in link.hints]
                lines += [f"{'':29}try: devkit doctor --fix   ({link.repair.what})"] if link.repair else []
        broken = self.first_broken
        lines.append("")
        if broken is None:
            lines.append("nothing that is needed is broken")
        else:
            here = ", this machine" if broken.section in self.roles.here else ""
            lines.append(f"first broken link: {broken.title} ({broken.section}{here})")
        return "\n".join(lines)


class Section:
    """Makes the links of one section: a check is a function, an error of it is a broken link."""

    def __init__(self, name: str, links: list[Link]) -> None:
        self._name = name
        self._links = links

    def add(
        self,
        id_: str,
        title: str,
        state: str,
        evidence: str = "",
        hints: Sequence[str] = (),
        repair: Repair | None = None,
    ) -> None:
        """Note a link."""
        self._links.append(Link(id_, self._name, title, state, evidence, tuple(hints), repair))

    def broken(
        self, id_: str, title: str, error: DevkitError, *, needed: bool = True, repair: Repair | None = None
    ) -> None:
        """Note a link that an error describes."""
        evidence = error.what + (f"\n{error.evidence}" if error.evidence else "")
        self.add(id_, title, BROKEN if needed else WARNING, evidence, error.hints, repair)

    def skip(self, links: Sequence[tuple[str, str]], because: str) -> None:
        """Links that cannot be looked at because an earlier one is broken."""
        for id_, title in links:
            self.add(id_, title, NOT_CHECKED, because)
