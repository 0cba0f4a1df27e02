"""simpleperf's texts: what has no name gets one from the file here, whatever columns the report has."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit.crashes import Crash, SymbolFolders, as_text, cause_of, read_crashes, symbolize
from devkit.symbols import Symbolizer

CASES = Path(__file__).parents[2] / "data/cases"
HEAD = (
    "Cmdline: simpleperf record\nArch: arm64\nEvent: cpu-cycles:u (type 0, config 0)\n"
    "Samples: 3\nEvent count: 30\n\n"
)


def read(text: str) -> list[Crash]:
    crashes = read_crashes(text.splitlines()).crashes
    with SymbolFolders([CASES / "_symbols"]) as folders:
        symbolize(crashes, folders, Symbolizer())
    return crashes


@pytest.mark.parametrize(
    ("name", "events", "rows"),
    [
        ("report.csv", ["cpu-cycles:u"], [4]),
        ("report.txt", ["cpu-cycles:u", "instructions"], [2, 1]),
        ("report_children.csv", ["cpu-clock"], [2]),
    ],
)
def test_j3_reports(name: str, events: list[str], rows: list[int]) -> None:
    text = (CASES / "J3" / name).read_text()
    crashes = read_crashes(text.splitlines()).crashes
    assert [crash.what for crash in crashes] == events
    assert [len(crash.frames) for crash in crashes] == rows
    assert all(cause_of(crash).kind == "a profile" for crash in crashes)
    first = crashes[0].frames
    if name != "report_children.csv":
        assert first[0].function == "MNN::gemm<float, 4>(float*, float const*, unsigned long)"
        assert (first[1].module, first[1].pc) == ("/data/local/tmp/devkit/libMNN.so", 0xA1B2C)
    shown = as_text(read_crashes(text.splitlines()), [], [])
    for line in text.splitlines():
        if line[:1].isdigit():
            assert line in shown  # no row is lost, none changed without a reason


def test_j3_samples() -> None:
    [crash] = read((CASES / "J3/report_sample.txt").read_text())
    [stack] = crash.stacks
    assert [frame.pc for frame in stack.frames] == [0xA1B2C, 0x514]
    assert stack.frames[1].locations[0].line == 22 and "llm_demo" in stack.title


def test_j3_nothing_recorded() -> None:
    assert read_crashes((CASES / "J3/empty.csv").read_text().splitlines()).crashes == []


@pytest.mark.parametrize(
    "table",
    [
        "Overhead,Shared Object,Symbol\n60.00%,/d/libllm.so,libllm.so[+4cc]\n",
        "Children  Self    Command   Shared Object   Symbol\n"
        "60.00%    60.00%  a b       /d/libllm.so    libllm.so[+4cc]\n",
    ],
)
def test_names_take_the_place_of_addresses(table: str) -> None:
    [crash] = read(HEAD + table)
    assert [loc.line for loc in crash.frames[0].locations] == [7, 14]
    text = as_text(read_crashes([]), [], [])
    assert text == "no crash in 0 lines"
    shown = "\n".join(line for line in _text(crash).splitlines() if "60.00%" in line)
    assert "kit::take(int*, int) at " in shown and "fixture.cpp:7:12" in shown
    assert "libllm.so[+" not in shown and "[build-id unknown]" in shown
    assert "next:" not in _text(crash)


def _text(crash: Crash) -> str:
    from devkit.crashes.report import crash_text

    return crash_text(crash, [])


def test_what_comes_behind_a_report_is_read_too() -> None:
    text = HEAD + "Overhead,Symbol\n1.00%,main\n\n" + (CASES / "I1/logcat.txt").read_text()
    assert [crash.kind for crash in read_crashes(text.splitlines()).crashes] == ["profile", "signal"]


def test_more_samples_than_anybody_reads() -> None:
    block = "sample 1:\n  event_type: x\n  vaddr_in_file: 514\n  file: /d/libllm.so\n  symbol: f\n"
    [crash] = read_crashes((block * 2000).splitlines()).crashes
    assert len(crash.stacks) == 512 and all(len(stack.frames) == 1 for stack in crash.stacks)
