"""The models: properties, and the hardware that their kernel tells of."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.errors import SimError
from devkit.sim import hardware, models
from devkit.sim.hardware import Hardware, place_clusters, plan_files
from devkit.sim.releases import find_release

ROWS = [
    {"cores": 3, "min_khz": 300000, "max_khz": 2000000, "capacity": 326},
    {"cores": 4, "min_khz": 500000, "max_khz": 2800000, "capacity": 793},
    {"cores": 1, "min_khz": 600000, "max_khz": 3200000, "capacity": 1024},
]


def properties_of(model: str, abi: str = "x86_64", android: str | None = None) -> dict[str, str]:
    release = find_release(android or models.default_release(model))
    return models.phone_properties(model, release, abi=abi, serial="SIM1", image="abcd1234")


@pytest.mark.parametrize("model", models.model_names())
def test_every_model_is_whole(model: str) -> None:
    properties = properties_of(model)
    # What a program can run and how it is told apart never depends on the model.
    assert properties["ro.product.cpu.abi"] == properties["ro.product.cpu.abilist64"] == "x86_64"
    assert properties_of(model, "arm64-v8a")["ro.product.cpu.abi"] == "arm64-v8a"
    assert not [key for key in properties if "page" in key]
    assert properties["ro.devkit.sim"] == "1" and properties["ro.devkit.libc"] == "glibc"
    assert "abcd1234" in properties["ro.build.fingerprint"]
    for key in ("ro.product.name", "ro.product.model", "ro.product.device"):
        assert not set(properties[key]) & set(";:= \n"), "adb's banner separates with these"
    for key, value in properties.items():
        assert "\n" not in value and "{" not in value, key
        assert len(value) <= 91 or key.startswith("ro."), key


@pytest.mark.parametrize(
    ("model", "chip", "soc_id", "android"),
    [
        ("sm8550", "SM8550", "519", "14"),
        ("sm8650", "SM8650", "557", "14"),
        ("sm8750", "SM8750", "618", "15"),
        ("sm8850", "SM8850", "660", "16"),
    ],
)
def test_snapdragons(model: str, chip: str, soc_id: str, android: str) -> None:
    properties = properties_of(model)
    assert (properties["ro.soc.manufacturer"], properties["ro.soc.model"]) == ("QTI", chip)
    assert properties["ro.build.version.release"] == android
    assert properties["ro.build.type"] == "user" and properties["ro.debuggable"] == "0"
    files = plan_files(models.hardware_row(model), 8)
    assert files["sys/devices/soc0/soc_id"] == soc_id
    # On an older Android the chip is not told; the board still is.
    old = properties_of(model, android="11")
    assert "ro.soc.model" not in old and old["ro.board.platform"] == properties["ro.board.platform"]


def test_no_qualcomm_has_nothing_of_qualcomm() -> None:
    properties = properties_of("no-qualcomm")
    assert properties["ro.soc.manufacturer"] == "Mediatek"
    assert not [v for v in properties.values() if "qcom" in v.lower() or "QTI" in v]
    assert not [name for name in plan_files(models.hardware_row("no-qualcomm"), 2) if "soc0" in name]


def test_generic_shows_the_machine_itself() -> None:
    assert plan_files(models.hardware_row("generic"), 2) == {}


def test_an_unknown_model_names_the_known() -> None:
    with pytest.raises(SimError) as caught:
        models.default_release("sm8551")
    assert caught.value.hints == ("did you mean sm8550?",)
    with pytest.raises(SimError):
        models.default_release(".retail")


@pytest.mark.parametrize(
    ("cpus", "expected"),
    [
        (1, [(0,)]),
        (2, [(0,), (1,)]),
        (3, [(0,), (1,), (2,)]),
        (8, [(0, 1, 2), (3, 4, 5, 6), (7,)]),
    ],
)
def test_clusters_are_spread_over_the_processors(cpus: int, expected: list[tuple[int, ...]]) -> None:
    clusters = place_clusters(ROWS, cpus)
    assert [cluster.cpus for cluster in clusters] == expected
    # The fastest core is always among them.
    assert clusters[-1].max_khz == 3200000


@pytest.mark.parametrize("cpus", [1, 2, 5, 16, 96])
def test_each_processor_belongs_to_one_cluster(cpus: int) -> None:
    found = [cpu for cluster in place_clusters(ROWS, cpus) for cpu in cluster.cpus]
    assert found == list(range(cpus))


def test_clocks_rise_in_steps_between_the_limits() -> None:
    for cluster in place_clusters(ROWS, 8):
        steps = cluster.frequencies_khz
        assert steps == sorted(set(steps))
        assert (steps[0], steps[-1]) == (cluster.min_khz, cluster.max_khz)


def test_temperatures_move_a_little_and_leave_nothing_beside_them(tmp_path: Path) -> None:
    files = plan_files(models.hardware_row("sm8550"), 2)
    made = Hardware(tmp_path, files)
    made.write()
    zone = tmp_path / "sys/class/thermal/thermal_zone0"
    assert (zone / "type").read_text() == "cpu-0-0\n"
    listing = sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*"))
    seen = set()
    for now in range(0, 40, 4):
        made.move(float(now))
        for name, mean in files.items():
            if name.endswith("/temp"):
                assert abs(int((tmp_path / name).read_text()) - int(mean)) <= 1500
        seen.add((zone / "temp").read_text())
    assert len(seen) > 3
    assert sorted(path.relative_to(tmp_path) for path in tmp_path.rglob("*")) == listing
    cpu = tmp_path / "sys/devices/system/cpu/cpu1/cpufreq"
    assert cpu.is_symlink()
    clock = (cpu / "scaling_cur_freq").read_text().strip()
    assert clock in (cpu / "scaling_available_frequencies").read_text().split()


def test_meminfo_has_the_models_memory() -> None:
    text = plan_files(models.hardware_row("sm8650"), 2)[hardware.MEMINFO]
    assert text.splitlines()[0].split() == ["MemTotal:", "15621972", "kB"]
    values = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()}
    assert values["MemFree"] < values["MemAvailable"] < values["MemTotal"]
