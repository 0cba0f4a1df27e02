"""A phone of root's namespaces: really, where user namespaces are refused, and what is different in it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.errors import SimError, UsageError
from devkit.sim import break_phone, heal_phone, namespaces, start_phone
from tests.e2e.support import REPO, Cli, Sim, TinyApp, eventually, start_sim

REFUSED = [sys.executable, str(REPO / "tests/support/docker_like.py"), "--users-only"]
SHELL_ID = 2000

pytestmark = pytest.mark.skipif(
    not namespaces.is_privileged(), reason="only root can make namespaces without a user namespace"
)


@pytest.fixture(scope="module")
def rooted(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    base = tmp_path_factory.mktemp("mit leer 手机")
    sim = start_sim("rooted", base, adb, confinement="root-namespaces", su=True)
    with sim.phone:
        yield sim
        log = (sim.phone.record.state_dir / "adbd.log").read_text()
    assert "Traceback" not in log and "late import" not in log, log


@pytest.fixture
def sim(rooted: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    """In place of the session's phone, for the fixtures that build on it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(rooted.state_home))
    return rooted


# ---- where user namespaces are refused


def in_refusing(*words: str | Path, home: Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*REFUSED, sys.executable, "-m", "devkit", *map(str, words)],
        cwd=cwd, env={**os.environ, "XDG_STATE_HOME": str(home)},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


def test_the_filter_refuses_user_namespaces_and_nothing_else() -> None:
    unshare = shutil.which("unshare")
    assert unshare
    for flags, wanted in (("-U", False), ("-m", True), ("-p", True), ("-mnpiu", True)):
        done = subprocess.run([*REFUSED, unshare, flags, "true"], capture_output=True, check=False)
        assert (done.returncode == 0) is wanted, flags


def test_root_gets_a_whole_phone_without_a_warning(tmp_path: Path, workdir: Path, tiny: TinyApp) -> None:
    home = tmp_path / "state 手机"
    started = in_refusing("sim", "start", "whole", "--json", home=home, cwd=workdir)
    try:
        assert started.returncode == 0, started.stderr
        assert json.loads(started.stdout)["confinement"] == "root-namespaces"
        assert "reduced" not in started.stderr
        ran = in_refusing("run", tiny.program, "-s", "sim:whole", home=home, cwd=workdir)
        assert (ran.returncode, ran.stdout) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n")
        shell = in_refusing("sim", "shell", "whole", "--", "id -u; ls /; echo $$", home=home, cwd=workdir)
        user, *names, pid = shell.stdout.split()
        assert user == "2000" and {"data", "system", "sdcard"} <= set(names) and int(pid) < 1000
    finally:
        assert in_refusing("sim", "stop", "whole", home=home, cwd=workdir).returncode == 0


def test_a_machine_that_refuses_both_gives_a_reduced_one(tmp_path: Path, adb: Path) -> None:
    """Root of a user namespace that may not make another, and has no user 2000: nothing hangs."""
    unshare = shutil.which("unshare")
    assert unshare
    code = (
        "import json, sys; from pathlib import Path; from devkit.sim import start_phone\n"
        "Path('/proc/sys/user/max_user_namespaces').write_text('0')\n"
        "with start_phone('both', adb=Path(sys.argv[1]), lifeline=True) as phone:\n"
        "    print(json.dumps([phone.record.confinement, phone.record.serial]))\n"
    )
    done = subprocess.run(
        [unshare, "-U", "-r", "-m", "-p", "-f", "--mount-proc", sys.executable, "-c", code, str(adb)],
        env={**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")},
        capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0] == "reduced"
    assert "max_user_namespaces" in done.stderr


def test_where_they_are_refused_too_it_says_what_they_take(tmp_path: Path, workdir: Path) -> None:
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "DEVKIT_SIM_CONFINEMENT": "root-namespaces",
    }
    done = subprocess.run(
        [*REFUSED[:2], sys.executable, "-m", "devkit", "sim", "start", "none"],
        cwd=workdir, env=environment, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 125 and "Traceback" not in done.stderr
    assert "without a user namespace" in done.stderr and "CAP_SYS_ADMIN" in done.stderr


def test_arm64_programs_need_a_user_namespace(adb: Path) -> None:
    with pytest.raises(SimError) as caught:
        start_phone("arm", adb=adb, confinement="root-namespaces", abi="arm64-v8a")
    assert "without a user namespace" in caught.value.what


def test_a_wrong_confinement_names_the_right_ones(adb: Path) -> None:
    with pytest.raises(UsageError) as caught:
        start_phone("x", adb=adb, confinement="root")
    assert "root-namespaces" in caught.value.hints[0]


# ---- what it is


def test_it_says_what_it_is(sim: Sim, device: Device, devkit: Cli) -> None:
    (status,) = devkit("sim", "status", "rooted", "--json").data
    assert status["confinement"] == "root-namespaces"
    assert device.is_virtual and not device.is_reduced
    assert device.writable_dir("/data/local/tmp/devkit") == "/data/local/tmp/devkit"


def test_users_are_real_ones(sim: Sim, device: Device, tmp_path: Path) -> None:
    device.shell(
        "echo mine >/data/local/tmp/mine; su -c 'cd /data/local/tmp; echo roots >roots; chmod 644 roots'"
    )
    assert device.shell("stat -c %U /data/local/tmp/mine /data/local/tmp/roots").text == "shell\nroot\n"
    data = sim.phone.record.state_dir / "data"
    assert ((data / "mine").stat().st_uid, (data / "roots").stat().st_uid) == (SHELL_ID, 0)
    refused = device.shell("echo no >>/data/local/tmp/roots")
    assert refused.exit_code != 0 and "Permission denied" in refused.stderr.decode()
    for folder in ("/data/tombstones", "/data/misc", "/data"):
        assert "Permission denied" in device.shell(f"ls {folder}").stderr.decode(), folder


def test_roots_rights_are_a_containers(sim: Sim, device: Device) -> None:
    """It is this machine's root: nothing of it may reach what is outside of the phone."""
    status = device.shell("su -c 'cat /proc/self/status'").text
    bounds = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapBnd"))
    for name, number in {
        "SYS_ADMIN": 21,
        "SYS_MODULE": 16,
        "SYS_RAWIO": 17,
        "MKNOD": 27,
        "SYS_TIME": 25,
    }.items():
        assert not bounds >> number & 1, name
    for command in (
        "mount -o remount,rw /system",
        "mknod /data/local/tmp/disk b 8 0",
        "echo 1 >/proc/sys/kernel/sysrq",
        "echo h >/proc/sysrq-trigger",
        "date -s 2001-01-01",
    ):
        done = device.shell(f"su -c '{command}'")
        assert done.exit_code != 0, command
    shells = device.shell("cat /proc/self/status").text
    assert "CapBnd:\t0000000000000000" in shells and "NoNewPrivs:\t1" in shells


def test_the_limit_of_user_namespaces_is_left_alone(sim: Sim) -> None:
    assert int(Path("/proc/sys/user/max_user_namespaces").read_text()) != 1


def test_services_work(sim: Sim, device: Device, tiny: TinyApp, devkit: Cli) -> None:
    assert devkit("run", tiny.program, "--", "abort").code == 134
    crash = device.shell("logcat -d -b crash -v brief").text
    assert "signal 6 (SIGABRT)" in crash and "#00 pc" in crash
    tombstone = device.shell("su -c 'cat /data/tombstones/tombstone_00'").text
    assert "uid: 2000" in tombstone
    assert device.shell("su -c 'log -t Roots hello'; logcat -d -s Roots").text.endswith("hello\n")
    device.shell("setprop debug.mine 1")
    assert device.shell("getprop debug.mine").text == "1\n"


def test_a_program_stops_at_a_breakpoint(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    batch = workdir / "check it.lldb"
    batch.write_text("frame variable\nbreakpoint delete --force\nprocess continue\n")
    ran = devkit("debug", tiny.program, "--break", "inner.cpp:4", "--batch", batch, "--json")
    assert ran.code == 7, ran.out + ran.err
    assert ran.data["stops"][0]["frames"][0]["function"] == "inner(int)"


def test_faults_and_a_reboot(sim: Sim, device: Device) -> None:
    boot = device.shell("cat /proc/sys/kernel/random/boot_id").text
    break_phone("rooted", "refuse", {"service": "sync:*"})
    assert heal_phone("rooted") == ["refuse"]
    break_phone("rooted", "reboot", {"down": 0.5})

    def is_back() -> bool:
        try:
            return sim.device().shell("cat /proc/sys/kernel/random/boot_id").text not in ("", boot)
        except Exception:
            return False

    assert eventually(is_back, within_s=30)


def test_nothing_is_left(tmp_path: Path, adb: Path) -> None:
    sim = start_sim("gone", tmp_path / "state", adb, confinement="root-namespaces", data_limit_bytes=1 << 24)
    sim.device().shell("echo x >/data/local/tmp/x; setsid sleep 4324 >/dev/null 2>&1 </dev/null &")
    state = sim.phone.record.state_dir
    sim.phone.stop()
    assert not state.exists()
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline") if path.exists()]
    assert not any(b"4324" in command for command in commands)
    assert str(state) not in Path("/proc/mounts").read_text()
