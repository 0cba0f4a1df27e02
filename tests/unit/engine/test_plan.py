"""Command lines and fingerprints, compared exactly."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from devkit.engine import BuildTools, Profile, Toolchain, load_profiles, ndk_toolchain, plan_build
from devkit.errors import UsageError
from devkit.ndk import Ndk

SOURCE = Path("/home/dev/My MNN 引擎")
HOST = Toolchain(
    "host",
    "x86_64",
    "x86_64-sim",
    None,
    {"CMAKE_C_COMPILER": "/usr/bin/cc", "CMAKE_CXX_COMPILER": "/usr/bin/c++"},
    description="c++ 12 (/usr/bin/c++)",
    fingerprint="f1",
)


def test_the_configure_line_for_an_ndk(fake_ndk: Ndk, tools: BuildTools) -> None:
    profile = Profile("cpu", options={"MNN_BUILD_LLM": "ON", "MNN_USE_LOGCAT": "OFF"})
    plan = plan_build(SOURCE, profile, ndk_toolchain(fake_ndk, "arm64-v8a", 24), "debug", tools=tools)
    assert plan.configure == (
        "/opt/cmake/bin/cmake",
        "-S",
        "/home/dev/My MNN 引擎",
        "-B",
        "/home/dev/My MNN 引擎/build/devkit/cpu-arm64-v8a-debug",
        "-G",
        "Ninja",
        "-DCMAKE_MAKE_PROGRAM=/opt/ninja",
        "-DCMAKE_BUILD_TYPE=Debug",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        f"-DCMAKE_TOOLCHAIN_FILE={fake_ndk.path}/build/cmake/android.toolchain.cmake",
        "-DANDROID_ABI=arm64-v8a",
        "-DANDROID_PLATFORM=android-24",
        "-DANDROID_STL=c++_shared",
        "-DMNN_BUILD_LLM=ON",
        "-DMNN_USE_LOGCAT=OFF",
    )
    assert plan.build_argv() == ("/opt/cmake/bin/cmake", "--build", str(plan.build_dir))
    assert plan.toolchain.env["ANDROID_NDK"] == str(fake_ndk.path)


def test_the_configure_line_for_the_virtual_phone(tools: BuildTools) -> None:
    tools = dataclasses.replace(tools, launcher=Path("/usr/bin/ccache"))
    plan = plan_build(SOURCE, Profile("cpu"), HOST, "release", tools=tools)
    # Never the folder of an NDK build for x86_64.
    assert plan.build_dir.name == "cpu-x86_64-sim-release"
    assert plan.configure[7:] == (
        "-DCMAKE_MAKE_PROGRAM=/opt/ninja",
        "-DCMAKE_BUILD_TYPE=Release",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
        "-DCMAKE_C_COMPILER=/usr/bin/cc",
        "-DCMAKE_CXX_COMPILER=/usr/bin/c++",
        "-DCMAKE_C_COMPILER_LAUNCHER=/usr/bin/ccache",
        "-DCMAKE_CXX_COMPILER_LAUNCHER=/usr/bin/ccache",
    )


def test_r27_is_told_to_align_for_16_kib_pages(make_ndk: Callable[[str], Ndk]) -> None:
    for revision, expected in (("26.3.1", None), ("27.2.1", "ON"), ("28.0.1", None)):
        toolchain = ndk_toolchain(make_ndk(revision), "arm64-v8a", 24)
        assert toolchain.cmake_args.get("ANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES") == expected, revision


def test_the_command_line_wins_over_profile_and_toolchain(fake_ndk: Ndk, tools: BuildTools) -> None:
    toolchain = ndk_toolchain(fake_ndk, "arm64-v8a", 24)
    extra = {"ANDROID_STL": "c++_static", "MNN_OPENCL": "OFF", "FLAGS": "-O2 -DX='a b'"}
    plan = plan_build(
        SOURCE,
        Profile("x", options={"MNN_OPENCL": "ON"}),
        toolchain,
        "debug",
        extra_options=extra,
        tools=tools,
    )
    assert [a for a in plan.configure if "ANDROID_STL" in a] == ["-DANDROID_STL=c++_static"]
    assert [a for a in plan.configure if "MNN_OPENCL" in a] == ["-DMNN_OPENCL=OFF"]
    assert "-DFLAGS=-O2 -DX='a b'" in plan.configure
    assert plan.user_options == {"ANDROID_STL", "MNN_OPENCL", "FLAGS"}
    assert plan.fixed["ANDROID_STL"] == "c++_static"


def test_targets_and_jobs(tools: BuildTools) -> None:
    plan = plan_build(SOURCE, Profile("x", targets=("llm_demo",)), HOST, "debug", tools=tools)
    base = ("/opt/cmake/bin/cmake", "--build", str(plan.build_dir))
    assert plan.build_argv() == (*base, "--target", "llm_demo")
    assert plan.build_argv(3, ["a", "b"]) == (*base, "--parallel", "3", "--target", "a", "b")
    make = plan_build(
        SOURCE, Profile("x"), HOST, "debug", tools=dataclasses.replace(tools, generator="Unix Makefiles")
    )
    assert make.build_argv() == (*base, "--parallel")


def test_printed_commands_survive_a_shell(fake_ndk: Ndk, tools: BuildTools) -> None:
    plan = plan_build(SOURCE, Profile("x"), ndk_toolchain(fake_ndk, "arm64-v8a", 24), "debug", tools=tools)
    words = shlex.split(plan.command_lines()[0])
    assert words[0] == f"ANDROID_NDK={fake_ndk.path}"
    assert tuple(words[3:]) == plan.configure


def test_what_changes_a_fingerprint(tools: BuildTools) -> None:
    def plan(
        profile: Profile | None = None, toolchain: Toolchain = HOST, kind: str = "debug", **extra: str
    ) -> str:
        return plan_build(
            SOURCE, profile or Profile("x"), toolchain, kind, extra_options=extra, tools=tools
        ).fingerprint

    same = plan()
    assert plan() == same
    others = {
        plan(kind="release"),
        plan(A="1"),
        plan(A="2"),
        plan(Profile("y")),
        plan(Profile("x", options={"B": "ON"})),
        plan(toolchain=dataclasses.replace(HOST, fingerprint="f2")),
    }
    assert len(others) == 6 and same not in others


def test_targets_do_not_configure_again(tools: BuildTools) -> None:
    one = plan_build(SOURCE, Profile("x"), HOST, "debug", targets=["a"], tools=tools)
    two = plan_build(SOURCE, Profile("x"), HOST, "debug", tools=tools)
    assert one.fingerprint == two.fingerprint


def test_wrong_requests(tools: BuildTools) -> None:
    with pytest.raises(UsageError, match="no build type 'fast'"):
        plan_build(SOURCE, Profile("x"), HOST, "fast", tools=tools)
    with pytest.raises(UsageError, match="no name of a CMake option"):
        plan_build(SOURCE, Profile("x"), HOST, "debug", extra_options={"-U*": "x"}, tools=tools)


def test_a_plan_is_data(fake_ndk: Ndk, tools: BuildTools) -> None:
    import json

    profile = load_profiles("mnn")["cpu"]
    plan = plan_build(SOURCE, profile, ndk_toolchain(fake_ndk, "arm64-v8a", 24), "debug", tools=tools)
    data = json.loads(json.dumps(plan.as_dict()))
    assert (data["abi"], data["api_level"], data["type"]) == ("arm64-v8a", 24, "debug")
    assert data["configure"] == list(plan.configure)
