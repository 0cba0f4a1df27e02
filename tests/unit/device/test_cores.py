"""Big and little processors, and masks of them."""

from __future__ import annotations

import pytest

from devkit.device.cores import mask_of, parse_cores, parse_cpus, show_cpus
from devkit.errors import DeviceError, UsageError

SYSFS = "/sys/devices/system/cpu"


def listing(online: str, strengths: list[int], kind: str = "cpu_capacity") -> str:
    lines = [f"{SYSFS}/cpu{cpu}/{kind}:{strength}" for cpu, strength in enumerate(strengths)]
    return "\n".join([f"{SYSFS}/online:{online}", *lines, "/system/bin/taskset"])


@pytest.mark.parametrize("kind", ["cpu_capacity", "cpufreq/cpuinfo_max_freq"])
def test_three_kinds(kind: str) -> None:
    cores = parse_cores(listing("0-7", [326] * 3 + [793] * 4 + [1024], kind))
    assert cores.taskset
    assert cores.group("little") == (0, 1, 2)
    assert cores.group("big") == (3, 4, 5, 6, 7)
    assert cores.group("prime") == (7,)
    assert mask_of(cores.group("big")) == "f8" and mask_of(cores.group("all")) == "ff"


def test_capacity_comes_before_frequency_unless_it_is_incomplete() -> None:
    both = listing("0-1", [100, 1024]) + "\n" + listing("0-1", [3000, 2000], "cpufreq/cpuinfo_max_freq")
    assert parse_cores(both).group("big") == (1,)
    half = listing("0-1", [100]) + "\n" + listing("0-1", [3000, 2000], "cpufreq/cpuinfo_max_freq")
    assert parse_cores(half).group("big") == (0,)


def test_processors_that_are_off_are_left_out() -> None:
    cores = parse_cores(listing("0-1,3", [100, 100, 1024, 1024]))
    assert cores.group("big") == (3,)
    assert cores.choose("c") == (3,)
    with pytest.raises(UsageError, match="none of these"):
        cores.choose("2,4-9")


def test_phones_that_do_not_tell() -> None:
    assert not parse_cores(f"{SYSFS}/online:0-3").taskset
    with pytest.raises(DeviceError, match="does not tell"):
        parse_cores(f"{SYSFS}/online:0-3").group("big")
    with pytest.raises(DeviceError, match="all alike"):
        parse_cores(listing("0-1", [5, 5])).group("little")
    assert parse_cores(f"{SYSFS}/online:0-3").choose("all") == (0, 1, 2, 3)


@pytest.mark.parametrize(
    ("text", "cpus"),
    [("f0", (4, 5, 6, 7)), ("0xF", (0, 1, 2, 3)), ("4-6", (4, 5, 6)), ("0,2", (0, 2)), ("10", (4,))],
)
def test_masks_and_lists(text: str, cpus: tuple[int, ...]) -> None:
    assert parse_cpus(text) == cpus
    assert parse_cpus(mask_of(cpus)) == parse_cpus(show_cpus(cpus), is_list=True) == cpus


@pytest.mark.parametrize("text", ["", "0", "bigg", "3-1", "-1", "1-x", "f" * 400, "0-5000"])
def test_nonsense(text: str) -> None:
    with pytest.raises(UsageError, match="names no processors"):
        parse_cpus(text)


def test_cpus_are_shown_as_ranges() -> None:
    assert show_cpus((0, 1, 2, 5, 7, 6)) == "0-2,5-7"
