"""`devkit sim run`: scenarios with real phones, real faults and real programs."""

from __future__ import annotations

from pathlib import Path

import adbutils
import pytest

from devkit import sim
from tests.e2e.support import Cli

# Not adb_path(): Debian's older adb may come first on the PATH.
ADB = Path(adbutils.__file__).parent / "binaries" / "adb"


@pytest.fixture
def run(devkit: Cli, workdir: Path):  # type: ignore[no-untyped-def]
    def run_text(text: str, *options: str):  # type: ignore[no-untyped-def]
        (workdir / "szene 景.yaml").write_text(text)
        return devkit("sim", "run", "szene 景.yaml", *options)

    return run_text


@pytest.mark.slow
def test_everything_at_once(run, workdir: Path) -> None:  # type: ignore[no-untyped-def]
    (workdir / "big file").write_bytes(bytes(6_000_000))
    ran = run(
        f"""\
steps:
  - start: phone
    rate: 40mbit
  - shell: getprop ro.product.model
    expect: {{output: Virtual_Phone}}
  - shell: exit 3
    expect: {{exit_code: 3}}
  - run: [{ADB}, push, -Z, big file, /data/local/tmp]
    as: push
  - after: 2mb
  - break: cut
    after: 1mb
    direction: up
  - join: push
    expect: {{exit_code: 1}}
  - wait: device
  - heal:
  - run: [{ADB}, push, -Z, big file, /data/local/tmp]
    expect: {{output: /1 file pushed/}}
  - break: unplug
  - wait: gone
  - at: 1s
  - heal: unplug
  - run: [devkit, device, shell, --, echo, still here]
    expect: {{output: still here}}
""",
        "--json",
    )
    assert ran.code == 0, ran.out + ran.err
    assert ran.data["passed"] and len(ran.data["steps"]) == ran.data["total"] == 15
    assert sim.list_phones() == []


def test_the_first_difference_ends_it(run) -> None:  # type: ignore[no-untyped-def]
    ran = run(
        "steps:\n  - start:\n  - shell: echo one; exit 4\n    expect: {output: one}\n  - shell: echo never\n"
    )
    assert ran.code == 1
    assert ran.out.startswith("szene 景.yaml:3: shell echo one; exit 4: exit code 4, expected 0\n")
    assert "| one" in ran.out and "never" not in ran.out
    assert sim.list_phones() == []


@pytest.mark.parametrize(
    ("expect", "problem"),
    [
        ("{output: two}", "its output does not hold 'two'"),
        ("{not_output: one}", "its output holds 'one'"),
        ("{output: /^tw/}", "does not hold"),
    ],
)
def test_what_differs_is_said(run, expect: str, problem: str) -> None:  # type: ignore[no-untyped-def]
    ran = run(f"steps:\n  - run: [echo, one]\n    expect: {expect}\n")
    assert ran.code == 1 and problem in ran.out


def test_a_program_that_does_not_end_is_ended(run) -> None:  # type: ignore[no-untyped-def]
    ran = run("steps:\n  - run: [sleep, '54321']\n    expect: {within: 300ms}\n")
    assert ran.code == 1 and "still running after 0.3 s" in ran.out
    sleeping = [p for p in Path("/proc").glob("[0-9]*/cmdline") if b"54321" in read(p)]
    assert sleeping == []


def read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("steps:\n  - shell: ls\n", ":2: the phone phone does not run"),
        ("steps:\n  - join: x\n", ":2: there is no program named x"),
        ("steps:\n  - shell: ls\n    expct: {}\n", ":3: unknown key `expct`"),
    ],
)
def test_mistakes_are_usage_errors_with_a_line(run, text: str, message: str) -> None:  # type: ignore[no-untyped-def]
    ran = run(text)
    assert ran.code == 2 and message in ran.err


def test_two_phones(run) -> None:  # type: ignore[no-untyped-def]
    ran = run(
        "steps:\n  - {start: a}\n  - {start: b, android: 11}\n"
        "  - {shell: getprop ro.build.version.release, phone: b, expect: {output: '11'}}\n"
        "  - {break: unplug, phone: a}\n  - {shell: echo fine, phone: b}\n"
        "  - {shell: echo gone, phone: a, expect: {exit_code: any, not_output: /^gone/}}\n"
    )
    assert ran.code == 0, ran.out + ran.err


def test_no_such_file(devkit: Cli) -> None:
    ran = devkit("sim", "run", "none.yaml")
    assert ran.code == 125 and "none.yaml" in ran.err
