"""Outputs as they really come: cut anywhere, coloured, in other encodings, mixed, endless, and nonsense."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from devkit import results
from devkit.results import CustomParser, LinePattern, OutputReader, Report
from devkit.results.lines import MAX_LINE_BYTES, LineFeeder
from devkit.results.parser import MAX_MEASUREMENTS

DATA = Path(__file__).parents[2] / "data"
OUTPUTS = sorted([*(DATA / "results").iterdir(), *(DATA / "cases" / "K7").glob("*.txt")])
OWN = CustomParser(
    "own", lines=[LinePattern(r"(?P<what>\w+)\s*=\s*(?P<v>\S+)", {"v": "ms"})], failed=["ERROR"], ok="^done"
)
PARSERS = [None, "own", *results.parser_names()]
FUZZ = settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def lines_of(data: bytes, *, step: int = 0) -> list[str]:
    feeder = LineFeeder()
    found: list[str] = []
    for start in range(0, len(data), step or max(1, len(data))):
        found += feeder.feed(data[start : start + step] if step else data)
    return [*found, *feeder.finish()]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\nb", ["a", "b"]),
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"10%\r50%\rdone\n", ["10%", "50%", "done"]),
        (b"\x1b[1;32mgreen\x1b[0m \x1b]0;title\x07text\x1b[K\n", ["green text"]),
        (b"\xff\xfe\x00ok\xe4\xb8\xad\n", ["\ufffd\ufffdok中"]),
        (b"\n\n", ["", ""]),
        (
            b"06-01 10:00:00.123  4711  4712 I MNNJNI  : decode speed = 1.0 tok/s\n",
            ["decode speed = 1.0 tok/s"],
        ),
        (b"2026-06-01 10:00:00.123 4711 4712 E MNNJNI: x: y\n", ["x: y"]),
        (b"I/MNNJNI ( 4711): text\n", ["text"]),
        (b"1 2 3: no log\n", ["1 2 3: no log"]),
    ],
)
def test_lines(data: bytes, lines: list[str]) -> None:
    assert lines_of(data) == lines
    assert lines_of(data, step=1) == lines


@pytest.mark.parametrize("path", OUTPUTS, ids=lambda p: p.name)
def test_the_same_result_however_the_stream_is_cut(path: Path) -> None:
    data = path.read_bytes()
    whole = results.parse(data)
    for step in (1, 7, 4096):
        reader = OutputReader()
        for start in range(0, len(data), step):
            reader.feed(data[start : start + step])
        assert reader.finish() == whole
    coloured = b"".join(b"\x1b[36m" + line + b"\x1b[0m\r\n" for line in data.splitlines())
    assert results.parse(coloured).measurements == whole.measurements


def test_statistics_of_llm_demo_out_of_logcat() -> None:
    text = (DATA / "results" / "llm_demo_ok.txt").read_text()
    log = "".join(f"06-01 10:00:00.123  4711  4712 I MNNJNI  : {line}\n" for line in text.splitlines())
    assert results.parse(log).measurements == results.parse(text).measurements


def test_stderr_in_the_middle_of_a_line_of_stdout() -> None:
    reader = OutputReader(program="llm_demo")
    text = (DATA / "results" / "llm_demo_ok.txt").read_bytes()
    at = text.index(b"decode speed") + 7
    reader.feed(text[:at])
    reader.feed(b"CPU Group: [ 0 1 2 ]\nhalf a line of", stderr=True)
    reader.feed(text[at:])
    reader.feed(b" stderr\n", stderr=True)
    assert reader.finish(0).measurements == results.parse(text).measurements


def test_log_lines_between_the_rows_of_a_table() -> None:
    for name in ("llm_bench.txt", "qnn_weight_static.txt", "benchmark_out.txt", "llm_demo_ok.txt"):
        text = (DATA / "results" / name).read_text()
        noise = "[WARNING]  <W> 3 of 4 cores are hot\n"
        noisy = "".join(line + noise for line in text.splitlines(keepends=True))
        assert results.parse(noisy).measurements == results.parse(text).measurements, name


@pytest.mark.parametrize("parser", results.parser_names())
def test_memory_is_bounded(parser: str) -> None:
    shape = {
        "llm_demo": b"prompt file is p\n" + b"words words words = 3\n" * 15_000,
        "llm_bench": b'{"model": [\n' + b'"an endless list",\n' * 15_000,
        "MNNV2Basic.out": b" op [Raster] run 5 average cost 0.1 ms, 0.6 %, FlopsRate: 0.0 %\n" * 15_000,
        "qnn_benchmark": b"QNN MatMul Benchmark\n" + b"".join(b"key_%d : value\n" % n for n in range(15_000)),
    }.get(parser, b"[ - ] m  max = 1 ms  min = 1 ms  avg = 1 ms\n    NetRun:  3 us\n" * 7_500)
    reader = OutputReader(parser)
    tracemalloc.start()
    try:
        for _ in range(3):
            reader.feed(shape)
        reader.feed(b"x" * (4 * MAX_LINE_BYTES))
        reader.feed(b"y" * (4 * MAX_LINE_BYTES))
        report = reader.finish(0)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(report.measurements) <= MAX_MEASUREMENTS
    if parser == "MNNV2Basic.out":
        assert report.dropped == 3 * 3 * 15_000 - MAX_MEASUREMENTS
    assert peak < 40_000_000, peak


def test_a_cut_llm_demo_counts_nothing_and_says_so() -> None:
    text = (DATA / "results" / "llm_demo_ok.txt").read_text()
    report = results.parse(text[: text.index("decode speed")], exit_code=0)
    assert report.value("prefill_speed") is None and report.status == results.WARNING
    assert report.findings[0].kind == "truncated-output"


def sound(report: Report) -> None:
    """Whatever came in: JSON without NaN comes out, and the status agrees with the findings."""
    json.dumps(report.as_dict(), allow_nan=False)
    failed = any(f.severity == results.FAILED for f in report.findings)
    assert (report.status == results.FAILED) == failed


@FUZZ
@given(st.binary(max_size=4000), st.sampled_from(PARSERS))
def test_any_bytes(data: bytes, parser: str | None) -> None:
    sound(results.parse(data, parser, custom=[OWN]))


@FUZZ
@given(st.data(), st.sampled_from(PARSERS))
def test_outputs_with_pieces_cut_out_doubled_and_put_in(data: st.DataObject, parser: str | None) -> None:
    pool = b"\n".join(path.read_bytes() for path in OUTPUTS)
    text = data.draw(st.sampled_from(OUTPUTS)).read_bytes()
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(text)))
        end = data.draw(st.integers(at, min(len(text), at + 200)))
        start = data.draw(st.integers(0, len(pool)))
        text = text[:at] + pool[start : start + data.draw(st.integers(0, 200))] + text[end:]
    report = results.parse(text, parser, custom=[OWN])
    sound(report)
    reader = OutputReader(parser, custom=[OWN])
    cut = data.draw(st.integers(0, len(text)))
    reader.feed(text[:cut])
    reader.feed(text[cut:])
    assert reader.finish() == report


@FUZZ
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["decode speed", "prefill speed", "decode tokens num", "audio RTF", "text"]),
            st.one_of(
                st.floats(), st.integers(), st.sampled_from(["-nan", "nan(ind)", "1.#INF", "", "x", "-"])
            ),
        ),
        max_size=12,
    )
)
def test_numbers_of_every_kind(stats: list[tuple[str, object]]) -> None:
    fence = "#" * 34
    block = "\n".join(f"{key} = {value}" for key, value in stats)
    sound(results.parse(f"config path is x\n{fence}\n{block}\n{fence}\n"))
