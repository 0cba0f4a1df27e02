"""What the state of a link counts."""

from __future__ import annotations

from devkit.tunnels.state import DOWN, UP, WAITING, LinkState


def test_coming_back_is_counted_coming_up_is_not() -> None:
    link = LinkState("adb", "adb server", "laptop")
    link.turn(DOWN, error="it does not run")
    link.turn(UP)
    assert link.reconnects == 0
    for times in (1, 2):
        link.turn(DOWN, error="it went away")
        link.turn(WAITING)
        link.turn(UP)
        assert link.reconnects == times
