"""Case J1: what phones say about perf events, what is done then, and what simpleperf's refusals mean."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from devkit.profiling.phone_prepare import CLOSED, OPEN, UNKNOWN, meaning_of, parse_probe, refused

CASE = Path(__file__).parents[2] / "data/cases/J1"
PHONES: list[dict[str, Any]] = json.loads((CASE / "probe.json").read_text())


def said(phone: dict[str, Any]) -> str:
    return (
        f"type {phone['ro.build.type']}\nharden {phone['security.perf_harden']}\nmlock \n"
        f"paranoid {phone['perf_event_paranoid']}\nsimpleperf /system/bin/simpleperf\n"
    )


@pytest.mark.parametrize(
    ("name", "state"),
    [("locked", CLOSED), ("open", OPEN), ("setprop refused", CLOSED), ("proc not readable", UNKNOWN)],
)
def test_what_is_to_be_done(name: str, state: str) -> None:
    phone = next(phone for phone in PHONES if phone["name"] == name)
    found = parse_probe(said(phone))
    assert found.state == state
    assert found.build_type == "user"
    assert found.simpleperf == "/system/bin/simpleperf"
    # Not readable is no number, and no error.
    assert found.paranoid == (None if name == "proc not readable" else int(phone["perf_event_paranoid"]))


def test_a_phone_without_the_property_but_strict() -> None:
    """Before Android 7 there is no such property."""
    assert parse_probe("type user\nharden \nparanoid 3\nsimpleperf \n").state == UNKNOWN
    assert parse_probe("type user\nharden \nparanoid 1\nsimpleperf \n").state == OPEN
    assert parse_probe("").state == UNKNOWN


def test_a_refused_setprop_says_what_else_there_is() -> None:
    phone = next(phone for phone in PHONES if phone["name"] == "setprop refused")
    error = refused("SERIAL", parse_probe(said(phone)), phone["stderr"])
    text = " ".join([error.what, *error.hints])
    assert phone["stderr"] in (error.evidence or "")
    for word in ("userdebug", "--root", "debuggable"):
        assert word in text
    assert "adb root" not in text


@pytest.mark.parametrize(
    ("line", "words"),
    list(
        enumerate(
            [
                "perf_harden 0",
                "perf_harden 0",
                "needs root",
                '<profileable android:shell="true">',
                "without root",
            ]
        )
    ),
)
def test_what_simpleperf_says_and_what_helps(line: int, words: str) -> None:
    text = (CASE / "errors.txt").read_text().splitlines()[line]
    meaning, hints = meaning_of(text)
    assert words in " ".join([meaning, *hints])
    assert meaning != "simpleperf failed"
    assert "adb root" not in " ".join(hints)
