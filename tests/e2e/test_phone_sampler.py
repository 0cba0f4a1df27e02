"""Memory and load of a real process on the phone, sampled while it works."""

from __future__ import annotations

from devkit.device import Device
from devkit.profiling.sampler import PhoneSampler

from .support import eventually


def test_a_busy_process_has_memory_and_load(device: Device) -> None:
    with device.open_shell("echo $$; while :; do :; done") as busy:
        name, data = busy.read(20)
        assert name == "stdout" and isinstance(data, bytes)
        with PhoneSampler(device, int(data.split()[0])) as sampler:
            assert eventually(lambda: any(s.kind == "load" and len(s.values) > 1 for s in sampler.series()))
    series = {(one.kind, one.name): one for one in sampler.series()}
    assert 0 < max(series["load", "process"].values) < 1000
    assert min(series["memory", "VmRSS"].values) > 10
    assert list(series["memory", "VmRSS"].times_ns) == sorted(series["memory", "VmRSS"].times_ns)
    # Its loop on the phone has ended with it.
    assert eventually(
        lambda: b"smaps_rollup" not in device.shell("cat /proc/[0-9]*/cmdline 2>/dev/null; :").stdout
    )
