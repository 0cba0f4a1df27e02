"""The matrix, what is read from phone and output, records, comparisons and their pictures."""

from __future__ import annotations

import csv
import io
import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from devkit import config as configuration
from devkit.bench import Cell, History, Metric, Run, Sample, Spec, check_dimensions, compare_runs, estimate
from devkit.bench.chart import render_chart
from devkit.bench.measure import parse_outcome
from devkit.bench.metrics import WALL, more_is_better, regex_reader
from devkit.bench.phone_state import cool_down, parse_state
from devkit.bench.record import run_from_dict
from devkit.bench.report import as_csv, as_table, number
from devkit.bench.spec import spec_for
from devkit.errors import ConfigError, UsageError


def run_of(name: str, values: dict[str, list[float]], unit: str = "tok/s", failed: int = 0) -> Run:
    samples, count = [], 0
    for profile, numbers in values.items():
        for value in numbers:
            count += 1
            metrics = (Metric(WALL, 1.0 + value / 1000, "s"), Metric("decode", value, unit))
            state = {"hottest_c": 40.0 + count, "capped_khz": {}}
            samples.append(Sample(Cell(profile, "cpu", "4", "512"), count, metrics, 0, None, state, state))
    for _ in range(failed):
        count += 1
        samples.append(Sample(Cell("cpu", "cpu", "4", "512"), count, (), 139, "SIGSEGV ended it", {}, {}))
    return Run(
        name,
        "llm <bench>",
        "2026-11-30T11:00:00+0000",
        {"serial": "x", "model": "Phone & Co"},
        {},
        tuple(samples),
    )


def test_the_matrix() -> None:
    spec = Spec("app", ("cpu", "opencl"), backends=("cpu",), threads=("1", "4"), prompts=("64", "512"))
    assert len(spec.cells()) == 8 and spec.cells()[0] == Cell("cpu", "cpu", "1", "64")
    assert Spec("app", ("cpu",)).cells() == (Cell("cpu"),)
    assert Cell("cpu", "opencl", "4", "512").label == "cpu, opencl, 4 threads, prompt 512"


def test_arguments_by_place_and_by_program() -> None:
    spec = Spec(
        "app",
        ("cpu",),
        args=("-m", "c.json", "--t={threads}"),
        threads=("4",),
        prompts=("64",),
        backends=("opencl",),
    )
    assert spec.arguments(spec.cells()[0], "llm_bench") == (
        "-m",
        "c.json",
        "--t=4",
        "-a",
        "opencl",
        "-p",
        "64",
    )
    assert spec.arguments(spec.cells()[0], "other") == ("-m", "c.json", "--t=4")
    # What looks like a placeholder but has no value stays.
    assert Spec("app", ("cpu",), args=("{prompt}", "{}")).arguments(Cell("cpu"), "x") == ("{prompt}", "{}")


def test_a_matrix_of_equal_cells_is_refused() -> None:
    check_dimensions(Spec("a", ("cpu",), threads=("1", "4")), "llm_bench")
    check_dimensions(Spec("a", ("cpu",), args=("{threads}",), threads=("1", "4")), "mine")
    with pytest.raises(UsageError, match="1, 4 would be one and the same"):
        check_dimensions(Spec("a", ("cpu",), threads=("1", "4")), "mine")


def test_settings_of_the_project_and_of_flags(tmp_path: Path) -> None:
    (tmp_path / "devkit.yaml").write_text(
        "apps: {demo: {profile: opencl, args: [x]}}\n"
        "bench:\n  demo:\n    threads: [1, 4]\n    warmup: 0\n    max_c: 45\n    metrics: ['a=(?P<a>\\d+)']\n"
    )
    config = configuration.load(tmp_path)
    spec = spec_for(config, "demo", {"threads": ("2",), "repeat": None, "backends": ()})
    assert (spec.profiles, spec.args, spec.threads, spec.repeat) == (("opencl",), ("x",), ("2",), 5)
    assert (spec.warmup, spec.max_c, spec.metrics) == (0, 45.0, (r"a=(?P<a>\d+)",))
    assert spec_for(config, "other", {}).profiles == ("cpu",)
    assert spec_for(config, "/a/program", {}).profiles == ("as is",)


@pytest.mark.parametrize("line", ["repeat: 0", "repeat: x", "warmup: -1", "thread: [1]"])
def test_settings_that_are_wrong_name_their_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "devkit.yaml").write_text(f"bench:\n  demo:\n    {line}\n")
    with pytest.raises(ConfigError, match=r"devkit\.yaml:3"):
        configuration.load(tmp_path)


@pytest.mark.parametrize("pattern", ["(", r"speed = \d+"])
def test_metrics_that_are_wrong(tmp_path: Path, pattern: str) -> None:
    with pytest.raises(UsageError, match="metric"):
        spec_for(configuration.load(tmp_path), "demo", {"metrics": (pattern,)})


def test_numbers_of_an_output() -> None:
    text = (
        "prefill speed = 152.38 tok/s\n decode speed = 30 tok/s\n decode speed = 31.84 tok/s\nRTF = -nan \n"
    )
    reading = regex_reader([r"(?m)^ *(?:prefill) speed = (?P<prefill>\S+)", r"decode speed = ([\d.]+)"])(
        text, 0
    )
    assert reading.metrics == (Metric("prefill", 152.38, "tok/s"), Metric("metric 2", 31.84, "tok/s"))
    assert reading.problem is None
    nothing = regex_reader([r"RTF = (?P<rtf>\S+)", r"absent (\d+)"])(text, 0)
    assert (
        nothing.metrics == () and nothing.problem and "absent" in nothing.problem and "RTF" in nothing.problem
    )


@pytest.mark.parametrize(
    ("unit", "more"),
    [
        ("tok/s", True),
        ("GFLOPS", True),
        ("fps", True),
        ("MB/s", True),
        ("ms", False),
        ("s", False),
        ("", False),
    ],
)
def test_what_is_better(unit: str, more: bool) -> None:
    assert more_is_better(unit) is more


PHONE = """\
/sys/class/thermal/thermal_zone0/type:cpu-0-0-usr
/sys/class/thermal/thermal_zone1/type:battery
/sys/class/thermal/thermal_zone2/type:cpu-0-0-usr
/sys/class/thermal/thermal_zone3/type:modem
/sys/class/thermal/thermal_zone4/type:gpuss-0
/sys/class/thermal/thermal_zone0/temp:41200
/sys/class/thermal/thermal_zone1/temp:52000
/sys/class/thermal/thermal_zone2/temp:43800
/sys/class/thermal/thermal_zone3/temp:-273000
/sys/class/thermal/thermal_zone4/temp:39
/sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq:1000000
/sys/devices/system/cpu/cpufreq/policy7/scaling_cur_freq:2000000
/sys/devices/system/cpu/cpufreq/policy0/scaling_max_freq:2016000
/sys/devices/system/cpu/cpufreq/policy7/scaling_max_freq:2400000
/sys/devices/system/cpu/cpufreq/policy0/cpuinfo_max_freq:2016000
/sys/devices/system/cpu/cpufreq/policy7/cpuinfo_max_freq:3187200
"""


def test_the_phones_heat_and_clocks() -> None:
    state = parse_state(PHONE)
    # A battery may be warmer, but does not follow the load; a modem that is off says -273.
    assert state.zones == {"cpu-0-0-usr": 43.8, "battery": 52.0, "gpuss-0": 39.0}
    assert state.hottest_c == 43.8
    assert state.clocks_khz == {"policy0": 1000000, "policy7": 2000000}
    assert state.capped == {"policy7": 2400000}
    empty = parse_state("")
    assert (empty.hottest_c, empty.clocks_khz) == (None, {})


class FakePhone:
    """Answers with one temperature after the other."""

    def __init__(self, *degrees: int | None) -> None:
        self.degrees = list(degrees)
        self.asked = 0

    def shell(self, _script: str) -> Any:
        self.asked += 1
        degrees = self.degrees.pop(0) if len(self.degrees) > 1 else self.degrees[0]
        zone = "/sys/class/thermal/thermal_zone0"
        text = "" if degrees is None else f"{zone}/type:cpu\n{zone}/temp:{degrees * 1000}\n"
        return type("Result", (), {"text": text})()


@pytest.mark.parametrize(
    ("degrees", "max_c", "asked", "slept"),
    [((50, 47, 44), 45.0, 3, 12.0), ((50,), None, 1, 2.0), ((None,), 45.0, 1, 2.0), ((50,), 45.0, 5, 20.0)],
)
def test_cooling_down(degrees: tuple[int | None, ...], max_c: float | None, asked: int, slept: float) -> None:
    phone, now = FakePhone(*degrees), [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    cool_down(phone, pause_s=2.0, max_c=max_c, limit_s=20.0, sleep=sleep, clock=lambda: now[0])  # type: ignore[arg-type]
    assert (phone.asked, now[0]) == (asked, slept)


@pytest.mark.parametrize(
    ("line", "code", "wall", "text"),
    [
        ("MARK 0 1764500000000000000 100.00 900.00 / 1764500001250000000 101.25 901.00\n", 0, 1.25, "out"),
        # Somebody set the clock; a phone without %N; a phone that tells nothing.
        ("MARK 3 1764500000000000000 100.00 900.00 / 1764590001250000000 101.25 901.00\n", 3, 1.25, "out"),
        ("MARK 0 1764500000N 100.00 900.00 / 1764500001N 101.25 901.00\n", 0, 1.25, "out"),
        ("MARK 0  / \n", 0, None, "out"),
        ("", 9, None, "out\n"),
    ],
)
def test_the_end_of_a_run(line: str, code: int, wall: float | None, text: str) -> None:
    outcome = parse_outcome("out\n" + line, "MARK", 9)
    assert (outcome.exit_code, outcome.text) == (code, text)
    assert outcome.wall_s == (pytest.approx(wall) if wall else None)


def test_history(tmp_path: Path) -> None:
    history = History(tmp_path / "我的 engine")
    one, two = (
        run_of("20261130-110000-a", {"cpu": [1, 2]}),
        run_of("20261130-120000-a", {"cpu": [3, 4]}, failed=1),
    )
    history.save(one)
    path = history.save(two)
    assert history.runs() == [one, two] and history.runs("another app") == []
    assert history.find("last") == two == history.find("20261130-12") == history.find(str(path))
    assert history.new_id("llm <bench>", "20261130-130000") == "20261130-130000-llm__bench_"
    assert history.new_id("a", "20261130-120000") == "20261130-120000-a-2"
    next_one = run_of(history.new_id("a", "20261130-120000"), {"cpu": [5, 6]})
    next_one_file = history.save(next_one)
    assert history.runs() == [one, two, next_one] and history.find("last") == next_one
    next_one_file.unlink()
    for wrong in ("nothing", "20261130"):
        with pytest.raises(UsageError):
            history.find(wrong)
    (history.folder / "broken.json").write_text("{")
    assert len(history.runs()) == 2
    assert History(tmp_path / "other").runs() == []
    with pytest.raises(UsageError):
        history.find(str(history.folder / "broken.json"))


def test_a_run_survives_json() -> None:
    run = run_of("x", {"cpu": [10.5, 11], "opencl": [20]}, failed=2)
    assert run_from_dict(json.loads(json.dumps(run.as_dict()))) == run
    with pytest.raises(ValueError, match="format 9"):
        run_from_dict({**run.as_dict(), "format": 9})


@pytest.mark.parametrize(
    ("before", "after", "unit", "verdict"),
    [
        ([100, 101, 99, 100.5, 98], [110, 111, 109, 112, 108], "tok/s", "better"),
        ([110, 111, 109, 112, 108], [100, 101, 99, 100.5, 98], "tok/s", "worse"),
        ([100, 101, 99, 100.5, 98], [110, 111, 109, 112, 108], "ms", "worse"),
        ([100, 101, 99, 100.5, 98], [100.2, 101.1, 99.3, 97.9, 98.5], "tok/s", "noise"),
        ([100, 101, 99], [110, 111, 109], "tok/s", "too few runs"),
        ([5, 5, 5, 5, 5], [5, 5, 5, 5, 5], "tok/s", "noise"),
    ],
)
def test_verdicts(before: list[float], after: list[float], unit: str, verdict: str) -> None:
    found = compare_runs(run_of("a", {"cpu": before}, unit), run_of("b", {"cpu": after}, unit))
    [decode] = [c for c in found if c.name == "decode"]
    assert decode.verdict == verdict
    if verdict in ("better", "worse"):
        assert not decode.low <= 1 <= decode.high


def test_only_what_both_measured_is_compared() -> None:
    before = run_of("a", {"cpu": [1, 2, 3, 4, 5], "vulkan": [1, 2]}, "tok/s")
    after = run_of("b", {"cpu": [1, 2, 3, 4, 5], "opencl": [1, 2]}, "ms")
    assert [(c.cell.profile, c.name) for c in compare_runs(before, after)] == [("cpu", WALL)]


def test_many_comparisons_are_held_to_more() -> None:
    # p = 0.016 alone is significant; as one of twelve (six cells, two metrics) it is not.
    old, new = [1.0, 2, 3, 4, 5.5], [5.0, 6, 7, 8, 9]
    alone = compare_runs(run_of("a", {"cpu": old}, "x/s"), run_of("b", {"cpu": new}, "x/s"))
    assert [c.verdict for c in alone if c.name == "decode"] == ["better"]
    profiles = [f"p{i}" for i in range(6)]
    many = compare_runs(
        run_of("a", dict.fromkeys(profiles, old), "x/s"),
        run_of("b", {p: new if p == "p0" else old for p in profiles}, "x/s"),
    )
    assert {c.verdict for c in many} == {"noise"}


def test_estimates() -> None:
    spec = Spec(
        "a",
        ("cpu", "opencl"),
        backends=("cpu",),
        threads=("4",),
        prompts=("512",),
        repeat=4,
        warmup=1,
        cooldown_s=2,
    )
    assert (estimate(spec, None).seconds, estimate(spec, None).unknown) == (20.0, 2)
    known = estimate(spec, run_of("x", {"cpu": [1000, 1000]}))
    assert (known.seconds, known.unknown) == (pytest.approx(20 + 5 * 2.0), 1)


def test_table_and_csv() -> None:
    run = run_of("x", {"cpu": [10, 12, 11], "opencl": [20, 21, 22]}, failed=1)
    table = as_table(run)
    [line] = [row for row in table.splitlines() if "decode" in row and row.startswith("cpu,")]
    assert "11" in line and "10 … 12" in line and "3 (1 failed)" in line and "41 → 43 °C" in line
    rows = list(csv.DictReader(io.StringIO(as_csv(run))))
    assert len(rows) == 6 * 2 + 1
    assert [float(r["value"]) for r in rows if r["metric"] == "decode" and r["profile"] == "opencl"] == [
        20,
        21,
        22,
    ]
    assert rows[-1]["failure"] == "SIGSEGV ended it" and rows[-1]["value"] == ""


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234567.8, "1234568"), (12.3456, "12.35"), (0.012345, "0.01235")]
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


class Pictures(HTMLParser):
    """All tags and links of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.circles = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.links += [value or "" for name, value in attrs if name in ("src", "href")]
        self.circles += tag == "circle"


def test_the_chart_stands_alone() -> None:
    before = run_of("a", {"cpu": [100, 101, 99, 100.5, 98]})
    run = run_of("b", {"cpu": [110, 111, 109, 112, 108], "opencl": [1, 2]}, failed=1)
    page = render_chart(run, compare_runs(before, run), before)
    pictures = Pictures()
    pictures.feed(page)
    assert pictures.links == [] and "http" not in page and "<script" not in page and "url(" not in page
    assert pictures.circles == 7 * 2
    # Names are text, never markup.
    assert "llm &lt;bench&gt;" in page and "llm <bench>" not in page and "Phone &amp; Co" in page
    assert 'class="better"' in page and "1 failed" in page
    for svg in page.split("<svg")[1:]:
        ElementTree.fromstring("<svg" + svg.split("</svg>")[0] + "</svg>")


def test_dots_lie_where_their_numbers_are() -> None:
    page = render_chart(run_of("a", {"cpu": [50, 100]}))
    decode = page.split("<h2>decode")[1].split("</svg>")[0]
    svg = ElementTree.fromstring("<svg" + decode.split("<svg")[1] + "</svg>")
    half, whole = (float(circle.get("cx") or 0) for circle in svg.iter("circle"))
    zero = min(float(line.get("x1") or 0) for line in svg.iter("line") if line.get("class") == "axis")
    assert half - zero == pytest.approx((whole - zero) / 2, abs=0.2)
