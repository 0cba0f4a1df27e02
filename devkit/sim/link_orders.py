"""What the supervisor and the link's process say to each other."""

from __future__ import annotations

from dataclasses import dataclass, field

from devkit.sim.links import LinkSettings

UP = "up"
OFFLINE = "offline"
UNPLUGGED = "unplugged"
BACKLOG = 128
MESSAGE_BYTES = 64 * 1024


@dataclass(frozen=True)
class LinkOrder:
    """What the supervisor wants the link to be like.

    Args:
        state: UP, OFFLINE (connections are taken, nobody answers) or UNPLUGGED (refused).
        cut_up_bytes: the link breaks once after this many bytes towards the phone.
        cut_down_bytes: the same for bytes from the phone.
        cut_repeats: it breaks again after as many bytes, until the order changes.
        cut_number: another number is another cut, even after the same bytes.
        drop: break all connections off now.
        count: bytes run through here to be counted, even if nothing else is wanted.
        refresh: have adbd read its faults again, and wait until it has.
        wifi: the phone's address on the Wi-Fi, None when it has none. adbd says at which port of it.
    """

    settings: LinkSettings = field(default_factory=LinkSettings)
    state: str = UP
    cut_up_bytes: int | None = None
    cut_down_bytes: int | None = None
    cut_repeats: bool = False
    cut_number: int = 0
    drop: bool = False
    count: bool = False
    refresh: bool = False
    wifi: str | None = None

    @property
    def cut(self) -> tuple[object, ...]:
        """What is to be counted anew when it changes."""
        return self.cut_up_bytes, self.cut_down_bytes, self.cut_repeats, self.cut_number

    @property
    def needs_bytes(self) -> bool:
        """Whether bytes have to run through the link's process."""
        is_cut = self.cut_up_bytes is not None or self.cut_down_bytes is not None
        return self.count or self.settings.is_shaped or is_cut


@dataclass(frozen=True)
class LinkReport:
    """What the link has done.

    Args:
        cuts: breaks so far.
        bytes_up: bytes that ran through its process.
        problem: why adbd could not do what it read; None if it could, or was not asked.
    """

    cuts: int
    bytes_up: int
    bytes_down: int
    problem: str | None = None
