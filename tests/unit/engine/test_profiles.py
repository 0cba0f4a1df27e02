"""Profiles: built-in data, the user's on top, and every way to get them wrong."""

from __future__ import annotations

from typing import Any

import pytest

from devkit.engine import get_profile, load_profiles
from devkit.errors import ConfigError, UsageError


def test_the_built_in_profiles_of_mnn() -> None:
    profiles = load_profiles("mnn")
    assert set(profiles) == {
        "cpu", "opencl", "vulkan", "nnapi", "qnn", "qnn-online", "qnn-profile", "qnn-tools",
        "hexagon", "host", "asan", "host-asan", "bench",
    }  # fmt: skip
    cpu, opencl, host = profiles["cpu"], profiles["opencl"], profiles["host"]
    assert cpu.target == "device" and cpu.needs == ("ndk>=21",)
    assert cpu.options["MNN_BUILD_LLM"] == "ON"
    # YAML reads ON and OFF as booleans; CMake must get the words.
    assert cpu.options["MNN_USE_LOGCAT"] == "OFF"
    assert opencl.options == {**cpu.options, "MNN_OPENCL": "ON"}
    assert opencl.target == "device" and opencl.needs == cpu.needs
    assert opencl.products == {**cpu.products, "MNN_CL": opencl.products["MNN_CL"]}
    assert host.target == "host" and host.needs == ()
    assert host.user_options == frozenset()


def test_the_npu_profiles_are_those_of_mnns_documentation() -> None:
    """docs/inference/npu.md and docs/transformers/llm.md of August 2026."""
    profiles = load_profiles("mnn")
    switches = ("MNN_QNN", "MNN_QNN_CONVERT_MODE", "MNN_WITH_PLUGIN")
    assert {
        name: tuple(profiles[name].options[switch] for switch in switches)
        for name in ("qnn", "qnn-online", "qnn-tools")
    } == {
        "qnn": ("ON", "OFF", "ON"),
        "qnn-online": ("ON", "OFF", "OFF"),
        "qnn-tools": ("ON", "ON", "OFF"),
    }
    assert profiles["qnn-tools"].target == "host" and profiles["qnn-tools"].needs == ("qnn>=2.38",)


@pytest.mark.parametrize("engine", ["mnn", "cmake"])
def test_every_built_in_profile_says_what_and_why(engine: str) -> None:
    for profile in load_profiles(engine).values():
        assert profile.about
        assert set(profile.why) == set(profile.options), profile.name
        assert profile.products or engine == "cmake"


def test_a_generic_engine_has_the_default_names() -> None:
    profiles = load_profiles("cmake")
    checked = dict.fromkeys(
        ("CMAKE_C_FLAGS", "CMAKE_CXX_FLAGS"), "-fsanitize=address -fno-omit-frame-pointer"
    )
    assert {name: (p.target, dict(p.options)) for name, p in profiles.items()} == {
        "device": ("device", {}),
        "cpu": ("device", {}),
        "host": ("host", {}),
        "asan": ("device", checked),
        "host-asan": ("host", checked),
    }


def test_a_user_changes_a_built_in_profile_only_where_he_says_so() -> None:
    user = {
        "cpu": {
            "options": {"MNN_OPENCL": "ON", "MNN_KLEIDIAI": None, "MNN_USE_LOGCAT": True},
            "type": "release",
        }
    }
    cpu, before = load_profiles("mnn", user)["cpu"], load_profiles("mnn")["cpu"]
    assert cpu.options["MNN_OPENCL"] == "ON"
    assert cpu.options["MNN_USE_LOGCAT"] == "ON"
    assert "MNN_KLEIDIAI" not in cpu.options and "MNN_KLEIDIAI" not in cpu.why
    assert cpu.options["MNN_BUILD_LLM"] == "ON"
    assert (cpu.about, cpu.target, cpu.type) == (before.about, "device", "release")
    assert cpu.origin == "built-in + devkit.yaml"
    assert cpu.user_options == {"MNN_OPENCL", "MNN_KLEIDIAI", "MNN_USE_LOGCAT"}
    # The others are as they were: `opencl` extends the built-in cpu, not the user's.
    assert load_profiles("mnn", user)["opencl"] == load_profiles("mnn")["opencl"]


def test_extends_works_in_any_order_and_over_several_steps() -> None:
    user: dict[str, dict[str, Any]] = {
        "c": {"extends": "b", "targets": ["llm_demo"]},
        "b": {"extends": "opencl", "options": {"X": 1}},
        "lab": {"extends": "cpu", "target": "host"},
    }
    profiles = load_profiles("mnn", user)
    assert profiles["c"].options == {**load_profiles("mnn")["opencl"].options, "X": "1"}
    assert profiles["c"].targets == ("llm_demo",)
    assert profiles["c"].origin == "built-in + devkit.yaml"
    assert profiles["lab"].target == "host" and profiles["lab"].needs == ()


def test_needs_and_products_of_a_users_profile() -> None:
    user: dict[str, dict[str, Any]] = {
        "old": {"extends": "qnn", "needs": ["ndk", "qnn >= 2.20"], "products": ["extra"]},
        "here": {"extends": "qnn", "target": "host"},
    }
    profiles = load_profiles("mnn", user)
    assert profiles["old"].needs == ("ndk", "qnn>=2.20")
    assert profiles["old"].products == {**load_profiles("mnn")["qnn"].products, "extra": ""}
    # This machine needs no NDK, but the SDK's headers all the same.
    assert profiles["here"].needs == ("qnn>=2.30",)


def test_a_new_profile_starts_empty() -> None:
    mine = load_profiles("mnn", {"mine": {"options": {"A": "1;2"}}})["mine"]
    assert (dict(mine.options), mine.target, mine.origin) == ({"A": "1;2"}, "device", "devkit.yaml")


@pytest.mark.parametrize(
    ("user", "message", "hint"),
    [
        ({"a": {"extends": "cpuu"}}, "profiles.a.extends: there is no profile 'cpuu'", "did you mean cpu?"),
        ({"a": {"extends": "b"}, "b": {"extends": "a"}}, "a → b → a", ""),
        ({"a": {"optoins": {}}}, "profiles.a: unknown key 'optoins'", "did you mean options?"),
        ({"a": {"target": "phone"}}, "profiles.a.target is 'phone'", "target: device"),
        ({"a": {"type": "relase"}}, "profiles.a.type is 'relase'", "did you mean release?"),
        ({"a": {"needs": ["qn>=2"]}}, "'qn>=2' is nothing that devkit knows", "did you mean qnn?"),
        ({"a": {"needs": ["ndk=27"]}}, "'ndk=27' is nothing that devkit knows", "ndk>=25"),
    ],
)
def test_wrong_profiles(user: dict[str, dict[str, Any]], message: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_profiles("mnn", user)
    assert message in caught.value.what
    assert hint in " ".join(caught.value.hints)


def test_an_unknown_profile_names_the_nearest_and_all() -> None:
    with pytest.raises(UsageError) as caught:
        get_profile(load_profiles("mnn"), "opncl")
    assert caught.value.evidence == "profiles: " + ", ".join(load_profiles("mnn"))
    assert caught.value.hints[0] == "did you mean opencl?"


def test_an_unknown_engine() -> None:
    with pytest.raises(ConfigError, match="no profiles for the engine"):
        load_profiles("mnnn")


def test_a_profile_can_be_printed_as_json() -> None:
    import json

    text = json.dumps(load_profiles("mnn", {"cpu": {"options": {"A": 1}}})["cpu"].as_dict())
    assert json.loads(text)["user_options"] == ["A"]
