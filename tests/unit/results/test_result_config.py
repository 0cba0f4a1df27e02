"""One's own parsers: their patterns, and `results:` of devkit.yaml with its messages."""

from __future__ import annotations

from pathlib import Path

import pytest

from devkit import config, results
from devkit.errors import ConfigError
from devkit.results import FAILED, OK, CustomParser, LinePattern

YAML = r"""
apps:
  speed: {results: my_bench}
  plain: {results: none}
results:
  my_bench:
    programs: ['my_\w+']
    lines:
      - pattern: 'case (?P<case>\S+): (?P<time>\S+) (?P<time_unit>ms|us), (?P<gflops>\S+) GFLOPS'
        units: {time: ms, gflops: GFLOPS}
    failed: ['^MISMATCH']
    ok: '^all cases ran$'
"""


def load(folder: Path, text: str) -> config.Config:
    (folder / "devkit.yaml").write_text(text, "utf-8")
    return config.load(folder, environ={})


def test_named_groups_are_values_with_units_the_others_labels(tmp_path: Path) -> None:
    settings = load(tmp_path, YAML)
    assert settings.apps["speed"].results == "my_bench" and settings.apps["plain"].results == "none"
    output = "case 8x8: 12,000.5 us, 3.5 GFLOPS\ncase 9x9: nan ms, inf GFLOPS\nnoise\nall cases ran\n"
    report = results.parse(output, "my_bench", custom=settings.parsers, exit_code=0)
    assert report.status == OK
    assert [(m.name, m.value, m.unit, dict(m.labels)) for m in report.measurements] == [
        ("time", 12000.5, "us", {"case": "8x8"}),
        ("gflops", 3.5, "GFLOPS", {"case": "8x8"}),
        ("time", None, "ms", {"case": "9x9"}),
        ("gflops", None, "GFLOPS", {"case": "9x9"}),
    ]
    by_program = results.parse(output, program="/data/my_tool", custom=settings.parsers, exit_code=0)
    assert by_program.measurements == report.measurements


def test_its_own_words_for_failure(tmp_path: Path) -> None:
    parsers = load(tmp_path, YAML).parsers
    report = results.parse("MISMATCH in 8x8\nall cases ran\n", "my_bench", custom=parsers, exit_code=0)
    assert report.status == FAILED and report.findings[0].line == "MISMATCH in 8x8"
    report = results.parse("case 8x8: 1 ms, 2 GFLOPS\n", "my_bench", custom=parsers, exit_code=0)
    assert report.status == FAILED and report.findings[0].kind == "not-said"
    only_ok = CustomParser("o", ok="fine")
    assert results.parse("fine\n", "o", custom=[only_ok], exit_code=0).status == OK


def test_a_parser_of_ones_own_comes_before_a_built_in_one() -> None:
    own = CustomParser("llm_demo", [LinePattern(r"(?P<x>\d+)", {"x": ""})], programs=["llm_demo"])
    assert results.parse("7\n", program="llm_demo", custom=[own]).value("x") == 7


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("results:\n  m:\n    lines:\n      - pattern: '(?P<a'\n", 4, "this is no regular expression"),
        ("results:\n  m:\n    failed:\n      - ok\n      - '['\n", 5, "this is no regular expression"),
        ("results:\n  m:\n    ok: '*'\n", 3, "this is no regular expression"),
        ("results:\n  m:\n    lines:\n      - pattern: '(?P<a>x)'\n        units: {b: ms}\n", 5,
         "the pattern has no group named b (its groups: a)"),
        ("results:\n  m:\n    lines:\n      - pattern: '(?P<a>x)'\n", 4, "no group of it is a value"),
        ("results:\n  m:\n    lines:\n      - units: {b: ms}\n", 4, "an entry needs `pattern:`"),
        ("results:\n  m:\n    lines:\n      - {pattrn: x}\n", 4, "unknown key `results.m.lines: pattrn`"),
        ("results:\n  m:\n    lines: text\n", 3, "must be a list"),
        ("results:\n  m:\n    line: []\n", 3, "unknown key `results.m.line`"),
        ("results:\n  none: {}\n", 2, "cannot be a parser's name"),
        ("findings:\n  f: {meaning: m}\n", 2, "findings.f needs `pattern:`"),
        ("findings:\n  f: {pattern: m}\n", 2, "findings.f needs `meaning:`"),
        ("findings:\n  f: {pattern: '(', meaning: m}\n", 2, "this is no regular expression"),
        ("findings:\n  f: {pattern: m, meaning: m, severity: bad}\n", 2, "severity cannot be 'bad'"),
        ("apps:\n  x:\n    results: llm_bnch\n", 3, "there is no parser named 'llm_bnch'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text)
    assert caught.value.exit_code == 2
    assert caught.value.what.startswith(f"{tmp_path / 'devkit.yaml'}:{line}: ")
    assert message in caught.value.what


def test_a_wrong_parser_name_has_a_suggestion(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, "apps: {x: {results: llm_bnch}}\n")
    assert caught.value.hints[0] == "did you mean `llm_bench`?"


def test_the_example_of_the_documentation(tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "docs/results.md").read_text("utf-8")
    parsers = load(tmp_path, document.partition("```yaml\n")[2].partition("```")[0]).parsers
    output = "case 8x8: 12.5 us, 3.5 GFLOPS\nall cases ran\n"
    report = results.parse(output, program="gemm_test", custom=parsers, exit_code=0)
    assert report.status == OK and [(m.value, m.unit) for m in report.measurements] == [
        (12.5, "us"),
        (3.5, "GFLOPS"),
    ]
    findings = load(tmp_path, document.split("```yaml\n")[2].partition("```")[0]).findings
    report = results.parse("pool of 512 bytes is full\n", program="x/gemm", findings=findings, exit_code=0)
    [found] = report.findings
    assert (report.status, found.kind) == (FAILED, "pool-full")
    assert found.meaning == "the memory pool has only 512 bytes" and found.values == {"size": "512"}
    assert found.next == ("devkit run gemm -- --pool 2G",)


def test_own_findings_come_before_those_of_devkit() -> None:
    line = 'cannot locate symbol "x" referenced by "y"'
    own = results.own_finding("mine", pattern="locate symbol", meaning="seen", severity="note")
    report = results.parse(line, findings=[own], exit_code=0)
    assert [f.kind for f in report.findings] == ["mine"] and report.status == OK
    assert [f.kind for f in results.parse(line, exit_code=0).findings] == ["missing-symbol"]
