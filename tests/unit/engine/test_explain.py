"""`devkit build --explain`: every word of the command has a reason."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from devkit.config import BUILD_TYPES
from devkit.engine import BuildTools, load_profiles, ndk_toolchain, plan_build
from devkit.engine.explain import explain
from devkit.errors import ToolMissing
from devkit.ndk import Ndk

SOURCE = Path("/home/dev/My MNN 引擎")


@pytest.mark.parametrize("kind", BUILD_TYPES)
@pytest.mark.parametrize("name", list(load_profiles("mnn")))
def test_no_word_without_a_reason(name: str, kind: str, fake_ndk: Ndk, tools: BuildTools) -> None:
    toolchain = ndk_toolchain(fake_ndk, "arm64-v8a", 24)
    plan = plan_build(SOURCE, load_profiles("mnn")[name], toolchain, kind, tools=tools)
    explained = explain(plan)
    words = [word for argument in explained.arguments for word in argument.words]
    assert (plan.configure[0], *words) == plan.configure
    assert all(argument.why for argument in explained.arguments)
    # None falls back to "the toolchain's": every entry is in a table.
    assert not any("the toolchain's:" in argument.why for argument in explained.arguments)


def test_where_a_reason_comes_from(fake_ndk: Ndk, tools: BuildTools) -> None:
    profile = load_profiles("mnn", {"cpu": {"options": {"MNN_ARM82": False}}})["cpu"]
    extra = {"MNN_OPENCL": "ON", "QNN_SDK_ROOT": "/opt/qairt"}
    plan = plan_build(
        SOURCE, profile, ndk_toolchain(fake_ndk, "arm64-v8a", 24), "debug", tools=tools,
        extra_options=extra, reasons={"QNN_SDK_ROOT": "found there"},
    )  # fmt: skip
    why = {argument.name: argument.why for argument in explain(plan).arguments}
    assert why["MNN_ARM82"] == "devkit.yaml"
    assert why["MNN_OPENCL"] == "given with -D"
    assert why["QNN_SDK_ROOT"] == "found there"
    assert why["MNN_BUILD_LLM"] == profile.why["MNN_BUILD_LLM"]
    # A typo of devkit's own find is nobody's fault.
    assert plan.user_options == {"MNN_ARM82", "MNN_OPENCL"}


def test_the_command_can_be_copied(fake_ndk: Ndk, tools: BuildTools) -> None:
    toolchain = ndk_toolchain(fake_ndk, "arm64-v8a", 24)
    plan = plan_build(SOURCE, load_profiles("mnn")["cpu"], toolchain, "profile", tools=tools)
    text = "\n".join(explain(plan).lines()).split("\n\n")[1]
    words = shlex.split(text.replace("\\\n", ""))  # as a shell reads a line that goes on
    assert tuple(words[3:]) == plan.configure and words[0] == f"ANDROID_NDK={fake_ndk.path}"


def test_what_is_missing_is_said_with_what_brings_it(fake_ndk: Ndk, tools: BuildTools) -> None:
    toolchain = ndk_toolchain(fake_ndk, "arm64-v8a", 24)
    plan = plan_build(SOURCE, load_profiles("mnn")["cpu"], toolchain, "debug", tools=tools)
    error = ToolMissing("no NDK", hints=["devkit ndk install r27d"])
    lines = explain(plan, [error]).lines()
    assert "  missing: no NDK" in lines and "    try: devkit ndk install r27d" in lines
    assert explain(plan, [error]).as_dict()["missing"] == [error.as_dict()]
