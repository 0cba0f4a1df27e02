"""The language of scenarios: what it means, and that every complaint names file and line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from devkit.errors import UsageError
from devkit.scenario import parse_scenario
from devkit.scenario.language import Expectation, parse_time, text_test

WHOLE = """\
# a comment
steps:
  - start: phone
    rate: 20mbit
    storage: 64mb
    android: 11
  - shell: getprop ro.product.model
    expect: {output: Virtual, exit_code: 0}
  - run: [adb, push, big file, /data/local/tmp]
    as: push
  - after: 3mb
    within: 5s
  - break: cut
    after: 1mb
    direction: up
  - join: push
    expect: {exit_code: any, not_output: /pushed$/, within: 1min}
  - wait: offline
  - wait: 500ms
  - heal:
  - slow: {rate: unlimited, delay: 0}
  - at: 10s
  - stop: phone
"""


def test_a_whole_scenario() -> None:
    steps = parse_scenario(WHOLE, "a b.yaml").steps
    kinds = [step.kind for step in steps]
    assert kinds == [
        "start", "shell", "run", "after", "break", "join", "wait", "wait", "heal", "slow", "at", "stop",
    ]  # fmt: skip
    assert [step.line for step in steps][:3] == [3, 7, 9]
    start, shell, run, after, cut, join = steps[:6]
    assert start.options == {"rate": "20mbit", "storage": "64mb", "android": "11"}
    assert shell.expect == Expectation(exit_code=0, output="Virtual")
    assert (run.value, run.name) == (["adb", "push", "big file", "/data/local/tmp"], "push")
    assert (after.value, after.options) == (3_000_000, {"within": 5.0, "direction": "up"})
    assert cut.options == {"after": "1mb", "direction": "up"}
    assert join.expect == Expectation(exit_code=None, not_output="/pushed$/", within_s=60)
    assert (steps[6].value, steps[7].value, steps[10].value) == ("offline", 0.5, 10.0)
    assert cut.describe() == "break cut after=1mb direction=up"


@pytest.mark.parametrize(
    ("text", "place", "message", "hint"),
    [
        ("", ":1", "a scenario is a mapping", ""),
        ("steps: {}\n", ":1", "`steps` is a list", ""),
        ("other: []\n", ":1", "unknown key `other`", "known here: steps"),
        ("steps:\n  - shel: ls\n", ":2", "no such step: shel", "did you mean shell?"),
        ("steps:\n  - shell: ls\n    run: [x]\n", ":2", "not both", ""),
        ("steps:\n  - shell: ls\n    expct: {}\n", ":3", "unknown key `expct`", "did you mean expect?"),
        ("steps:\n  - shell: ls\n    expect: {code: 1}\n", ":3", "unknown key `code`", ""),
        ("steps:\n  - shell: ls\n    expect:\n      exit_code: zero\n", ":4", "`exit_code`", ""),
        ("steps:\n  - shell: ls\n    expect: {output: /(/}\n", ":3", "`output`", ""),
        ("steps:\n\n  - break: unplgu\n", ":3", "no fault named unplgu", "did you mean unplug?"),
        ("steps:\n  - break: refuse\n", ":2", "needs --service", ""),
        ("steps:\n  - break: unplug\n    after: 3\n", ":2", "no option --after", ""),
        ("steps:\n  - slow: fast\n", ":2", "`slow`", ""),
        ("steps:\n  - start: p\n    rate: quick\n", ":2", "is not a rate", "20mbit"),
        ("steps:\n  - wait: soon\n", ":2", "is not a time", ""),
        ("steps:\n  - wait: 1s\n    within: 2s\n", ":2", "`within` goes with a state", ""),
        ("steps:\n  - run: adb devices\n", ":2", "it takes a list", ""),
        ("steps:\n  - after: 1mb\n    direction: left\n", ":2", "up or down", ""),
        ("steps:\n  - {shell: a, shell: b}\n", ":2", "twice", ""),
        ("steps:\n  - [\n", ":3", "not YAML", ""),
        ("steps:\n  - wait: !!python/object:os.system 1\n", ":2", "not YAML", ""),
    ],
)
def test_complaints_name_the_line(text: str, place: str, message: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_scenario(text, "szenario 剧.yaml")
    assert caught.value.what.startswith(f"szenario 剧.yaml{place}: "), caught.value.what
    assert message in caught.value.what
    assert any(hint in each for each in caught.value.hints) or not hint


@pytest.mark.parametrize(("text", "seconds"), [("500ms", 0.5), ("2s", 2), ("1.5min", 90)])
def test_times(text: str, seconds: float) -> None:
    assert parse_time(text) == seconds


def test_the_example_of_the_documentation() -> None:
    document = (Path(__file__).parents[2] / "docs/virtual-phone.md").read_text("utf-8")
    (example,) = re.findall(r"^```yaml\n(.*?)^```", document, re.MULTILINE | re.DOTALL)
    steps = parse_scenario(example, "docs").steps
    assert {step.kind for step in steps} >= {
        "start",
        "shell",
        "run",
        "after",
        "break",
        "join",
        "wait",
        "heal",
    }


def test_texts_and_regular_expressions() -> None:
    assert text_test("a.c")("xa.cx") and not text_test("a.c")("abc")
    assert text_test("/^b.d$/")("abc\nbcd\n") and not text_test("/^b.d$/")("abcd")
