"""Breakpoint sets: devkit's own, the user's, and what a program has of them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from devkit import config
from devkit.errors import ConfigError, DebugError, UsageError
from devkit.lldb.presets import Preset, PresetPoint, all_presets, builtin_presets, choose, find_presets
from devkit.lldb.recipes import parse_breakpoint

SOURCE = """
namespace MNN { namespace Transformer {
struct Llm { bool load(); void initRuntime(); void setRuntimeHints(); };
bool Llm::load() { initRuntime(); return true; }
void Llm::initRuntime() {}
void Llm::setRuntimeHints() {}
} namespace plugin { struct RawExecutorWrapper { void invokeModel(int); };
void RawExecutorWrapper::invokeModel(int) {} } }
"""


@pytest.fixture
def library(tmp_path: Path) -> Path:
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler
    (tmp_path / "a.cpp").write_text(SOURCE)
    subprocess.run([compiler, "-fPIC", "-shared", "-o", "liba.so", "a.cpp"], cwd=tmp_path, check=True)
    return tmp_path / "liba.so"


def settings(tmp_path: Path, text: str) -> config.Config:
    (tmp_path / "devkit.yaml").write_text(text)
    return config.load(tmp_path, environ={})


def test_builtin_sets_are_complete() -> None:
    assert set(builtin_presets()) == {"llm-load", "prefill-decode", "qnn-plugin", "eagle", "backend-select"}
    for preset in builtin_presets().values():
        places = [place for point in preset.points for place in (point.place, *point.others)]
        assert len(set(places)) == len(places) >= 7
        assert all(parse_breakpoint(place)[1] is None for place in places)
        assert preset.about and preset.hint and all(len(point.why) > 20 for point in preset.points)


def test_present_ones_are_taken_missing_ones_told_with_the_nearest(library: Path) -> None:
    chosen = choose([builtin_presets()["llm-load"]], [library])
    assert [point.place for point in chosen.points] == ["Llm::load", "Llm::initRuntime"]
    missing = {entry.place: entry.nearest for entry in chosen.missing}
    assert missing["Llm::setRuntimeHint"] == "MNN::Transformer::Llm::setRuntimeHints"
    assert missing["Module::load"] is None
    assert len(chosen.points) + len(missing) == len(builtin_presets()["llm-load"].points)


def test_a_function_may_have_another_name_in_another_release(library: Path) -> None:
    chosen = choose([builtin_presets()["qnn-plugin"]], [library])
    [point] = chosen.points
    assert point.place == "RawExecutorWrapper::invokeModel" and "QNN" in point.why


def test_two_sets_share_a_breakpoint(library: Path) -> None:
    sets = [Preset(name, "", (PresetPoint("Llm::load", name),)) for name in ("a", "b")]
    assert choose(sets, [library]).points == (PresetPoint("Llm::load", "a"),)


def test_lines_and_signatures_are_left_to_lldb(library: Path) -> None:
    points = (PresetPoint("a.cpp:5"), PresetPoint("Llm::load()"), PresetPoint("Llm::nothing"))
    chosen = choose([Preset("own", "", points)], [library])
    assert chosen.points == points[:2]
    assert [entry.place for entry in chosen.missing] == ["Llm::nothing"]


def test_nothing_of_a_set_is_an_error_with_evidence(library: Path) -> None:
    with pytest.raises(DebugError) as caught:
        choose([builtin_presets()["eagle"]], [library])
    assert "eagle" in caught.value.what and "liba.so" in (caught.value.evidence or "")
    assert "speculative_type" in caught.value.hints[0]


def test_what_a_stripped_file_may_hide_stays_pending(library: Path) -> None:
    subprocess.run(["strip", library], check=True)
    chosen = choose([builtin_presets()["eagle"]], [library])
    assert len(chosen.points) == len(builtin_presets()["eagle"].points)
    assert chosen.stripped == (library,) and not chosen.missing


def test_the_users_own_sets(tmp_path: Path) -> None:
    text = """
presets:
  mine:
    about: my kernel
    breakpoints:
      - MNN::CPUMatMul::onExecute
      - CPUMatMul.cpp:42: after the pack
  eagle:
    breakpoints: [my_eagle]
"""
    known = all_presets(settings(tmp_path, text))
    assert list(known)[:2] == ["mine", "eagle"] and len(known) == 6
    assert known["mine"].points == (
        PresetPoint("MNN::CPUMatMul::onExecute"),
        PresetPoint("CPUMatMul.cpp:42", "after the pack"),
    )
    assert known["mine"].origin.endswith("devkit.yaml:5")
    assert known["mine"].as_dict()["breakpoints"][1] == {"place": "CPUMatMul.cpp:42", "why": "after the pack"}
    assert [point.place for point in known["eagle"].points] == ["my_eagle"]


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{about: nothing}", "devkit.yaml:1: presets.mine has no breakpoints"),
        ("{breakpoints: ['12']}", "12 is neither FILE:LINE nor a function"),
        ("{breakpoints: ['a.cpp:0']}", "counted from 1"),
        ("{breakpoints: [{a: b, c: d}]}", "one place"),
        ("{breakpoints: [[a]]}", "a list of places"),
        ("{breakpoint: [a]}", "unknown key"),
    ],
)
def test_a_wrong_entry_names_its_line(tmp_path: Path, entry: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        all_presets(settings(tmp_path, f"presets: {{mine: {entry}}}\n"))
    assert said in caught.value.what and "devkit.yaml:1" in caught.value.what


def test_an_unknown_name_is_told_with_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        find_presets(settings(tmp_path, ""), ["llm-laod"])
    assert "--preset llm-load" in caught.value.hints[0]
    assert [p.name for p in find_presets(settings(tmp_path, ""), ["eagle"])] == ["eagle"]
