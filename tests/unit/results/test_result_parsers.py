"""The parsers on real outputs (tests/data/results) and on the field cases K7, K1 and C5."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from devkit import results
from devkit.results import FAILED, OK, WARNING, Report

DATA = Path(__file__).parents[2] / "data"
CAPTURES = DATA / "results"
K7 = DATA / "cases" / "K7"


def read(path: Path, parser: str | None = None, exit_code: int | None = None) -> Report:
    return results.parse(path.read_bytes(), parser, exit_code=exit_code)


def by_name(report: Report) -> dict[str, tuple[float | None, str]]:
    return {m.name: (m.value, m.unit) for m in report.measurements}


def test_llm_demo() -> None:
    report = read(CAPTURES / "llm_demo_ok.txt")
    assert (report.parser, report.status, report.findings) == ("llm_demo", OK, ())
    found = by_name(report)
    assert found["prompt_tokens"] == (19, "tokens") and found["decode_tokens"] == (16, "tokens")
    assert found["prefill_speed"] == (6661.99, "tok/s") and found["decode_speed"] == (2891.74, "tok/s")
    assert found["decode_time"] == (0.01, "s") and found["vision_pixels"] == (0.0, "MP")
    assert found["load_time"] == (15.433, "ms") and found["tuning_time"] == (8.792, "ms")
    assert found["audio_rtf"] == (None, "")  # -nan
    assert report.value("prompt_tokens") == 19 and report.values("none such") == []


def test_llm_demo_in_chat_mode_has_no_statistics_and_that_is_right() -> None:
    for parser in (None, "llm_demo"):
        report = read(CAPTURES / "llm_demo_chat.txt", parser, exit_code=0)
        assert report.status == OK and report.findings == ()


@pytest.mark.parametrize(
    "name", ["ok", "old_layout", "one_token", "silent_cpu", "init_error_rc0", "usage_rc0"]
)
def test_case_k7(name: str) -> None:
    expected = json.loads((K7 / "expected.json").read_text())
    report = read(K7 / f"{name}.txt", exit_code=0)
    wanted = expected[f"{name}.txt"]
    if isinstance(wanted, str):
        assert wanted.startswith("failed") and report.status == FAILED
        return
    names = {"prompt": "prompt_tokens", "decode": "decode_tokens"}
    names |= {"prefill_tps": "prefill_speed", "decode_tps": "decode_speed"}
    for key, measured in names.items():
        if key in wanted:
            assert report.value(measured) == wanted[key], key
    assert report.status == {"ok": OK, "no tokens produced: warn": WARNING}[wanted["status"]]


def test_silent_fall_back_names_both_backends() -> None:
    (finding,) = read(K7 / "silent_cpu.txt").findings
    assert finding.kind == "backend-fell-back"
    assert finding.values == {"asked": "NN (QNN, NNAPI, CoreML)", "used": "CPU"}
    assert finding.line == "Can't Find type=5 backend, use 0 instead"
    # 13 is the CPU with its extensions: nothing fell back.
    assert results.parse("Can't Find type=13 backend, use 0 instead\n").findings == ()


def test_llm_bench_tables() -> None:
    report = read(K7 / "bench.txt")
    assert report.parser == "llm_bench"
    expected = json.loads((K7 / "expected.json").read_text())["bench.txt"]
    assert {m.name: [m.value, m.spread] for m in report.measurements} == expected
    assert {m.unit for m in report.measurements} == {"tok/s"}
    assert report.measurements[0].labels["threads"] == "4"
    combined = read(CAPTURES / "llm_bench_pg.txt")
    assert [(m.name, m.value, m.spread) for m in combined.measurements] == [
        ("pp32", 18472.66, 1286.28),
        ("tg8", 2709.09, 110.83),
    ]
    assert combined.measurements[0].labels["test"] == "pp32+tg8"


def test_llm_bench_json_has_the_names_and_labels_of_the_table() -> None:
    report = read(CAPTURES / "llm_bench.json")
    table = read(CAPTURES / "llm_bench.txt")
    assert [m.name for m in report.measurements] == [m.name for m in table.measurements] == ["pp32", "tg8"]
    for ours, theirs in zip(report.measurements, table.measurements, strict=True):
        assert theirs.labels.items() <= ours.labels.items()
    assert report.measurements[0].value == pytest.approx(18817.838783556213)
    assert report.measurements[0].spread == pytest.approx(1006.046133968463)


def test_llm_bench_json_pretty_printed_repeated_and_with_numbers_that_are_none() -> None:
    run = json.loads((CAPTURES / "llm_bench.json").read_text())
    text = json.dumps(run, indent=1) + "\n" + json.dumps([run, run]) + "\n"
    assert len(results.parse(text, "llm_bench").measurements) == 6
    broken = (CAPTURES / "llm_bench.json").read_text().replace("18817.838783556213", "-nan").replace(
        "231.7575122962874", "inf"
    )  # fmt: skip
    first, second = results.parse(broken).measurements
    assert (first.value, second.spread) == (None, None) and first.spread is not None
    cut = results.parse(broken[:-20], "llm_bench")
    assert [f.kind for f in cut.findings] == ["truncated-output", "no-results"] and cut.status == FAILED


def test_benchmark_out() -> None:
    report = read(CAPTURES / "benchmark_out.txt")
    assert report.parser == "benchmark.out" and report.status == OK and len(report.measurements) == 24
    first = report.measurements[0]
    assert (first.name, first.value, first.unit) == ("time_avg", 17.601, "ms")
    assert first.labels["model"] == "MobileNetV2_224.mnn"
    assert (first.labels["backend"], first.labels["thread"], first.labels["precision"]) == ("CPU", "1", "2")


def test_v2basic_with_its_operators() -> None:
    report = read(CAPTURES / "MNNV2Basic.txt")
    assert report.parser == "MNNV2Basic.out" and report.status == OK
    found = by_name(report)
    assert found["time_avg"] == (0.0652, "ms") and found["time_max"] == (0.09, "ms")
    assert found["memory"] == (0.103786, "MB") and found["load_time"] == (3.687, "ms")
    times = {m.labels["op"]: m.value for m in report.measurements if m.name == "op_time"}
    assert len(times) == 6 and times["c"] == 0.0504
    kinds = {m.labels["op"]: m.labels["type"] for m in report.measurements if m.name == "op_time"}
    assert kinds["g_raster_0"] == "Pooling"


def test_v2basic_that_ran_on_another_backend() -> None:
    text = (CAPTURES / "MNNV2Basic.txt").read_text().replace("forward type: 0", "forward type: 3")
    report = results.parse(text, exit_code=0)
    assert report.status == FAILED and report.first_cause is not None
    assert report.first_cause.values == {"asked": "OPENCL", "used": "CPU"}
    honest = text.replace("backendType is 13", "backendType is 3")
    assert results.parse(honest, exit_code=0).status == OK


def test_qnn_precision_table() -> None:
    report = read(CAPTURES / "qnn_precision.txt")
    assert report.parser == "qnn_benchmark" and report.status == OK
    (exec_int8, exec_fp16) = [m for m in report.measurements if m.name == "exec"]
    assert (exec_int8.value, exec_int8.spread, exec_int8.unit) == (0.6125, 0.0375, "ms")
    assert exec_fp16.labels["precision"] == "fp16" and exec_fp16.labels["htp_arch"] == "75"
    assert report.value("mean_abs_err") == 0.0005


def test_qnn_weight_static_table() -> None:
    report = read(CAPTURES / "qnn_weight_static.txt", exit_code=0)
    assert report.status == FAILED
    cases = [
        (m.labels["precision"], m.labels["weight"], m.value) for m in report.measurements if m.name == "exec"
    ]
    assert cases == [
        ("fp16", "static", 4.25),
        ("fp16", "app_write", 22.75),
        ("int8", "static", 17.5),
        ("int16", "app_write", None),
    ]
    assert [m.unit for m in report.measurements if m.name == "ctx_bin"] == ["MB"] * 4
    summary = [m for m in report.measurements if m.labels.get("section") == "precision_error_summary"]
    assert {m.name for m in summary} == {"cases", "max_err", "avg_mean_err"}
    assert [(f.kind, f.severity) for f in report.findings] == [
        ("inaccurate", WARNING),
        ("case-failed", FAILED),
    ]
    json.dumps(report.as_dict(), allow_nan=False)


def test_qnn_weight_switch_table_has_the_columns_a_mode_has() -> None:
    report = read(CAPTURES / "qnn_weight_switch.txt")
    assert report.status == OK
    load = {m.labels["mode"]: m.value for m in report.measurements if m.name == "ssd_g"}
    assert load == {"static_load": 9.5}
    assert {m.unit for m in report.measurements if m.name in ("binary", "static", "runtime")} == {"B"}
    assert "update_static" not in {m.labels["mode"] for m in report.measurements}


def test_qnn_online_matmul() -> None:
    report = read(CAPTURES / "qnn_online_matmul.txt")
    assert report.parser == "qnn_benchmark" and report.status == OK
    stages = {m.labels["stage"]: (m.value, m.unit) for m in report.measurements if "stage" in m.labels}
    assert stages["graph_execute"] == (625, "us") and len(stages) == 3
    assert report.value("max_abs_err") == 0.0015
    wrong = (CAPTURES / "qnn_online_matmul.txt").read_text().replace(": PASS", ": FAIL")
    assert [f.kind for f in results.parse(wrong).findings] == ["inaccurate"]


def test_qnn_net_run_is_done_only_when_it_says_so() -> None:
    report = read(CAPTURES / "qnn_net_run_ok.txt", exit_code=0)
    assert report.status == OK
    assert report.measurements[0].labels == {"version": "v2.42.0.251225120000_100001"}
    failed = read(CAPTURES / "qnn_net_run_failed.txt", exit_code=0)
    assert failed.status == FAILED
    assert [f.kind for f in failed.findings] == [
        "qnn-context-version", "qnn-device", "qnn-graph-failure", "net-run-unfinished",
    ]  # fmt: skip
    lines = (CAPTURES / "qnn_net_run_ok.txt").read_text().splitlines(keepends=True)
    cut = results.parse("".join(lines[:-1]), exit_code=0)
    assert cut.status == FAILED and "in the step `execute`" in cut.findings[0].meaning


def test_qnn_profile_viewer() -> None:
    report = read(CAPTURES / "qnn_profile.txt")
    assert report.parser == "qnn-profile-viewer" and report.status == OK
    averages = {
        m.name: (m.value, m.unit) for m in report.measurements if m.labels.get("statistic") == "Average"
    }
    assert averages["NetRun"] == (2750, "us")
    assert averages["Backend (Accelerator (execute) time (cycles))"] == (3141592, "cycles")
    assert report.measurements[-1].unit == "inf/sec"


def test_a_program_is_known_by_its_name() -> None:
    cases = {
        "/data/local/tmp/x/llm_demo": "llm_demo", "llm_bench": "llm_bench", "benchmark.out": "benchmark.out",
        "MNNV2Basic.out": "MNNV2Basic.out", "qnn-net-run": "qnn-net-run",
        "qnn_weight_static_benchmark": "qnn_benchmark", "qnn_online_matmul": "qnn_benchmark",
        "my_llm_demo": None, "benchmark": None,
    }  # fmt: skip
    assert {name: results.parser_for_program(name) for name in cases} == cases
    with pytest.raises(ValueError, match="there is no parser named llm_bnch"):
        results.parse("", "llm_bnch")


def test_only_the_last_block_of_llm_demo_counts() -> None:
    real = (CAPTURES / "llm_demo_ok.txt").read_text()
    fence = "#" * 33
    fake = f"{fence}\ndecode tokens num = 7\n decode speed = 1.00 tok/s\n{fence}\ndecode speed = 3.00 tok/s\n"
    babbled = real.replace("prompt file is p.txt\n", "prompt file is p.txt\n" + fake)
    assert babbled != real
    report = results.parse(babbled)
    assert report.value("decode_speed") == 2891.74 and report.values("decode_tokens") == [16]
    # What a model says is no finding, and no other program's output.
    answer = "LLM init error\n[Error]: x not found: y.txt\nMNN benchmark\nUsage: llm_demo\n"
    answer += 'CANNOT LINK EXECUTABLE "./a": library "libx.so" not found\n'
    report = results.parse(
        real.replace("prompt file is p.txt\n", "prompt file is p.txt\n" + answer), exit_code=0
    )
    assert (report.parser, report.status, report.findings) == ("llm_demo", OK, ())


def test_two_programs_in_one_log() -> None:
    text = (CAPTURES / "llm_bench.txt").read_text() + (CAPTURES / "benchmark_out.txt").read_text()
    report = results.parse(text)
    assert report.value("tg8") == 2699.49 and len(report.values("time_avg")) == 8
    again = results.parse(text * 3)
    assert len(again.values("tg8")) == 3 and len(again.values("time_avg")) == 24


def test_asked_for_results_that_are_not_there_fail() -> None:
    report = results.parse("hello\n", "llm_bench", exit_code=0)
    assert report.status == FAILED and report.findings[0].kind == "no-results"
    assert results.parse("hello\n", program="llm_bench", exit_code=0).status == WARNING
    assert results.parse("hello\n", exit_code=0) == Report(None, OK)
    silent = results.parse("LLM init error\n", results.NO_PARSER, exit_code=0)
    assert (silent.status, silent.findings) == (OK, ())
    logged = results.parse("hello\n", program="llm_demo", exit_code=0).findings[0]
    assert "logcat -d -s MNNJNI" in logged.next[0]


def test_numbers_too_large_for_a_double_are_none() -> None:
    fence = "#" * 34
    text = f"config path is x\n{fence}\nprefill speed = 1e999 tok/s\ndecode speed = 2e3 tok/s\n{fence}\n"
    report = results.parse(text)
    assert (report.values("prefill_speed"), report.values("decode_speed")) == ([None], [2000.0])
