"""`devkit profile` on virtual phones: true shares and lines of stripped programs, and what it puts back."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devkit.device import Device
from devkit.profiling import load_profile
from devkit.sim.native import attach
from tests.e2e.support import REPO, Cli, eventually, left_on_phone, start_sim
from tests.e2e.terminal import Terminal
from tests.e2e.test_sim_simpleperf import SHARES, build_hot

HARDEN = "security.perf_harden"
LINES = {
    name: next(
        number
        for number, line in enumerate((REPO / "tests/data/profile/hot.c").read_text().splitlines(), 1)
        if f"line of {name}" in line
    )
    for name in SHARES
}


@pytest.fixture(scope="module")
def hot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_hot(tmp_path_factory.mktemp("hot 程序"), "-fomit-frame-pointer")


@pytest.fixture
def closed(device: Device) -> Iterator[Device]:
    """A phone that keeps perf events closed, as they come."""
    device.shell(
        f"setprop {HARDEN} 1; setprop debug.devkit.perf_locked 0; setprop debug.devkit.perf_refused 0"
    )
    yield device
    device.shell("setprop debug.devkit.perf_locked 0")


def rows(data: dict[str, Any]) -> dict[str, Any]:
    return {row["function"]: row for row in data["functions"]}


def has_worked(device: Device, command: str) -> bool:
    """A second of processor time: some hundred samples."""
    found = [e for e in device.list_processes() if " ".join(e.cmdline).endswith(command)]
    stat = device.shell(f"cat /proc/{found[0].pid}/stat").text.split() if found else []
    return len(stat) > 14 and int(stat[13]) + int(stat[14]) >= 100


def harden(device: Device) -> str:
    return device.shell(f"getprop {HARDEN}").text.strip()


def test_shares_and_lines_of_a_stripped_program(
    closed: Device, hot: Path, devkit: Cli, workdir: Path
) -> None:
    ran = devkit("profile", hot, "--json", "--html", "flames.html", "--", "1", "cat", stdin="in it goes\n")
    assert ran.code == 7, ran.err
    # The program's own output, with its input, is where --json leaves room for it.
    assert "in it goes\nstate 1\n" in ran.err
    found = rows(ran.data)
    for name, share in SHARES.items():
        assert 100 * found[name]["self_share"] == pytest.approx(share, abs=5)
        assert (Path(found[name]["file"]).name, found[name]["line"]) == ("hot.c", LINES[name])
    assert found["main"]["total_share"] > 0.95
    assert ran.data["command"][1:] == ["1", "cat"]
    assert (workdir / "flames.html").stat().st_size > 10_000
    # What was on the phone had no symbols, and the phone is as it was.
    there = closed.read_bytes("/data/local/tmp/devkit/hot/hot")
    assert b"sixty" in hot.read_bytes()
    assert b"sixty" not in there
    assert harden(closed) == "1"
    assert closed.shell("ls /data/local/tmp/devkit/.devkit-perf").text == ""
    again = devkit("profile", "--show", "last", "--annotate", "sixty")
    assert again.code == 0, again.err
    assert "line of sixty" in again.out


def test_ctrl_c_keeps_what_was_recorded(closed: Device, hot: Path, workdir: Path) -> None:
    words = [sys.executable, "-m", "devkit", "profile", hot, "--json", "--", "60"]
    process = subprocess.Popen(
        words,
        cwd=workdir,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert eventually(lambda: has_worked(closed, "devkit/hot/hot 60"), 60)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130, err
    data = json.loads(out)
    assert 100 * rows(data)["sixty"]["self_share"] == pytest.approx(60, abs=9)
    assert rows(data)["sixty"]["line"] == LINES["sixty"]
    assert (data["results"]["program_exit"], data["results"]["crashes"]) == (130, [])
    assert "what was recorded is kept" in err
    assert harden(closed) == "1"
    assert closed.shell("ls /data/local/tmp/devkit/.devkit-perf").text == ""
    assert eventually(lambda: not left_on_phone(closed, "devkit/hot/hot", "simpleperf"), 30)


@pytest.mark.slow
def test_ctrl_c_on_a_terminal_goes_to_the_program(closed: Device, hot: Path, workdir: Path) -> None:
    with Terminal("profile", str(hot), "--", "60", "thread") as terminal:
        assert eventually(lambda: has_worked(closed, "devkit/hot/hot 60 thread"), 60)
        terminal.type(b"\x03")
        terminal.wait_for(b"sixty", within_s=60)
        assert terminal.end() == 130
    assert harden(closed) == "1"


@pytest.mark.slow
def test_a_timeout_keeps_what_was_recorded(closed: Device, hot: Path, devkit: Cli) -> None:
    ran = devkit("profile", hot, "--timeout", "2", "--json", "--", "60")
    assert ran.code == 124, ran.err
    assert 100 * rows(ran.data)["sixty"]["self_share"] == pytest.approx(60, abs=9)


@pytest.mark.slow
def test_outputs_of_a_recorded_run_come_back(closed: Device, hot: Path, devkit: Cli, workdir: Path) -> None:
    (workdir / "devkit.yaml").write_text(f"apps: {{work: {{target: '{hot}', pull: [never.txt]}}}}\n")
    ran = devkit("profile", "work", "--json", "--pull", "made.txt", "--", "0.5", "file")
    assert ran.code == 7, ran.err
    results = ran.data["results"]
    assert (results["program_exit"], results["signal"]) == (7, None)
    assert results["outputs"]["missing"] == ["never.txt"]
    assert (workdir / "devkit-out/work/made.txt").read_text() == "made\n"


@pytest.mark.slow
def test_memory_and_load_beside_the_samples(closed: Device, hot: Path, devkit: Cli) -> None:
    ran = devkit("profile", hot, "--call-graph", "none", "--per-thread", "--json", "--", "1", "thread")
    assert ran.code == 7, ran.err
    state = Path(os.environ["XDG_STATE_HOME"])
    profile = load_profile(next(state.glob(f"devkit/profiles/*/{ran.data['run']}.devkit-profile")))
    # On one clock: what was measured beside the samples was measured while they were taken.
    begun, ended = min(profile.sample_time_ns), max(profile.sample_time_ns)
    memory = next(series for series in profile.series if series.name == "VmRSS")
    assert any(begun - 10**8 <= at <= ended + 10**9 for at in memory.times_ns)
    assert {"VmRSS", "VmHWM"} <= {series.name for series in profile.series}
    assert any(frame.function.startswith("thread worker") for frame in profile.frames)


@pytest.mark.slow
def test_a_running_process_by_its_name(closed: Device, hot: Path, devkit: Cli, tmp_path: Path) -> None:
    assert devkit("deploy", hot).code == 0
    with closed.open_shell("cd /data/local/tmp/devkit/hot; exec ./hot 60 thread") as stream:
        assert eventually(lambda: bool(left_on_phone(closed, "./hot")))
        ran = devkit("profile", "--attach", "hot", "--seconds", "1", "--symbols", hot.parent, "--json")
        stream.close()
    assert ran.code == 0, ran.err
    assert 100 * rows(ran.data)["sixty"]["self_share"] == pytest.approx(60, abs=8)
    assert harden(closed) == "1"


@pytest.mark.slow
def test_where_it_waits(closed: Device, hot: Path, devkit: Cli) -> None:
    ran = devkit("profile", hot, "--off-cpu", "--event", "sched:sched_switch", "--json", "--", "0.3", "sleep")
    assert ran.code == 7, ran.err
    assert ran.data["event"]["unit"] == "ns"
    assert rows(ran.data)["nap"]["total_share"] > 0.5


def test_a_phone_that_refuses_says_why(closed: Device, hot: Path, devkit: Cli) -> None:
    closed.shell("setprop debug.devkit.perf_locked 1")
    ran = devkit("profile", hot)
    assert ran.code == 125
    assert f"setprop {HARDEN} 0 was refused" in ran.err
    assert "userdebug" in ran.err
    assert not left_on_phone(closed, "hot/hot")


def test_files_from_elsewhere(devkit: Cli, hot: Path, closed: Device, workdir: Path) -> None:
    """A perf.data that somebody recorded by hand, and the text of a report."""
    closed.shell("mkdir -p /data/local/tmp/byhand")
    closed.push_bytes(hot.read_bytes(), "/data/local/tmp/byhand/hot", mode=0o755)
    done = closed.shell("cd /data/local/tmp/byhand; simpleperf record -g -f 1000 ./hot 0.3", timeout_s=60)
    assert done.exit_code == 0, done.stderr
    closed.pull("/data/local/tmp/byhand/perf.data", workdir / "perf.data")
    ran = devkit("profile", "--show", "perf.data", "--symbols", hot.parent, "--json")
    assert ran.code == 0, ran.err
    assert rows(ran.data)["sixty"]["line"] == LINES["sixty"]
    ran = devkit("profile", "--show", REPO / "tests/data/cases/J3/report.csv", "--json")
    assert ran.code == 0, ran.err
    assert "MNN::gemm<float, 4>(float*, float const*, unsigned long)" in rows(ran.data)
    ran = devkit("profile", "--show", REPO / "tests/data/cases/J3/empty.csv")
    assert (ran.code, "holds no samples" in ran.err) == (125, True)
    (workdir / "cut.data").write_bytes((workdir / "perf.data").read_bytes()[:2000])
    ran = devkit("profile", "--show", "cut.data")
    assert (ran.code, "cut off" in ran.err) == (125, True)


def test_the_plan_changes_nothing(closed: Device, hot: Path, devkit: Cli) -> None:
    ran = devkit("profile", hot, "--dry-run", "--json")
    assert ran.code == 0, ran.err
    assert ran.data["recorder"] == "/system/bin/simpleperf"
    assert ran.data["phone"][HARDEN] == "1"
    assert ran.data["phone"]["state"] == "closed"
    assert harden(closed) == "1"
    for words, hint in [
        (("--seconds", "3", hot), "--attach"),
        (("--call-graph", "lbr", hot), "--call-graph dwarf"),
        ((), "devkit profile APP"),
    ]:
        refused = devkit("profile", *words)
        assert (refused.code, hint in refused.err) == (2, True), refused.err


@pytest.mark.slow
def test_what_was_set_is_put_back_when_devkit_dies(
    closed: Device, hot: Path, devkit: Cli, workdir: Path
) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "devkit", "profile", hot, "--", "60"],
        cwd=workdir, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        assert eventually(lambda: bool(left_on_phone(closed, "devkit/hot/hot 60")), 60)
        assert harden(closed) == "0"
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        assert eventually(lambda: harden(closed) == "1", 30)
        assert eventually(lambda: not left_on_phone(closed, "devkit/hot/hot", "simpleperf"), 30)
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_another_build_on_the_phone_gives_no_lines(
    closed: Device, hot: Path, devkit: Cli, tmp_path: Path
) -> None:
    other = build_hot(tmp_path, "-O1")
    closed.shell("mkdir -p /data/local/tmp/elsewhere")
    closed.push_bytes(other.read_bytes(), "/data/local/tmp/elsewhere/hot", mode=0o755)
    with closed.open_shell("cd /data/local/tmp/elsewhere; exec ./hot 60") as stream:
        assert eventually(lambda: bool(left_on_phone(closed, "./hot 60")))
        ran = devkit("profile", "--attach", "hot", "--seconds", "0.5", "--symbols", hot.parent, "--json")
        stream.close()
    assert ran.code == 0, ran.err
    assert "sixty" not in rows(ran.data)
    assert any("here is only" in note for note in ran.data["notes"])


@pytest.mark.slow
def test_an_old_phone_gets_the_ndks(
    tmp_path_factory: pytest.TempPathFactory, adb: Path, hot: Path, devkit: Cli, standin: Path
) -> None:
    old = start_sim("old-profile", tmp_path_factory.mktemp("old"), adb, android="8")
    try:
        devices = {"XDG_STATE_HOME": str(old.state_home)}
        folder = standin / "simpleperf/bin/android" / {"aarch64": "arm64"}.get(os.uname().machine, "x86_64")
        folder.mkdir(parents=True)
        shutil.copy(attach.applet(), folder / "simpleperf")
        ran = devkit("profile", hot, "--ndk", standin, "--json", "--", "0.5", **devices)
        assert ran.code == 7, ran.err
        assert 100 * rows(ran.data)["sixty"]["self_share"] == pytest.approx(60, abs=9)
        pushed = old.device().shell("ls /data/local/tmp/devkit/.devkit-perf").text.split()
        assert len(pushed) == 1
        assert pushed[0].startswith("simpleperf-")
    finally:
        old.phone.stop()


@pytest.fixture
def standin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.standin_ndk import make_standin_ndk

    return make_standin_ndk(tmp_path_factory.mktemp("ndk"))


@pytest.mark.slow
def test_a_phone_with_su_is_opened_by_root(
    tmp_path_factory: pytest.TempPathFactory, adb: Path, hot: Path, devkit: Cli
) -> None:
    """setprop is refused to everybody there: recording works only where root could open the phone."""
    rooted = start_sim("rooted", tmp_path_factory.mktemp("rooted"), adb, su=True)
    try:
        phone = rooted.device()
        phone.shell("setprop debug.devkit.perf_locked 1")
        place = {"XDG_STATE_HOME": str(rooted.state_home)}
        ran = devkit("profile", hot, "--json", "--", "0.5", **place)
        assert ran.code == 7, ran.err
        assert "opening it with su" in ran.err
        assert 100 * rows(ran.data)["sixty"]["self_share"] == pytest.approx(60, abs=9)
        assert harden(phone) == "1"
    finally:
        rooted.phone.stop()
