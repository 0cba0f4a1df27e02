"""Case J3: texts of simpleperf report and report-sample, whatever their columns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit.errors import DevkitError, FileError
from devkit.profiling import Profile
from devkit.profiling.loading import read_any
from devkit.profiling.report_text import read_report

CASE = Path(__file__).parents[2] / "data/cases/J3"
EXPECTED = json.loads((CASE / "expected.json").read_text())


def leaf(profile: Profile, sample: int) -> tuple[str, str, int]:
    frame = profile.frames[profile.stack_frame[profile.sample_stack[sample]]]
    return frame.function, profile.modules[frame.module].name, frame.address


def test_csv() -> None:
    profile = read_report(CASE / "report.csv")
    wanted = EXPECTED["report.csv"]
    assert profile.events[0] == (wanted["event"], "cycles", False)
    assert len(profile) == wanted["rows"]
    assert leaf(profile, 0)[0] == "MNN::gemm<float, 4>(float*, float const*, unsigned long)"
    unknown = wanted["unknown_symbol"]
    assert leaf(profile, 1) == ("", unknown["dso"], int(unknown["vaddr"], 16))
    assert profile.threads[profile.sample_thread[2]].name == wanted["command_with_blank"]
    assert leaf(profile, 2)[2] == 0xFFFFFFC010123456
    assert profile.sample_weight[0] == round(0.4120 * 9876543210)
    assert profile.meta.arch == "arm64"


def test_children_count_only_what_they_did_themselves() -> None:
    profile = read_report(CASE / "report_children.csv")
    assert [leaf(profile, n)[0] for n in range(len(profile))] == ["run"]
    assert profile.total() == 750
    assert profile.events[0].unit == "ns"
    assert EXPECTED["report_children.csv"]["self_sum"] == 100 * profile.total() / 1000


def test_fixed_columns_and_two_events() -> None:
    profile = read_report(CASE / "report.txt")
    assert len(profile.events) == EXPECTED["report.txt"]["events"]
    assert [leaf(profile, n)[0] for n in range(len(profile))] == [
        "MNN::gemm<float, 4>(float*, float const*, unsigned long)", "", "main",
    ]  # fmt: skip
    assert [thread.tid for thread in profile.threads] == [12361]
    assert profile.sample_weight[2] == 30


def test_samples_one_by_one() -> None:
    profile = read_report(CASE / "report_sample.txt")
    wanted = EXPECTED["report_sample.txt"]
    assert len(profile) == wanted["samples"]
    frames = profile.frames_of(profile.sample_stack[0])
    assert len(frames) - 1 == wanted["callchain_depth"]
    assert [(profile.frames[f].function, profile.frames[f].address) for f in frames] == [
        ("kit::decode(kit::Step*)", 0x514), ("", 0xA1B2C),
    ]  # fmt: skip
    assert profile.threads[0] == (12345, 12361, "llm_demo")
    assert (profile.sample_time_ns[0], profile.sample_weight[0]) == (1100000000, 250000)


def test_nothing_in_it_is_said() -> None:
    with pytest.raises(FileError, match="holds no samples") as caught:
        read_report(CASE / "empty.csv")
    assert caught.value.exit_code != 0
    assert "Samples: 0" in (caught.value.evidence or "")


def test_files_by_what_they_begin_with(tmp_path: Path) -> None:
    assert len(read_any(CASE / "report.csv")) == 4
    other = tmp_path / "notes.txt"
    other.write_text("Hello\n")
    with pytest.raises(FileError, match="no recording that devkit knows"):
        read_any(other)
    with pytest.raises(FileError, match="cannot be read"):
        read_any(tmp_path / "nothing")


@given(
    name=st.sampled_from(["report.csv", "report.txt", "report_children.csv", "report_sample.txt"]),
    cut=st.integers(0, 900),
    junk=st.text(max_size=40),
)
@settings(max_examples=120, deadline=None)
def test_cut_and_garbled_texts(
    tmp_path_factory: pytest.TempPathFactory, name: str, cut: int, junk: str
) -> None:
    text = (CASE / name).read_text()
    path = tmp_path_factory.mktemp("text") / name
    path.write_bytes((text[:cut] + junk + text[cut + 5 :]).encode("utf-8", "replace"))
    try:
        profile = read_report(path)
    except DevkitError as error:
        assert error.hints
    else:
        assert len(profile) > 0
