"""`devkit sim` as users type it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from devkit import sim as virtual
from devkit.sim.logfiles import follow_logs
from tests.e2e.support import Cli, Sim, eventually


@pytest.fixture
def phones(devkit: Cli):  # type: ignore[no-untyped-def]
    """Ends what a test has started."""
    yield devkit
    devkit("sim", "stop", "--all")
    assert virtual.list_phones() == []


def test_several_phones_with_links_models_and_releases(phones: Cli) -> None:
    assert phones("sim", "start", "--su", "--memory", "800mb").code == 0
    ran = phones(
        "sim", "start", "far", "--rate", "20mbit", "--delay-up", "10ms", "--android", "8", "--storage", "32mb"
    )
    assert ran.code == 0 and "its link: 20 Mbit/s, 10 ms up, 0 ms down" in ran.out
    listed = phones("sim", "list")
    assert [line.split()[0] for line in listed.out.splitlines()] == ["NAME", "far", "phone"]
    assert "20 Mbit/s" in listed.out and "unlimited" in listed.out
    ran = phones("sim", "shell", "far", "--", "getprop", "ro.build.version.release")
    assert ran.code == 0 and ran.out.startswith("8")
    assert phones("sim", "shell", "far", "--", "exit 5").code == 5
    ran = phones("sim", "shell", "far", "--", "df -k /data/local/tmp")
    assert 31_000 <= int(ran.out.split()[8]) <= 32_000
    # Two phones and no choice.
    assert phones("device", "shell", "--", "true").code == 125
    ran = phones("sim", "stop", "far", "--json")
    assert ran.data == {"stopped": ["far"]}


def test_break_status_heal(phones: Cli) -> None:
    phones("sim", "start", "b")
    ran = phones("sim", "break", "cut", "--name", "b", "--after", "5mb", "--direction", "up", "--json")
    assert ran.data["options"] == {"after": 5_000_000, "direction": "up", "repeat": False}
    assert phones("sim", "break", "refuse", "--name", "b", "--service", "sync:*").code == 0
    (status,) = phones("sim", "status", "b", "--json").data
    assert [fault["fault"] for fault in status["faults"]] == ["cut", "refuse"]
    assert "cut, refuse" in phones("sim", "status", "b").out
    assert phones("sim", "heal", "cut", "--name", "b").out == "b: healed cut\n"
    assert phones("sim", "heal", "--name", "b").out == "b: healed refuse\n"
    assert phones("sim", "heal", "--name", "b").out == "b: nothing was broken\n"
    ran = phones("sim", "slow", "--name", "b", "--rate", "5mbit", "--json")
    assert ran.data["rate_up_bits_s"] == 5e6


def test_the_list_of_faults_needs_no_phone(devkit: Cli) -> None:
    names = [fault["fault"] for fault in devkit("sim", "break", "--list", "--json").data]
    assert names == [
        "unplug", "offline", "slow", "cut", "corrupt", "refuse", "hang", "endless", "sizes", "hostile",
        "disk-full", "clock", "reboot",
    ]  # fmt: skip
    text = devkit("sim", "break", "--list").out
    assert all(name in text for name in names) and "--service" in text


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (("break",), 2, "which fault?"),
        (("break", "unplgu"), 2, "did you mean unplug?"),
        (("break", "unplug", "--name", "nobody"), 125, "no virtual phone named nobody is running"),
        (("break", "unplug", "--after", "3"), 2, "has no option --after"),
        (("heal", "x"), 125, "no virtual phone named phone is running"),
        (("slow",), 2, "how slow?"),
        (("slow", "--rate", "quick"), 2, "is not a rate"),
        (("logs", "nobody"), 125, "no virtual phone named nobody is running"),
        (("start", "x", "--rate", "1"), 2, "is not a rate"),
        (("start", "x", "--storage", "big"), 2, "is not a size"),
        (("start", "x", "--storage", "0"), 2, "--storage 4096 is the least"),
        (("start", "x", "--memory", "1mb"), 2, "--memory 16000000 is the least"),
        (("start", "x", "--android", "7"), 2, "known releases: 6, 8, 11"),
        (("start", "x", "--abi", "mips"), 2, "cannot run programs for mips"),
        (("start", "x", "--model", "sm8"), 2, "there is no phone model named sm8"),
        (("start", "x", "--reduced", "--abi", "arm64-v8a"), 2, "without a user namespace"),
        (("status", "nobody"), 125, "no virtual phone named nobody is running"),
        (("stop", "nobody"), 125, "no virtual phone named nobody is running"),
        (("status", "no/body"), 2, "cannot be the name of a phone"),
    ],
)
def test_mistakes(devkit: Cli, words: tuple[str, ...], code: int, message: str) -> None:
    ran = devkit("sim", *words)
    assert ran.code == code, ran.err
    assert message in ran.err


@pytest.mark.slow
def test_logs_of_all_its_processes(phones: Cli) -> None:
    phones("sim", "start", "l")
    phones("sim", "shell", "l", "--", "echo a line for the log")
    out = phones("sim", "logs", "l").out
    assert "adbd" in out and "a line for the log" in out and "adb-server" in out
    assert len(phones("sim", "logs", "l", "-n", "3").out.splitlines()) == 3
    entries = phones("sim", "logs", "l", "--json").data
    assert {entry["source"] for entry in entries} >= {"adbd", "adb-server"}


def test_logs_follow_until_the_phone_ends(phones: Cli, workdir: Path) -> None:
    phones("sim", "start", "f")
    command = [sys.executable, "-m", "devkit", "sim", "logs", "f", "--follow", "-n", "1"]
    follower = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert follower.stdout is not None
    # Whatever is logged from here on is seen.
    assert follower.stdout.readline()
    phones("sim", "shell", "f", "--", "echo seen live")
    line = ""
    while "seen live" not in line:
        line = follower.stdout.readline()
        assert line, "the log ended"
    phones("sim", "stop", "f")
    assert follower.wait(30) == 0
    follower.stdout.close()


def test_no_line_is_lost_between_what_was_there_and_what_comes(phones: Cli) -> None:
    phones("sim", "start", "g")
    (record,) = virtual.list_phones()
    shown = follow_logs("g", last=1)
    next(shown)
    with (record.state_dir / "adbd.log").open("a") as file:
        file.write("written while the first line was shown\n")
    # Ends with the line, or by the test's time limit.
    assert any(entry.text == "written while the first line was shown" for entry in shown)


def test_ctrl_c_ends_following(phones: Cli) -> None:
    phones("sim", "start", "c")
    follower = subprocess.Popen(
        [sys.executable, "-m", "devkit", "sim", "logs", "c", "-f"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert follower.stdout is not None
    assert follower.stdout.readline()
    follower.send_signal(signal.SIGINT)
    assert follower.wait(30) == 130
    follower.communicate()
    assert [record.name for record in virtual.list_phones()] == ["c"]


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("devkit sim stop sha", "shared"),
        ("devkit sim shell sh", "shared"),
        ("devkit sim logs s", "shared"),
        ("devkit sim break --name sh", "shared"),
        ("devkit sim break unp", "unplug"),
        ("devkit sim heal ho", "hostile"),
        ("devkit sim start x --model sm87", "sm8750"),
    ],
)
def test_names_are_completed(sim: Sim, line: str, wanted: str) -> None:
    words = line.split()
    done = subprocess.run(
        [sys.executable, "-m", "devkit"],
        env={
            **os.environ,
            "_DEVKIT_COMPLETE": "complete_bash",
            "COMP_WORDS": line,
            "COMP_CWORD": str(len(words) - 1),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert wanted in done.stdout.split(), done


def test_allow_an_unauthorized_computer(phones: Cli) -> None:
    phones("sim", "start", "shy", "--auth")
    assert eventually(lambda: "unauthorized" in phones("device", "list").out)
    ran = phones("sim", "allow", "shy")
    assert ran.code == 0 and "is allowed" in ran.out
    assert eventually(lambda: phones("sim", "shell", "shy", "--", "echo in").out == "in\n")


def test_a_reduced_phone(phones: Cli) -> None:
    ran = phones("sim", "start", "small", "--reduced", "--json")
    assert ran.code == 0 and ran.data["confinement"] == "reduced"
    assert phones("sim", "shell", "small", "--", "getprop ro.devkit.confinement").out == "reduced\n"
