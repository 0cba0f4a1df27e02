"""C++ names of a recording: by a tool where there is one, else scope and name."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.profiling import Meta, ProfileBuilder
from devkit.profiling.symbolizing import demangled
from devkit.symbols.demangling import demangle

NAMES = ["_ZN3MNN6Tensor4gemmEi", "main", "_Znonsense", "_ZN3MNN6Tensor4gemmEi"]


def test_names_are_as_in_the_source() -> None:
    assert demangle(NAMES) == {"_ZN3MNN6Tensor4gemmEi": "MNN::Tensor::gemm(int)"}


def test_a_tool_of_the_ndk_comes_first_and_one_that_fails_is_passed(tmp_path: Path) -> None:
    tool = tmp_path / "llvm-cxxfilt"
    tool.write_text("#!/bin/sh\nsed s/^/own/\n")
    tool.chmod(0o755)
    assert demangle(["_ZN1A1bEv"], beside=tmp_path / "llvm-symbolizer") == {"_ZN1A1bEv": "own_ZN1A1bEv"}
    tool.write_text("#!/bin/sh\nexit 1\n")
    assert demangle(["_ZN1A1bEv"], beside=tmp_path / "llvm-symbolizer") == {"_ZN1A1bEv": "A::b()"}


def test_without_a_tool_parameters_are_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert demangle(NAMES) == {"_ZN3MNN6Tensor4gemmEi": "MNN::Tensor::gemm"}


def test_symbols_that_the_recorder_wrote_down(tmp_path: Path) -> None:
    builder = ProfileBuilder()
    builder.event("cpu-clock", "ns")
    frames = [builder.frame("main"), builder.frame("_ZN7android6Looper8pollOnceEi", address=5)]
    builder.sample(builder.stack(frames), builder.thread(1, 1), 10)
    profile = demangled(builder.finish(Meta()))
    names = [profile.frames[index].function for index in profile.frames_of(profile.sample_stack[0])]
    assert names == ["main", "android::Looper::pollOnce(int)"]
