"""What `tunnel check` says about debugging time is still so: round trips of a session, measured again."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.tunnels.check import START_ROUND_TRIPS, STEP_ROUND_TRIPS
from tests.e2e.tunnel_world import Net, net, world
from tests.support.stepping import build_program, debug_session

__all__ = ["net", "world"]

ROUND_TRIP_S = 0.1
STEPS = 20
# A busy machine adds seconds; devkit that asks twice as often, or half, is noticed.
TOLERANCE = 0.3


@pytest.mark.slow
def test_the_round_trips_of_a_debug_session(net: Net, tmp_path: Path) -> None:
    program = build_program(tmp_path)
    assert net.up().code == 0
    debug_session(net.server, program, steps=1)  # brings program and lldb-server to the phone
    near = [debug_session(net.server, program, steps=STEPS) for _ in range(2)]
    net.hosts.laptop_jump.shape(delay_s=ROUND_TRIP_S / 2)
    far = debug_session(net.server, program, steps=STEPS)
    start = (far.start_s - min(each.start_s for each in near)) / ROUND_TRIP_S
    step = (far.step_s - min(each.step_s for each in near)) / ROUND_TRIP_S
    print(f"start {start:.1f}, step {step:.2f}")
    assert start == pytest.approx(START_ROUND_TRIPS, rel=TOLERANCE), start
    assert step == pytest.approx(STEP_ROUND_TRIPS, rel=TOLERANCE), step
