"""A recording comes here whole although the link breaks on the way; only what was missing travels again."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devkit.errors import DeviceError
from devkit.profiling.fetching import fetch_recording
from devkit.sim import break_phone, count_bytes, heal_phone
from tests.e2e.support import start_sim

# Nothing can pack it: as many bytes travel.
BYTES = 6_000_000


@pytest.mark.slow
def test_a_cut_fetch_goes_on_where_it_was(tmp_path: Path, adb: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sim = start_sim("fetcher", tmp_path, adb)
    monkeypatch.setenv("XDG_STATE_HOME", str(sim.state_home))
    with sim.phone:
        device = sim.device()
        content = os.urandom(BYTES)
        remote = "/data/local/tmp/it's 録.data"
        device.push_bytes(content, remote)
        before = int(count_bytes("fetcher")["bytes_down"])
        # Once; the phone comes back by itself.
        break_phone("fetcher", "cut", {"after": str(BYTES * 2 // 3), "direction": "down"})
        local = tmp_path / "perf.data"
        size = fetch_recording(device, remote, local)
        travelled = int(count_bytes("fetcher")["bytes_down"]) - before
        assert local.read_bytes() == content
        assert size > BYTES and travelled < BYTES * 4 / 3
        # A phone that does not come back is an error, not a wait without end.
        heal_phone("fetcher")
        break_phone("fetcher", "unplug", {})
        with pytest.raises(DeviceError):
            fetch_recording(device, remote, local, patience_s=1)
