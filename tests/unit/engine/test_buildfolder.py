"""What makes a build folder usable again (case B1)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from devkit.engine import BuildPlan, BuildTools, Profile, Toolchain, ndk_toolchain, plan_build
from devkit.engine.buildfolder import (
    STATE_FILE,
    check_ours,
    empty_folder,
    fixed_differences,
    is_configured,
    read_cache_file,
    read_state,
    write_state,
)
from devkit.errors import BuildError
from devkit.ndk import Ndk

B1 = Path(__file__).parents[2] / "data" / "cases" / "B1"
HOST = Toolchain("host", "x86_64", "x86_64", None, {}, description="c++ 12", fingerprint="f1")


def plan_in(tmp_path: Path, tools: BuildTools, toolchain: Toolchain = HOST, **extra: str) -> BuildPlan:
    return plan_build(tmp_path / "源 码", Profile("x"), toolchain, "debug", extra_options=extra, tools=tools)


def configure(plan: BuildPlan) -> None:
    plan.build_dir.mkdir(parents=True, exist_ok=True)
    write_state(plan, configured=True)
    (plan.build_dir / "build.ninja").touch()
    (plan.build_dir / "CMakeCache.txt").write_text(
        f"CMAKE_HOME_DIRECTORY:INTERNAL={plan.source}\nCMAKE_CACHEFILE_DIR:INTERNAL={plan.build_dir}\n"
        "CMAKE_GENERATOR:INTERNAL=Ninja\n"
    )


def test_the_same_plan_needs_nothing(tmp_path: Path, tools: BuildTools) -> None:
    plan = plan_in(tmp_path, tools)
    assert not is_configured(plan) and fixed_differences(plan) == ()
    configure(plan)
    assert is_configured(plan) and fixed_differences(plan) == ()


def test_another_option_configures_in_place(tmp_path: Path, tools: BuildTools) -> None:
    configure(plan_in(tmp_path, tools, A="1"))
    changed = plan_in(tmp_path, tools, A="2")
    assert not is_configured(changed) and fixed_differences(changed) == ()
    state = read_state(changed.build_dir)
    assert state is not None and dict(state.options) == {"A": "1"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"description": "zig 0.17"}, "toolchain: c++ 12 → zig 0.17"),
        ({"fingerprint": "f2"}, "toolchain's files: f1 → f2"),
        ({"abi": "arm64-v8a"}, "ABI: x86_64 → arm64-v8a"),
        ({"api_level": 24}, "API level: none → 24"),
        ({"cmake_args": {"CMAKE_SYSTEM_NAME": "Generic"}}, "CMAKE_SYSTEM_NAME: none → Generic"),
    ],
)
def test_what_cmake_cannot_change_is_said(
    tmp_path: Path, tools: BuildTools, change: dict[str, object], said: str
) -> None:
    configure(plan_in(tmp_path, tools))
    changed = plan_in(tmp_path, tools, dataclasses.replace(HOST, **change))  # type: ignore[arg-type]
    assert fixed_differences(changed) == (said,)


def test_another_generator(tmp_path: Path, tools: BuildTools) -> None:
    configure(plan_in(tmp_path, tools))
    make = plan_in(tmp_path, dataclasses.replace(tools, generator="Unix Makefiles"))
    assert fixed_differences(make) == ("generator: Ninja → Unix Makefiles",)


def test_a_moved_folder(tmp_path: Path, tools: BuildTools) -> None:
    configure(plan_in(tmp_path, tools))
    (tmp_path / "源 码").rename(tmp_path / "moved")
    moved = plan_build(tmp_path / "moved", Profile("x"), HOST, "debug", tools=tools)
    assert [d.partition(":")[0] for d in fixed_differences(moved)] == ["source folder", "build folder"]


def test_b1_every_difference_is_seen_before_cmake_runs(tmp_path: Path, tools: BuildTools) -> None:
    """A folder that another NDK and another checkout configured, with nothing but CMake's cache."""
    toolchain = Toolchain(
        "ndk", "arm64-v8a", "arm64-v8a", 30,
        {
            "CMAKE_TOOLCHAIN_FILE": "/opt/sdk/ndk/27.1.12297006/build/cmake/android.toolchain.cmake",
            "ANDROID_ABI": "armeabi-v7a",
            "ANDROID_PLATFORM": "android-30",
        },
    )  # fmt: skip
    plan = plan_in(tmp_path, dataclasses.replace(tools, generator="Unix Makefiles"), toolchain)
    plan.build_dir.mkdir(parents=True)
    (plan.build_dir / "CMakeCache.txt").write_bytes((B1 / "CMakeCache.txt").read_bytes())
    assert [d.partition(":")[0] for d in fixed_differences(plan)] == [
        "source folder",
        "build folder",
        "generator",
        "CMAKE_TOOLCHAIN_FILE",
        "ANDROID_ABI",
        "ANDROID_PLATFORM",
    ]


def test_b1_an_ndk_of_the_same_path_but_another_version(
    tmp_path: Path, tools: BuildTools, make_ndk: Callable[[str], Ndk]
) -> None:
    def plan(revision: str) -> BuildPlan:
        return plan_in(tmp_path, tools, ndk_toolchain(make_ndk(revision), "arm64-v8a", 24))

    before = plan("26.3.11579264")
    before.build_dir.mkdir(parents=True)
    write_state(before, configured=True)
    found = fixed_differences(plan("28.1.13356709"))
    assert len(found) == 1 and "26.3.11579264" in found[0] and "28.1.13356709" in found[0]


def test_an_interrupted_configure_does_not_count(tmp_path: Path, tools: BuildTools) -> None:
    plan = plan_in(tmp_path, tools)
    configure(plan)
    write_state(plan, configured=False)
    assert not is_configured(plan)


def test_a_broken_record_is_ours_but_not_configured(tmp_path: Path, tools: BuildTools) -> None:
    plan = plan_in(tmp_path, tools)
    configure(plan)
    for content in ("{", "[]", json.dumps({"fixed": {}})):
        (plan.build_dir / STATE_FILE).write_text(content)
        assert not is_configured(plan)
        check_ours(plan.build_dir)


def test_only_folders_of_devkit_are_emptied(tmp_path: Path, tools: BuildTools) -> None:
    plan = plan_in(tmp_path, tools)
    plan.build_dir.mkdir(parents=True)
    check_ours(plan.build_dir)  # empty: nobody's
    (plan.build_dir / "precious.txt").touch()
    with pytest.raises(BuildError, match="is in the way"):
        empty_folder(plan.build_dir)
    assert (plan.build_dir / "precious.txt").exists()
    write_state(plan, configured=False)
    empty_folder(plan.build_dir)
    assert not plan.build_dir.exists()
    empty_folder(plan.build_dir)


def test_reading_a_cache_file() -> None:
    cache = read_cache_file(B1)
    assert cache["ANDROID_ABI"] == "arm64-v8a"
    assert cache["CMAKE_BUILD_TYPE"] == "Release"
    assert read_cache_file(B1 / "nowhere") == {}
