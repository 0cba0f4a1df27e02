"""A phone on machines that refuse namespaces: forced, and really, under a filter like Docker's."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.errors import DeviceError, SimError, UsageError
from devkit.sim import break_phone, clock, heal_phone, start_phone
from tests.e2e.support import REPO, WHEEL_ADB, Cli, Sim, TinyApp, eventually, start_sim

DOCKER_LIKE = [sys.executable, str(REPO / "tests/support/docker_like.py")]
MAIN = (REPO / "tests/data/tiny/main.cpp").read_text().splitlines()


@pytest.fixture(scope="module")
def reduced(tmp_path_factory: pytest.TempPathFactory, adb: Path) -> Iterator[Sim]:
    sim = start_sim("reduced", tmp_path_factory.mktemp("mit leer 手机"), adb, confinement="reduced")
    with sim.phone:
        yield sim


@pytest.fixture
def sim(reduced: Sim, monkeypatch: pytest.MonkeyPatch) -> Sim:
    """In place of the session's phone, for the fixtures that build on it."""
    monkeypatch.setenv("XDG_STATE_HOME", str(reduced.state_home))
    return reduced


@pytest.fixture
def batch(workdir: Path) -> Path:
    file = workdir / "check it.lldb"
    file.write_text("frame variable\nbreakpoint delete --force\nprocess continue\n")
    return file


def below(pid: int) -> set[int]:
    """The processes below one; any of them may end while this looks."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{waiting.pop()}/task").iterdir():
                with contextlib.suppress(OSError):
                    children = {int(child) for child in (task / "children").read_text().split()} - found
                    found |= children
                    waiting += children
    return found


def running(pid: int, words: bytes) -> list[int]:
    """The processes below one whose command line holds the words."""
    found = []
    for child in below(pid):
        with contextlib.suppress(OSError):
            if words in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}/cmdline").exists() and state_of(pid) != "Z"}


def state_of(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


# ---- what it is


def test_it_says_what_it_is(sim: Sim, device: Device, devkit: Cli) -> None:
    assert sim.phone.record.confinement == "reduced"
    assert device.is_reduced and device.is_virtual and device.libc == "glibc"
    (status,) = devkit("sim", "status", "reduced", "--json").data
    assert status["confinement"] == "reduced"


def test_its_writable_folder_is_its_own(sim: Sim, device: Device) -> None:
    folder = device.writable_dir("/data/local/tmp/devkit")
    assert folder == f"{sim.phone.record.state_dir}/data/devkit"
    assert not Path("/data").exists()


def test_programs_write_nowhere_else(sim: Sim, device: Device, tmp_path: Path) -> None:
    if not has_landlock(sim):
        pytest.skip("this kernel has no Landlock")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    for command in (
        f"echo x > '{victim}'",
        f"rm '{victim}'",
        f"mkdir '{tmp_path}/new'",
        "echo x > /etc/devkit-x",
    ):
        assert device.shell(command).exit_code != 0, command
    assert victim.read_text() == "mine" and list(tmp_path.iterdir()) == [victim]
    assert (
        device.shell('echo fine > "$TMPDIR/x" && cat "$TMPDIR/x" && rm "$TMPDIR/x" > /dev/null').text
        == "fine\n"
    )
    with pytest.raises(DeviceError):
        device.push_bytes(b"x", f"{tmp_path}/pushed")


def test_properties_are_the_phones(sim: Sim, device: Device) -> None:
    assert device.properties["ro.product.model"] == "Virtual_Phone"
    assert device.shell("setprop debug.here 1; getprop debug.here").text == "1\n"


def test_faults_and_links_work_as_elsewhere(sim: Sim, device: Device) -> None:
    assert device.shell("true").exit_code == 0
    break_phone("reduced", "refuse", {"service": "shell*"})
    with pytest.raises(DeviceError):
        sim.device().shell("true")
    break_phone("reduced", "unplug")
    assert set(heal_phone("reduced")) == {"refuse", "unplug"}
    assert sim.device().shell("echo back").text == "back\n"
    with pytest.raises(SimError):
        break_phone("reduced", "disk-full")


def test_a_reboot_ends_its_programs(sim: Sim, device: Device) -> None:
    device.shell("setprop debug.gone 1; setsid sleep 4321 >/dev/null 2>&1 </dev/null &")
    keeper = sim.phone.record.pid
    # The program itself: the shell that starts it has the number in its command line, too.
    program = b"sleep\x004321\0"
    assert eventually(lambda: bool(running(keeper, program)), within_s=20)
    sleepers = set(running(keeper, program))
    assert sleepers
    break_phone("reduced", "reboot", {"down": 0.5})
    assert eventually(lambda: not alive(sleepers), within_s=20)

    def is_back() -> bool:
        try:
            return sim.device().shell("getprop debug.gone").text == "\n"
        except DeviceError:
            return False

    assert eventually(is_back, within_s=15)


# ---- its services


def shown(device: Device, buffers: str) -> str:
    return device.shell(f"logcat -d -b {buffers} -v brief").text


def test_it_has_a_log(sim: Sim, device: Device) -> None:
    device.shell("logcat -b all -c; log -p w -t Mine 'two words'")
    assert re.search(r"W/Mine +\( *\d+\): two words", shown(device, "main"))
    assert device.shell("logcat -S").text.startswith("size/num main")
    assert device.shell("logcat -g -b main").text.startswith("main: ring buffer is 1 MiB")
    device.shell("setprop log.tag.Quiet S")
    assert eventually(lambda: not device.shell("logcat -c; log -t Quiet unheard; logcat -d -s Quiet").text)
    following = subprocess.Popen(
        [WHEEL_ADB, "-P", str(sim.phone.record.adb_port), "-s", sim.phone.record.serial, "logcat", "-T", "1"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    try:
        device.shell("log -t Later arrives")
        assert following.stdout is not None
        assert any("arrives" in line for line in following.stdout)
    finally:
        following.kill()
        following.wait()
        following.stdout.close()


def test_the_example_engines_log_function_finds_it(sim: Sim, device: Device, tmp_path: Path) -> None:
    engine = REPO / "examples/mini-engine"
    (tmp_path / "main.cpp").write_text(
        "#include <MNN/AndroidLog.h>\n"
        'int main() { return __android_log_print(ANDROID_LOG_WARN, "Engine", "%d tokens", 7) != 1; }\n'
    )
    sources = [engine / "source/core/AndroidLog.cpp", tmp_path / "main.cpp"]
    program = tmp_path / "logs"
    subprocess.run(["g++", "-std=c++17", f"-I{engine}/include", *sources, "-o", program], check=True)
    done = device.shell(f"{shlex.quote(str(program))} && logcat -d -v tag -s Engine")
    assert done.text.endswith("W/Engine  : 7 tokens\n"), done


def test_a_crash_is_reported(
    sim: Sim, device: Device, tiny: TinyApp, devkit: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The phone's own report names functions by the program's symbols.
    monkeypatch.setenv("DEVKIT_DEPLOY_STRIP", "debug")
    device.shell("logcat -b all -c")
    assert devkit("run", tiny.program, "--", "abort").code == 134
    crash = shown(device, "crash")
    pid = re.search(r"pid: (\d+), tid: \1, name: tiny", crash)
    assert pid is not None, crash
    assert f"Fatal signal 6 (SIGABRT), code -6 (SI_TKILL) in tid {pid[1]} (tiny), pid {pid[1]}" in crash
    assert re.search(r"#\d\d pc [0-9a-f]{16}  .*/tiny \(.*main", crash), crash
    stored = device.shell('cat "$DEVKIT_TOMBSTONES"/tombstone_* | grep "^pid: "').text
    assert f"pid: {pid[1]}," in stored
    # The program's own user cannot change what was reported.
    assert device.shell('echo x >"$DEVKIT_TOMBSTONES"/tombstone_00').exit_code != 0 or not has_landlock(sim)


def test_programs_see_a_jump_of_the_clock(sim: Sim, device: Device) -> None:
    if not clock.can_preload():
        pytest.skip("this C library cannot wait by another clock")
    break_phone("reduced", "clock", {"by": 86_400})
    try:
        ask = shlex.join([sys.executable, "-c", "import time; print(int(time.time()))"])
        for told in (device.shell(ask).text, device.shell("date +%s").text):
            assert abs(int(told) - time.time() - 86_400) < 10
        device.shell("log -t Jump jumped")
        day = time.strftime("%m-%d", time.gmtime(time.time() + 86_400))
        assert f"{day} " in device.shell("logcat -d -s Jump").text
    finally:
        heal_phone("reduced", "clock")
    assert abs(int(device.shell("date +%s").text) - time.time()) < 10


def test_address_sanitizer_stands_behind_it(sim: Sim, device: Device, tmp_path: Path) -> None:
    (tmp_path / "p.cpp").write_text(
        "int main(int c, char **) { int *p = new int[c]; delete[] p; return p[0]; }"
    )
    command = ["g++", "-g", "-fsanitize=address", "p.cpp", "-o", "p"]
    build = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    if build.returncode != 0:
        pytest.skip("no AddressSanitizer here")
    done = device.shell(shlex.quote(str(tmp_path / "p")))
    assert done.exit_code == 1 and b"heap-use-after-free" in done.stderr, done


def test_memory_is_limited(tmp_path: Path, adb: Path) -> None:
    sim = start_sim("small", tmp_path / "state", adb, confinement="reduced", memory_limit_bytes=96 << 20)
    with sim.phone:
        device = sim.device()
        grow = "import time; x = bytearray(b'x') * (400 << 20); time.sleep(20)"
        assert device.shell(shlex.join([sys.executable, "-c", grow])).exit_code == 137
        log = shown(device, "main,kernel")
        assert "I/lowmemorykiller" in log and "Out of memory: Killed process" in log
        # Nothing of this machine was looked at: this test uses more than the phone may.
        assert device.shell("echo fine").text == "fine\n"


def test_the_log_of_before_a_reboot(sim: Sim, device: Device) -> None:
    device.shell("log -t Before reboot")
    break_phone("reduced", "reboot", {"down": 0.3})

    def is_back() -> bool:
        try:
            return "reboot" in sim.device().shell("logcat -L -s Before").text
        except DeviceError:
            return False

    assert eventually(is_back, within_s=20)
    assert "Before" not in sim.device().shell("logcat -d").text


def test_a_service_that_ends_comes_back(sim: Sim, device: Device) -> None:
    def daemons() -> list[int]:
        found = []
        for pid in below(sim.phone.record.pid):
            with contextlib.suppress(OSError):
                if Path(f"/proc/{pid}/comm").read_text() == "logd\n":
                    found.append(pid)
        return found

    # One that was started anew for the reboot of a test before may still be on its way.
    assert eventually(lambda: len(daemons()) == 1, within_s=20)
    os.kill(daemons()[0], signal.SIGKILL)
    assert eventually(
        lambda: "again" in device.shell("log -t Once again; logcat -d -s Once").text, within_s=20
    )


def test_what_it_cannot_have_is_said(tmp_path: Path, workdir: Path) -> None:
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    words = [sys.executable, "-m", "devkit", "sim"]

    def run(*more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*words, *more], env=environment, cwd=workdir, capture_output=True, text=True, check=False
        )

    started = run("start", "asks", "--reduced", "--su", "--storage", "64mb", "--json")
    try:
        assert started.returncode == 0, started.stderr
        assert "cannot be had: --su, --storage" in started.stderr
    finally:
        assert run("stop", "asks").returncode == 0


def has_landlock(sim: Sim) -> bool:
    return "no Landlock" not in (sim.phone.record.state_dir / "adbd.log").read_text()


# ---- devkit on it


def test_run(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("run", tiny.program)
    assert (ran.code, ran.out) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n")
    assert "warning" not in ran.err
    ran = devkit("run", tiny.program, "--", "cat", stdin="一 line\n" * 1000)
    assert (ran.code, ran.out) == (0, "一 line\n" * 1000)
    assert devkit("run", tiny.program, "--", "abort").code == 134


def test_debug_stops_with_locals_and_keeps_the_output(
    sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path
) -> None:
    ran = devkit("debug", tiny.program, "--break", "inner.cpp:4", "--batch", batch, "--json")
    assert ran.code == 7, ran.out + ran.err
    [stop] = ran.data["stops"]
    assert stop["frames"][0]["function"] == "inner(int)" and stop["frames"][1]["function"] == "main"
    assert {v["name"]: v["value"] for v in stop["locals"]} == {"value": "0", "doubled": "0"}
    for line in ("inner 0", "inner 2", "inner 4", "total 6"):
        assert line in ran.data["transcript"]
    assert "devkit-launch" in ran.data["transcript"]


def test_a_program_that_the_debugger_launches_has_the_phones_environment(
    sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path
) -> None:
    wanted = devkit("run", tiny.program, "--", "env", "PATH").out.strip()
    ran = devkit("debug", tiny.program, "-b", "main", "--batch", batch, "--json", "--", "env", "PATH")
    assert wanted and wanted in ran.data["transcript"]
    words = ["a b", "it's", "你好", "$HOME"]
    ran = devkit("debug", tiny.program, "-b", "main", "--batch", batch, "--json", "--", "args", *words)
    assert all(f"[{word}]" in ran.data["transcript"] for word in words)


def test_a_crash_under_the_debugger(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    script = workdir / "crash.lldb"
    script.write_text("process continue\nprocess continue\n")
    ran = devkit("debug", tiny.program, "--batch", script, "--json", "--", "abort")
    assert ran.code == 128 + signal.SIGABRT
    assert any("SIGABRT" in stop["reason"] for stop in ran.data["stops"])


def test_nothing_of_a_session_is_left(sim: Sim, tiny: TinyApp, devkit: Cli, batch: Path) -> None:
    before = below(sim.phone.record.pid)
    assert devkit("debug", tiny.program, "-b", "main", "--batch", batch).code == 7
    assert eventually(lambda: len(below(sim.phone.record.pid)) <= len(before))


# ---- its end


@pytest.mark.parametrize("how", ["stop", "kill", "keeper"])
def test_nothing_outlives_it(tmp_path: Path, adb: Path, how: str) -> None:
    sim = start_sim("ends", tmp_path / "state", adb, confinement="reduced")
    sim.device().shell(
        "(setsid sleep 4322 &) >/dev/null 2>&1 </dev/null; nohup sleep 4323 >/dev/null 2>&1 </dev/null &"
    )
    assert eventually(lambda: len(running(sim.phone.record.pid, b"sleep\x00432")) == 2, within_s=20)
    short = Path(sim.device().shell("echo $DEVKIT_SOCKETS").text.rstrip("\n"))
    assert short.is_dir()
    pids = below(sim.phone.record.pid)
    (keeper,) = [pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"devkit-phone")]
    if how == "kill":
        os.kill(sim.phone.record.pid, signal.SIGKILL)
    elif how == "keeper":
        os.kill(keeper, signal.SIGKILL)
    else:
        sim.phone.stop()
    assert eventually(lambda: not alive(pids), within_s=20), alive(pids)
    sim.phone.stop()
    assert not short.exists()


def test_a_wrong_confinement(adb: Path) -> None:
    with pytest.raises(UsageError) as caught:
        start_phone("x", adb=adb, confinement="jail")
    assert "reduced" in caught.value.hints[0]


# ---- on a machine that really refuses


@pytest.mark.slow
def test_where_namespaces_are_refused_it_falls_back_and_says_so(
    tmp_path: Path, adb: Path, workdir: Path, tiny: TinyApp, batch: Path
) -> None:
    """The same filter refuses `personality`: lldb-server cannot launch programs itself."""
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state 手机")}

    def devkit(*words: str | Path) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*DOCKER_LIKE, sys.executable, "-m", "devkit", *map(str, words)],
            cwd=workdir, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip

    started = devkit("sim", "start", "boxed", "--json")
    try:
        assert started.returncode == 0, started.stderr
        assert json.loads(started.stdout)["confinement"] == "reduced"
        assert "namespaces are refused" in started.stderr and "seccomp=unconfined" in started.stderr
        ran = devkit("run", tiny.program, "-s", "sim:boxed")
        assert (ran.returncode, ran.stdout) == (7, "inner 0\ninner 2\ninner 4\ntotal 6\n")
        debugged = devkit("debug", tiny.program, "-s", "sim:boxed", "-b", "inner", "--batch", batch, "--json")
        assert debugged.returncode == 7, debugged.stdout + debugged.stderr
        result = json.loads(debugged.stdout)
        assert result["stops"][0]["frames"][0]["function"] == "inner(int)"
        assert "total 6" in result["transcript"]
    finally:
        assert devkit("sim", "stop", "boxed").returncode == 0


@pytest.mark.slow
def test_a_phone_that_hides_its_confinement_is_debugged_all_the_same(
    tmp_path: Path, adb: Path, workdir: Path, tiny: TinyApp, batch: Path
) -> None:
    """The server's "personality set failed" alone leads to the other way of launching."""
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(tmp_path / "state"),
        "DEVKIT_SIM_CONFINEMENT": "reduced",
    }
    start = [*DOCKER_LIKE, sys.executable, "-m", "devkit", "sim", "start", "hidden", "--json"]
    started = subprocess.run(start, env=environment, capture_output=True, text=True, check=True)
    record = json.loads(started.stdout)
    try:
        # The marks of a virtual phone, of a reduced one no more.
        (Path(record["state_dir"]) / "properties/changed/ro.devkit.confinement").write_text("\n")
        ran = subprocess.run(
            [
                sys.executable, "-m", "devkit", "debug", str(tiny.program), "-s", "sim:hidden",
                "-b", "inner", "--batch", str(batch), "--json", "-v",
            ],
            cwd=workdir, env=environment, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert ran.returncode == 7, ran.stdout + ran.stderr
        assert "personality set failed" in ran.stderr
        assert json.loads(ran.stdout)["stops"][0]["frames"][0]["function"] == "inner(int)"
    finally:
        subprocess.run(
            [sys.executable, "-m", "devkit", "sim", "stop", "hidden"],
            env=environment,
            capture_output=True,
            check=True,
        )


@pytest.mark.slow
def test_the_demo_where_namespaces_are_refused(workdir: Path) -> None:
    done = subprocess.run(
        [*DOCKER_LIKE, sys.executable, "-m", "devkit", "demo", "--json"],
        cwd=workdir, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["exit_code"] == data["debugged_exit_code"] == 0
    assert {"libMNN.so", "libllm.so", "llm_demo"} <= {frame["module"] for frame in data["backtrace"]}
    assert any(value["value"] for value in data["locals"])
