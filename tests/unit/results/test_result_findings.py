"""Known findings: what the lines of the field cases mean, and which of them is the cause."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest

from devkit import results
from devkit.results import FAILED, OK, WARNING, Finding
from devkit.results.findings import load_table

DATA = Path(__file__).parents[2] / "data"
C5 = DATA / "cases" / "C5"
WORDS_OF_ADVICE = {
    "namespace": ["uses-native-library", "adb shell is not affected"],
    "__emutls_get_address": ["wrong copy of a runtime library", "/vendor/lib64", "LD_LIBRARY_PATH"],
    "_Unwind_Resume": ["NDK generations", "r23"],
}


def only(line: str) -> Finding:
    (finding,) = results.parse(line + "\n").findings
    return finding


@pytest.mark.parametrize("number", range(6))
def test_case_c5(number: int) -> None:
    line = (C5 / "linker.txt").read_text().splitlines()[number]
    expected = json.loads((C5 / "expected.json").read_text())[number]
    finding = only(line)
    assert finding.kind == expected["kind"]
    for key in ("library", "user", "symbol"):
        if key in expected:
            assert finding.values[key] == expected[key]
    if "advice" in expected:
        for words in WORDS_OF_ADVICE[expected.get("symbol", expected["kind"])]:
            assert words in finding.cause
    assert (finding.severity == FAILED) == ("CANNOT LINK" in line)


LINES = r"""
CANNOT LINK EXECUTABLE "./a": library "libx.so" not found
    missing-library library=libx.so
CANNOT LINK EXECUTABLE "./a": library "libx.so" not found: needed by /data/l/libMNN.so in namespace (default)
    missing-library library=libx.so user=libMNN.so
CANNOT LINK EXECUTABLE: could not load library "libx.so" needed by "a"; caused by library "libx.so" not found
    missing-library library=libx.so user=a
CANNOT LINK EXECUTABLE "./a": "/d/libx.so" is for EM_ARM (40) instead of EM_AARCH64 (183)
    wrong-abi library=libx.so
CANNOT LINK EXECUTABLE "./a": "/d/libx.so" has bad ELF magic: 76657273
    bad-elf library=libx.so
CANNOT LINK EXECUTABLE "./a": cannot locate symbol "_ZN3MNN3fooEv" referenced by "/d/libllm.so"...
    missing-symbol symbol=_ZN3MNN3fooEv user=libllm.so
CANNOT LINK EXECUTABLE "./a": something new
    not-linked
Failed to open embedding file!
    missing-embeddings
Failed to open /data/x/input_0.txt
    cannot-open file=/data/x/input_0.txt
Can't open file:model/llm.mnn
    missing-file file=model/llm.mnn
Create interpreter failed, open model/a b.mnn error
    missing-file file=model/a_b.mnn
./a: error while loading shared libraries: libx.so: cannot open shared object file: No such file or directory
    missing-library library=libx.so
/system/bin/sh: ./a: can't execute: Permission denied
    not-executable file=./a why=Permission_denied
env: exec /d/a: Exec format error
    not-executable file=/d/a why=Exec_format_error
dlopen failed: "/d/libx.so" has text relocations
    text-relocations library=libx.so
CL ERROR CODE : -1001, info:getPlatform
    opencl-error code=-1001 step=getPlatform
==12==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x1
    sanitizer tool=AddressSanitizer what=heap-buffer-overflow
11-30 10:00:00.123  4711  4712 E MNNJNI  : Failed to open embedding file!
    missing-embeddings
""".strip().splitlines()


@pytest.mark.parametrize(("line", "expected"), list(zip(LINES[::2], LINES[1::2], strict=True)))
def test_lines(line: str, expected: str) -> None:
    kind, *pairs = expected.split()
    finding = only(line)
    assert (finding.kind, finding.line_number) == (kind, 1)
    assert finding.values == {
        name: text.replace("_", " ") if " " in finding.values[name] else text
        for name, text in (pair.split("=") for pair in pairs)
    }


def test_missing_files_are_named_and_come_before_what_they_cause() -> None:
    for name, file in (
        ("llm_demo_missing_weight_rc0", "short2/llm.mnn.weight"),
        ("llm_demo_missing_tokenizer_rc0", "short2/tokenizer.mtok"),
        ("llm_demo_missing_config_rc0", "nowhere/config.json"),
    ):
        report = results.parse((DATA / "results" / f"{name}.txt").read_bytes(), "llm_demo", exit_code=0)
        assert report.status == FAILED and report.first_cause is not None
        assert report.first_cause.values["file"] == file and file in report.first_cause.meaning
        assert report.findings[-1].kind == "init-error" and report.findings[-1].consequence
        assert report.measurements == ()  # the time of a load that failed is none


def test_case_k1_the_first_line_decides() -> None:
    report = results.parse((DATA / "cases" / "K1" / "run.log").read_bytes(), exit_code=0)
    assert report.first_cause is not None and report.first_cause.kind == "qnn-mixed-versions"
    assert report.first_cause.values["expected"].startswith("v2.42.0")
    assert report.first_cause.values["detected"].startswith("v2.25.17")
    assert [f.kind for f in report.findings if not f.consequence] == ["qnn-mixed-versions"]


def test_a_cache_that_is_not_there_yet_is_nothing_bad() -> None:
    report = results.parse("Can't open file:.tempcache\nLoad Cache file error.\n", exit_code=0)
    assert report.status == OK and report.findings[0].severity == "note"


def test_dlopen_that_fails_is_a_warning_and_explains_a_failure() -> None:
    line = 'dlopen failed: library "libMNN_CL.so" not found\n'
    assert results.parse(line, exit_code=0).status == WARNING
    report = results.parse(line, exit_code=1)
    assert report.status == FAILED and report.first_cause is not None
    assert report.first_cause.kind == "missing-library"


def test_signals_are_explained_and_the_output_goes_first() -> None:
    report = results.parse("", exit_code=132)
    assert report.first_cause is not None and "SIGILL" in report.first_cause.meaning
    report = results.parse("==1==ERROR: AddressSanitizer: SEGV on unknown address\n", exit_code=139)
    assert [f.kind for f in report.findings] == ["sanitizer", "exit-code"]
    assert results.parse("", exit_code=3).findings == ()


def test_lines_made_to_be_slow_are_not() -> None:
    began = time.process_time()
    for piece in (
        "x",
        "a ",
        '"',
        "Sanitizer",
        'library "',
        "1008 ",
        "Qnn error ",
        "cache",
        ": ",
        "[ - ] ",
        "1 ",
        "| ",
    ):
        for head in (
            "",
            "[ - ] m",
            "Can't open file:",
            "[Error]: ",
            "Usage: ",
            "Failed to open ",
            "Graph 0 (",
        ):
            results.parse(
                head + piece * (4000 // len(piece)) + " has text relocations here\n", "benchmark.out"
            )
    assert time.process_time() - began < 5


def test_each_finding_once_and_not_without_end() -> None:
    line = "Can't Find type=3 backend, use 0 instead\n"
    assert len(results.parse(line * 1000).findings) == 1
    many = "".join(f"Can't open file:model/{n}.mnn\n" for n in range(1000))
    assert len(results.parse(many).findings) == 50


def test_the_apps_name_is_in_the_next_commands() -> None:
    reader = results.OutputReader(None, program="/data/llm_demo", app="chat")
    reader.feed(b"[Error]: LLM weight file not found: m/llm.mnn.weight\n")
    assert reader.finish(0).findings[0].next[0].startswith("devkit deploy chat --dry-run")


def test_the_table_is_sound() -> None:
    table = load_table()
    for known in table.known:
        groups = set(known.pattern.groupindex) | {"app"}
        assert set(known.base) | set(known.translate) <= groups, known.kind
        for text in (known.meaning, known.cause, *known.next):
            for name in re.findall(r"\{(\w+)\}", text):
                assert name in groups, f"{known.kind}: {{{name}}}"
        assert known.cause or known.consequence or known.severity == "note" or known.next, known.kind
    assert {132, 134, 137, 139} <= set(table.exit_codes)
