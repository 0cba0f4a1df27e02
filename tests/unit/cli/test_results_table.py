"""The tables of `devkit run` and `devkit results`."""

from __future__ import annotations

import time
from pathlib import Path

from devkit import results
from devkit.cli.results_table import SHOWN_ROWS, summary_table
from devkit.results import Measurement, Report

DATA = Path(__file__).parents[2] / "data" / "results"


def table(name: str, *, everything: bool = False) -> list[str]:
    return summary_table(results.parse((DATA / name).read_bytes()), everything=everything).splitlines()


def test_a_row_for_each_model() -> None:
    lines = table("benchmark_out.txt")
    assert lines[0].split("  ")[0] == "MODEL" and "time_avg (ms)" in lines[0]
    assert lines[1].split() == ["MobileNetV2_224.mnn", "17.601", "17.474", "17.728"]
    assert len(lines) == 9


def test_the_headline_and_how_much_more_there_is() -> None:
    lines = table("MNNV2Basic.txt")
    assert "op_time" not in "\n".join(lines)
    assert lines[-1] == "… and 20 more: --json has them"
    full = table("MNNV2Basic.txt", everything=True)
    (row,) = [line.split() for line in full if line.startswith("c ")]
    assert row == ["c", "Convolution", "5", "0.0504", "77.301", "98.189"]


def test_many_rows_are_cut_and_none_twice() -> None:
    many = tuple(Measurement("time", float(n), "ms", {"case": str(n)}) for n in range(100))
    lines = summary_table(Report("x", "ok", many, dropped=5)).splitlines()
    assert len([line for line in lines if line.startswith("time")]) == SHOWN_ROWS
    assert lines[-1] == f"… and {100 - SHOWN_ROWS + 5} more: --json has them"
    same = (Measurement("time", 1.0, "ms", {"case": "a"}), Measurement("time", 2.0, "ms", {"case": "a"}))
    text = summary_table(Report("x", "ok", same))
    assert [line.split()[1] for line in text.splitlines()[1:] if line] == ["1", "2"]


def test_one_case_measured_very_often_is_no_matter() -> None:
    often = tuple(Measurement("time", float(n), "ms", {"case": "a"}) for n in range(20_000))
    began = time.process_time()
    lines = summary_table(Report("x", "ok", often), everything=True).splitlines()
    assert len(lines) == 20_001 and time.process_time() - began < 5


def test_numbers() -> None:
    values = [None, 26345472.0, 0.000123456789, 1e300, -0.0, 18817.838783556213]
    measured = tuple(Measurement(f"v{n}", value) for n, value in enumerate(values))
    lines = summary_table(Report("x", "ok", measured)).splitlines()
    assert [line.split()[1] for line in lines[1:]] == [
        "-",
        "26345472",
        "0.000123457",
        "1e+300",
        "0",
        "18817.8",
    ]
    assert summary_table(Report(None, "ok")) == ""
    spread = (Measurement("pp", 18817.838, "tok/s", {}, 1006.04),)
    assert "18817.8 ± 1006  tok/s" in summary_table(Report("x", "ok", spread))
