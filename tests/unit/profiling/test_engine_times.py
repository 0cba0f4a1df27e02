"""What engines and phones say beside the samples: phases, operators, processors, time lines."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from devkit import results
from devkit.errors import FileError, ToolFailed, UsageError
from devkit.profiling import Meta, Profile, ProfileBuilder, load_profile, save_profile
from devkit.profiling.engine_times import (
    engine_from_dict,
    engine_times_of,
    read_engine_file,
    with_engine_times,
    with_report,
)
from devkit.profiling.flamegraph import render_page
from devkit.profiling.processors import busy_processors
from devkit.profiling.sampler import parse_samples
from devkit.profiling.sections import engine_text, sections_of, timeline

DATA = Path(__file__).parents[2] / "data"
RESULTS = DATA / "results"
QNN_CSV = DATA / "profiling" / "qnn_profile.csv"

BLOCKS = """\
hz 100
@ 100.00
42 (llm demo) x) S 1 42 42 0 -1 4194304 1 0 0 0 100 20 0 0 20 0 9 0 1 1 1
VmHWM:\t  300000 kB
VmRSS:\t  200000 kB
Pss:\t  190000 kB
/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq:1800000
/sys/devices/system/cpu/cpufreq/policy7/scaling_cur_freq:3200000
/sys/class/thermal/thermal_zone0/type:cpu-1-2-usr
/sys/class/thermal/thermal_zone1/type:battery
/sys/class/thermal/thermal_zone0/temp:45500
/sys/class/thermal/thermal_zone1/temp:30000
/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage:40 %
/sys/class/kgsl/kgsl-3d0/gpuclk:585000000
@ 100.50
42 (llm demo) x) S 1 42 42 0 -1 4194304 1 0 0 0 200 20 0 0 20 0 9 0 1 1 1
VmRSS:\t  250000 kB
/sys/class/kgsl/kgsl-3d0/gpu_busy_percentage:60 %
"""


def recorded() -> Profile:
    builder = ProfileBuilder()
    builder.event("cpu-cycles", "cycles")
    thread, stack = builder.thread(1, 1), builder.stack([builder.frame("main")])
    for number in range(11):
        builder.sample(stack, thread, 5, 100_000_000_000 + number * 50_000_000)
    builder.span("phase", "prefill <b>", 100_100_000_000, 100_300_000_000)
    return replace(builder.finish(Meta("phone", ("llm_demo",))), series=parse_samples(BLOCKS.splitlines()))


def test_llm_demo_has_phases_and_speeds() -> None:
    found = read_engine_file(RESULTS / "llm_demo_ok.txt")
    # Printed are 0.00 and 0.01 s: 19 tokens at 6661.99 a second, 16 at 2891.74.
    assert found.phases == {
        "load": 15.433, "tuning": 8.792, "prefill": pytest.approx(2.852, abs=0.001),
        "decode": pytest.approx(5.533, abs=0.001),
    }  # fmt: skip
    assert ("decode_speed", 2891.74, "tok/s") in found.speeds
    assert not found.operators


def test_mnn_has_operators_and_their_kinds() -> None:
    found = read_engine_file(RESULTS / "MNNV2Basic.txt")
    first = found.operators[0]
    assert (first.name, first.kind, first.value, first.runs) == ("c", "Convolution", 0.0504, 5)
    assert [operator.value for operator in found.operators] == sorted(
        (operator.value for operator in found.operators), reverse=True
    )
    assert found.operator_sum == pytest.approx(0.0594)
    kind, value, count = found.kinds[0]
    assert (kind, value, count) == ("Convolution", pytest.approx(0.0516), 2)


def test_qnn_csv_has_mean_cycles_of_nodes_and_the_time_on_the_npu() -> None:
    found = read_engine_file(QNN_CSV)
    assert [(o.name, o.value, o.runs) for o in found.operators] == [
        ("MatMul_0", 7000.0, 2), ("Softmax, last", 2000.0, 2), ("Input OpId_2", 1000.0, 2),
    ]  # fmt: skip
    assert found.unit == "cycles"
    assert found.npu_ms == pytest.approx(5.2)
    assert found.phases["execute"] == pytest.approx(3.2) and found.phases["finalize"] == pytest.approx(
        250.125
    )


def test_lines_before_the_csv_do_not_matter(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("Input Log File Location: x\n\n" + QNN_CSV.read_text())
    assert len(read_engine_file(tmp_path / "p.csv").operators) == 3


def test_qnn_viewers_text_has_stages_and_the_time_on_the_npu() -> None:
    found = read_engine_file(RESULTS / "qnn_profile.txt")
    assert found.phases["init"] == pytest.approx(301.25) and found.phases["execute"] == pytest.approx(2.75)
    assert found.npu_ms == pytest.approx(2.5)


def test_files_without_times_are_refused(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("hello\n")
    with pytest.raises(UsageError, match="says nothing about times"):
        read_engine_file(tmp_path / "log")
    (tmp_path / "qnn-profiling-data_0.log").write_bytes(bytes(range(256)) * 9)
    with pytest.raises(UsageError) as caught:
        read_engine_file(tmp_path / "qnn-profiling-data_0.log")
    assert any("qnn-profile-viewer --input_log" in hint for hint in caught.value.hints)
    with pytest.raises(FileError, match="cannot be read"):
        read_engine_file(tmp_path / "absent")


def test_recordings_keep_engine_times(tmp_path: Path) -> None:
    times = [read_engine_file(QNN_CSV), read_engine_file(RESULTS / "MNNV2Basic.txt")]
    save_profile(with_engine_times(recorded(), times), tmp_path / "p")
    assert engine_times_of(load_profile(tmp_path / "p")) == times
    assert engine_from_dict(json.loads(json.dumps(times[0].as_dict()))) == times[0]
    damaged = replace(recorded(), meta=Meta(extra={"engine": [{"source": 1}]}))
    with pytest.raises(FileError, match="damaged"):
        engine_times_of(damaged)


def test_a_programs_own_output_goes_into_its_recording() -> None:
    report = results.parse((RESULTS / "MNNV2Basic.txt").read_bytes())
    (found,) = engine_times_of(with_report(recorded(), report, "MNNV2Basic.out"))
    assert found.source == "MNNV2Basic.out" and found.operators[0].name == "c"
    assert with_report(recorded(), results.parse(b"hello\n"), "x") == recorded()


def test_samples_of_a_phone_become_series() -> None:
    series = {(one.kind, one.name): one for one in parse_samples(BLOCKS.splitlines())}
    assert list(series["memory", "VmRSS"].values) == [200000, 250000]
    assert list(series["memory", "VmRSS"].times_ns) == [100_000_000_000, 100_500_000_000]
    assert list(series["memory", "Pss"].values) == [190000]
    assert list(series["frequency", "cpu policy7"].values) == [3200]
    assert list(series["frequency", "GPU"].values) == [585]
    assert list(series["temperature", "cpu-1-2-usr"].values) == [45.5]
    assert ("temperature", "battery") not in series
    # 100 ticks of 1/100 s in half a second: two cores.
    assert list(series["load", "process"].values) == [200]
    assert list(series["load", "GPU"].values) == [40, 60]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.sampled_from([*BLOCKS.splitlines(), "@ x", "@", "hz 0", "1 (a) S", "/sys/a:b", "9 (", ""]))
)
def test_any_order_of_lines_is_read(lines: list[str]) -> None:
    for one in parse_samples(lines):
        assert len(one.times_ns) == len(one.values) > 0


def test_processors_have_their_shares_and_say_how_they_are_known() -> None:
    profile = with_engine_times(recorded(), [read_engine_file(QNN_CSV)])
    busy = {one.processor: one for one in busy_processors(profile, engine_times_of(profile))}
    assert busy["CPU"].share == pytest.approx(2.0) and busy["CPU"].seconds == pytest.approx(1.0)
    assert busy["GPU"].share == pytest.approx(0.6)
    assert busy["NPU"].seconds == pytest.approx(0.0052)
    assert "qnn_profile.csv" in busy["NPU"].source


def test_the_time_line_holds_series_and_phases() -> None:
    panels, marks = timeline(recorded())
    assert {panel.title for panel in panels} == {"memory", "load"}
    memory = next(panel for panel in panels if panel.title == "memory")
    (line,) = memory.lines
    first, last = (tuple(map(float, point.split(","))) for point in line.points.split())
    assert first[0] == 70 and last[0] == pytest.approx(860) and last[1] < first[1]
    assert marks[0].x == pytest.approx(70 + 0.2 * 790) and marks[0].width == pytest.approx(0.4 * 790)


def test_the_page_has_it_below_the_graph() -> None:
    times = [read_engine_file(QNN_CSV), read_engine_file(RESULTS / "MNNV2Basic.txt")]
    page = render_page(with_engine_times(recorded(), times))
    for words in ("MatMul_0", "<td>Convolution</td>", "VmRSS", "the driver&#39;s load", "prefill &lt;b&gt;"):
        assert words in page
    assert page.count("<script") == 2
    assert sections_of(replace(recorded(), series=(), spans=())) == []
    text = engine_text(with_engine_times(recorded(), times))
    assert "70.00 %  7000 cycles" in text and "NPU" in text


def test_the_command_takes_saved_outputs(tmp_path: Path) -> None:
    save_profile(recorded(), tmp_path / "p")
    done = subprocess.run(
        [sys.executable, "-m", "devkit", "profile", "--show", "p", "--engine", QNN_CSV, "--html", "p.html"],
        cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False, env=os.environ.copy(),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "MatMul_0" in done.stdout and "MatMul_0" in (tmp_path / "p.html").read_text()


def test_the_command_reports_on_a_saved_output_alone(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "devkit", "profile", "--engine", QNN_CSV]
    ran = [
        subprocess.run([*words, *more], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        for more in ([], ["--html", "p.html"])
    ]
    assert ran[0].returncode == 0 and "MatMul_0" in ran[0].stdout, ran[0].stderr
    assert "NPU busy: 5.200 ms" in ran[0].stdout
    assert ran[1].returncode == 2 and "--show last" in ran[1].stderr


def test_qnns_own_log_is_read_by_the_sdks_viewer(tmp_path: Path) -> None:
    log = tmp_path / "qnn-profiling-data_0.log"
    log.write_bytes(b"\0\1\2")
    viewer = tmp_path / "viewer 1"
    viewer.write_text(
        '#!/bin/sh\n[ "$1" = --input_log ] && [ -s "$2" ] && [ "$3" = --output ] || exit 3\ncp "$CSV" "$4"\n'
    )
    viewer.chmod(0o755)
    found = read_engine_file(log, lambda: (viewer, {"CSV": str(QNN_CSV)}))
    assert found.operators[0].name == "MatMul_0" and found.source == log.name
    viewer.write_text("#!/bin/sh\necho not my version >&2\nexit 1\n")
    with pytest.raises(ToolFailed) as caught:
        read_engine_file(log, lambda: (viewer, {}))
    assert "not my version" in (caught.value.evidence or "")
    viewer.write_text("#!/bin/sh\nexit 0\n")
    with pytest.raises(ToolFailed, match="wrote no CSV"):
        read_engine_file(log, lambda: (viewer, {}))
