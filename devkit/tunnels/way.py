"""Where in a chain of machines something happened."""

from __future__ import annotations

from dataclasses import dataclass

from devkit.errors import TunnelError


@dataclass(frozen=True)
class Way:
    """Where in the chain a hop is, for messages: `route` starts with this machine."""

    route: tuple[str, ...]
    index: int

    @property
    def name(self) -> str:
        """The machine this hop leads to."""
        return self.route[self.index + 1]

    @property
    def near(self) -> str:
        """The machine this hop starts from."""
        return self.route[self.index]

    def error(self, reason: str, what: str, evidence: str = "", hints: tuple[str, ...] = ()) -> TunnelError:
        """A failure of this link."""
        return TunnelError(
            f"{self.name}: {what}",
            reason=reason,
            route=self.route,
            link=self.index,
            evidence=evidence,
            hints=hints,
        )
