"""Links and faults of the virtual phone as the real adb client sees them; every fault heals completely."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import stat
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import adbutils
import pytest

from devkit import sim
from devkit.errors import SimError, UsageError
from devkit.sim import Phone, clock
from devkit.sim.faults import FAULTS

ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
TMP = "/data/local/tmp"


class Phones:
    """The phone under test, and the real adb pointed at it."""

    def __init__(self, phone: Phone) -> None:
        self.record = phone.record
        self.name = phone.record.name

    def adb(self, *words: str | Path, timeout_s: float = 60) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [ADB, "-P", str(self.record.adb_port), "-s", self.record.serial, *map(str, words)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )

    def start(self, *words: str | Path) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [ADB, "-P", str(self.record.adb_port), "-s", self.record.serial, *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def shell(self, command: str) -> str:
        done = self.adb("shell", command)
        assert done.returncode == 0, done
        return done.stdout.decode()

    def state(self) -> str:
        """As `adb devices` lists it; "gone" when it does not."""
        command = [ADB, "-P", str(self.record.adb_port), "devices"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        for line in done.stdout.splitlines():
            if line.startswith(self.record.serial):
                return line.split("\t")[1]
        return "gone"

    def break_(self, fault: str, **options: object) -> None:
        sim.break_phone(self.name, fault, options)

    def heal(self, fault: str | None = None) -> list[str]:
        return sim.heal_phone(self.name, fault)

    def faults(self) -> list[str]:
        return [fault["fault"] for fault in sim.phone_status(self.name)["faults"]]


@pytest.fixture(scope="module", autouse=True)
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("state") / "leer zeichen 手机"
        patch.setenv("XDG_STATE_HOME", str(home))
        yield home


@pytest.fixture(autouse=True)
def _same_home(state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state_home))


@pytest.fixture(scope="module")
def started(state_home: Path) -> Iterator[Phone]:
    with sim.start_phone("faulty", adb=ADB, lifeline=True, data_limit_bytes=64_000_000) as phone:
        yield phone


@pytest.fixture
def phone(started: Phone) -> Iterator[Phones]:
    phones = Phones(started)
    yield phones
    phones.heal()
    sim.slow_phone(phones.name, rate="unlimited", delay="0")
    # Whatever was broken, nothing of it is left.
    assert phones.faults() == []
    assert phones.state() == "device"
    assert phones.shell("echo whole") == "whole\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "ein 文件.bin"
    path.write_bytes(random.Random(3).randbytes(8_000_000))
    return path


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.05)
    return condition()


# ---- links


@pytest.mark.parametrize(
    ("rate", "megabits", "size"),
    [
        pytest.param("1mbit", 1, 400_000, marks=pytest.mark.slow),
        ("20mbit", 20, 6_000_000),
        pytest.param("200mbit", 200, 48_000_000, marks=pytest.mark.slow),
    ],
)
def test_the_rate_is_right_both_ways(
    phone: Phones, tmp_path: Path, rate: str, megabits: float, size: int
) -> None:
    sim.slow_phone(phone.name, rate=rate)
    local, back = tmp_path / "raus 出", tmp_path / "rein 入"
    local.write_bytes(random.Random(1).randbytes(size))
    try:
        for words in (("push", "-Z", local, f"{TMP}/rate"), ("pull", "-Z", f"{TMP}/rate", back)):
            measured = []
            # The machine may be busy for one of them, which makes it slower, never faster.
            for _ in range(3):
                before = sim.phone_status(phone.name)
                begun = time.monotonic()
                done = phone.adb(*words)
                seconds = time.monotonic() - begun
                assert done.returncode == 0, done
                after = sim.phone_status(phone.name)
                key = "bytes_up" if words[0] == "push" else "bytes_down"
                measured.append((after[key] - before[key]) * 8 / seconds / 1e6)
                if measured[-1] >= megabits * 0.95:
                    break
            # What is in flight when the clock starts and ends is a queue of the link, at most.
            assert megabits * 0.93 <= max(measured) <= megabits * 1.05, measured
        assert back.read_bytes() == local.read_bytes()
    finally:  # it would fill the disk for the tests after this one
        phone.shell(f"rm -f {TMP}/rate")


def test_the_delay_is_right_each_way(phone: Phones) -> None:
    device = adbutils.AdbClient("127.0.0.1", phone.record.adb_port or 0).device(phone.record.serial)
    with device.open_transport() as connection:
        connection.send_command("sync:")
        connection.check_okay()

        def trip() -> float:
            """Milliseconds from a question to its answer over an open stream."""
            begun = time.monotonic()
            connection.send(b"STAT\x01\0\0\0/")
            assert connection.read(16)[:4] == b"STAT"
            return (time.monotonic() - begun) * 1000

        for up, down in ((10, 10), (50, 5), (0, 20)):
            sim.slow_phone(phone.name, rate="200mbit", delay_up=f"{up}ms", delay_down=f"{down}ms")
            trips = sorted(trip() for _ in range(25))
            # Two ways with 2 ms for each. A busy machine makes trips later, never earlier: the quickest one
            # tells what the link does, and a delay that counts twice or comes in steps shows there, too.
            assert up + down - 0.1 <= trips[0] <= up + down + 4, trips


def test_a_transfer_that_runs_is_slowed_and_sped_up(phone: Phones, file: Path) -> None:
    expected = hashlib.md5(file.read_bytes()).hexdigest()
    sim.slow_phone(phone.name, rate="8mbit")
    push = phone.start("push", "-Z", file, f"{TMP}/live")
    with pytest.raises(subprocess.TimeoutExpired):
        push.wait(1.0)
    begun = time.monotonic()
    sim.slow_phone(phone.name, rate="unlimited")
    assert push.wait(10) == 0
    assert time.monotonic() - begun < 3
    assert expected in phone.shell(f"md5sum {TMP}/live")
    push.communicate()


def test_an_unshaped_link_is_not_in_the_way(state_home: Path, file: Path) -> None:
    with sim.start_phone("free", adb=ADB, lifeline=True) as fresh:
        phones = Phones(fresh)
        assert phones.adb("push", file, TMP).returncode == 0
        status = sim.phone_status("free")
        assert (status["bytes_up"], status["bytes_down"]) == (0, 0)
        assert status["link"]["text"] == "unlimited"


def test_a_slow_link_from_the_start(state_home: Path) -> None:
    with sim.start_phone("slow", adb=ADB, lifeline=True, link=sim.link_from(delay="100ms")) as slow:
        begun = time.monotonic()
        assert Phones(slow).shell("echo there") == "there\n"
        assert time.monotonic() - begun >= 0.4


# ---- faults of the link


def test_unplugged_it_is_gone_and_comes_back(phone: Phones) -> None:
    running = phone.start("shell", "sleep 60")
    assert wait_until(lambda: "sleep" in phone.shell("ps -A"))
    phone.break_("unplug")
    phone.break_("unplug")
    assert phone.state() == "gone"
    assert running.wait(30) != 0
    running.communicate()
    time.sleep(1.2)
    assert phone.state() == "gone"
    assert phone.faults() == ["unplug"]
    assert phone.heal("unplug") == ["unplug"]
    # Usable as soon as heal returns.
    assert phone.state() == "device"
    assert phone.shell("echo back") == "back\n"


def test_offline_it_is_listed_and_does_nothing(phone: Phones) -> None:
    phone.break_("offline")
    assert wait_until(lambda: phone.state() == "offline")
    assert b"offline" in phone.adb("shell", "true").stderr
    time.sleep(1.2)
    assert phone.state() == "offline"
    phone.heal("offline")
    assert phone.shell("echo back") == "back\n"


def test_unplugged_while_offline(phone: Phones) -> None:
    phone.break_("offline")
    phone.break_("unplug")
    assert phone.state() == "gone"
    phone.heal("unplug")
    assert wait_until(lambda: phone.state() in ("offline", "gone"))
    assert phone.faults() == ["offline"]
    assert phone.adb("shell", "true").returncode != 0


def test_slow_is_a_fault_on_top_of_the_link(phone: Phones) -> None:
    sim.slow_phone(phone.name, delay="1ms")
    phone.break_("slow", delay="200ms", rate="10mbit")
    begun = time.monotonic()
    phone.shell("true")
    assert time.monotonic() - begun >= 0.8
    phone.heal("slow")
    assert sim.phone_status(phone.name)["link"]["text"] == "unlimited, 1 ms each way"

    def quick() -> bool:
        begun = time.monotonic()
        phone.shell("true")
        return time.monotonic() - begun < 0.8

    # A busy machine may be slow now and then, the link is so each time.
    assert wait_until(quick)


@pytest.mark.parametrize("direction", ["up", "down"])
def test_cut_in_the_middle_of_a_transfer(phone: Phones, file: Path, tmp_path: Path, direction: str) -> None:
    assert phone.adb("push", "-Z", file, f"{TMP}/whole").returncode == 0
    words: tuple[str | Path, ...] = ("push", "-Z", file, f"{TMP}/part")
    if direction == "down":
        words = ("pull", "-Z", f"{TMP}/whole", tmp_path / "part")
    phone.break_("cut", after="3mb", direction=direction)
    assert phone.adb(*words).returncode != 0
    (fault,) = sim.phone_status(phone.name)["faults"]
    assert fault["times"] == 1
    # Once is enough: the phone is back, and the same transfer goes through.
    assert wait_until(lambda: phone.state() == "device")
    assert phone.adb(*words).returncode == 0
    # Said again, it happens again.
    phone.break_("cut", after="3mb", direction=direction)
    assert phone.adb(*words).returncode != 0
    assert wait_until(lambda: phone.state() == "device")
    phone.break_("cut", after="3mb", direction=direction, repeat=True)
    for _ in range(2):
        assert phone.adb(*words).returncode != 0
        assert wait_until(lambda: phone.state() == "device")
    phone.heal("cut")
    assert phone.adb(*words).returncode == 0


# ---- faults of adbd


@pytest.mark.parametrize("direction", ["up", "down"])
def test_corrupt_bytes_arrive(phone: Phones, file: Path, tmp_path: Path, direction: str) -> None:
    local = tmp_path / "back"
    phone.break_("corrupt", every=1_000_003, direction=direction)
    if direction == "up":
        assert phone.adb("push", "-Z", file, f"{TMP}/spoiled").returncode == 0
        phone.heal()
        assert phone.adb("pull", "-Z", f"{TMP}/spoiled", local).returncode == 0
    else:
        assert phone.adb("push", "-Z", file, f"{TMP}/spoiled").returncode == 0
        assert phone.adb("pull", "-Z", f"{TMP}/spoiled", local).returncode == 0
    content, expected = local.read_bytes(), file.read_bytes()
    assert len(content) == len(expected)
    wrong = [i for i, (a, b) in enumerate(zip(content, expected, strict=True)) if a != b]
    assert 6 <= len(wrong) <= 8, wrong


def test_refused_services(phone: Phones, file: Path) -> None:
    phone.break_("refuse", service="sync:*")
    assert phone.adb("push", file, TMP).returncode != 0
    assert phone.shell("echo works") == "works\n"
    phone.break_("refuse", service="shell*")
    assert phone.adb("shell", "true").returncode != 0
    assert phone.adb("push", file, TMP).returncode == 0


def test_an_answer_hangs_in_the_middle_and_goes_on_when_healed(phone: Phones) -> None:
    phone.break_("hang", after=5000, service="shell*")
    hanging = phone.start("shell", "-T", "seq 5000")
    assert hanging.stdout is not None
    # A short answer is not hit.
    assert phone.shell("echo short") == "short\n"
    got = bytearray()
    reader = threading.Thread(target=lambda: got.extend(hanging.stdout.read() if hanging.stdout else b""))
    reader.start()
    time.sleep(0.7)
    assert hanging.poll() is None
    phone.heal("hang")
    reader.join(30)
    assert hanging.wait(30) == 0
    assert got.decode() == "".join(f"{i}\n" for i in range(1, 5001))


def test_a_hanging_stream_can_be_given_up(phone: Phones) -> None:
    phone.break_("hang", after=0)
    hanging = phone.start("shell", "echo never; exec sleep 77.7")
    time.sleep(0.5)
    assert hanging.poll() is None
    hanging.kill()
    assert hanging.communicate()[0] == b""
    phone.heal()
    assert wait_until(lambda: "sleep 77.7" not in phone.shell("ps -A -o ARGS"))


def test_endless_output(phone: Phones) -> None:
    phone.break_("endless")
    endless = phone.start("shell", "-T", "echo first; exec echo second")
    assert endless.stdout is not None
    assert [endless.stdout.readline() for _ in range(4)] == [
        b"first\n", b"second\n", b"and so on\n", b"and so on\n",
    ]  # fmt: skip
    assert len(endless.stdout.read(1_000_000)) == 1_000_000
    endless.kill()
    endless.communicate()
    phone.heal()
    assert wait_until(lambda: "yes" not in phone.shell("ps -A -o NAME").split())


def test_sizes_are_lies(phone: Phones, tmp_path: Path) -> None:
    phone.shell(f"mkdir -p {TMP}/lie && echo 12345 > {TMP}/lie/f")
    device = adbutils.AdbClient("127.0.0.1", phone.record.adb_port or 0).device(phone.record.serial)
    for by, told in ((1000, 1006), (-4, 2), (-100, 0)):
        phone.break_("sizes", by=by)
        assert device.sync.stat(f"{TMP}/lie/f").size == told
        (listed,) = [entry for entry in device.sync.list(f"{TMP}/lie") if entry.path == "f"]
        assert listed.size == told
        assert b"".join(device.sync.iter_content(f"{TMP}/lie/f")) == b"12345\n"
        # Folders have no size to lie about.
        assert stat.S_ISDIR(device.sync.stat(f"{TMP}/lie").mode)
    phone.heal()
    assert device.sync.stat(f"{TMP}/lie/f").size == 6


def test_hostile_names_properties_and_processes(phone: Phones, tmp_path: Path) -> None:
    before = phone.shell(f"ls -A {TMP}")
    properties = phone.shell("getprop ro.product.model")
    phone.break_("hostile")
    phone.break_("hostile")
    listed = phone.adb("shell", "-T", f"ls -A {TMP} | cat").stdout
    for part in (b"new\nline", b"\x1b[31mred", b"\xff\xfe", b"x" * 255, b"-rf"):
        assert part in listed
    assert b"\x1b[31m_Phone" in phone.adb("shell", "-T", "getprop ro.product.model").stdout
    names = phone.adb("shell", "-T", "cat /proc/[0-9]*/cmdline").stdout
    assert b"\x1b[31mevil\x1b[0m\n\xff name" in names
    device = adbutils.AdbClient("127.0.0.1", phone.record.adb_port or 0).device(phone.record.serial)
    with suppress(UnicodeDecodeError):
        device.sync.list(TMP)
    phone.heal()
    assert phone.shell(f"ls -A {TMP}") == before
    assert phone.shell("getprop ro.product.model") == properties
    assert b"evil" not in phone.adb("shell", "-T", "cat /proc/[0-9]*/cmdline").stdout


def test_the_disk_is_full_and_empties_again(phone: Phones, file: Path) -> None:
    before = phone.shell(f"df -k {TMP}").split()[-3]
    phone.break_("disk-full", leave="1mb")
    failed = phone.adb("push", "-Z", file, f"{TMP}/fat")
    assert failed.returncode != 0 and b"No space left on device" in failed.stdout + failed.stderr
    assert phone.adb("shell", f"head -c 2000000 /dev/zero > {TMP}/zeros").returncode != 0
    phone.shell(f"rm -f {TMP}/zeros")
    assert phone.shell(f"head -c 500000 /dev/zero > {TMP}/zeros; rm {TMP}/zeros; echo ok") == "ok\n"
    phone.heal("disk-full")
    assert phone.shell(f"df -k {TMP}").split()[-3] == before
    assert phone.adb("push", "-Z", file, f"{TMP}/fat").returncode == 0


def test_a_disk_without_limit_cannot_be_full(state_home: Path) -> None:
    with sim.start_phone("big", adb=ADB, lifeline=True):
        with pytest.raises(SimError) as caught:
            sim.break_phone("big", "disk-full")
        assert "--storage" in (caught.value.evidence or "")
        assert sim.phone_status("big")["faults"] == []


def test_a_reboot_ends_everything_and_renews_the_boot(phone: Phones, tmp_path: Path) -> None:
    mark = "cat /proc/sys/kernel/random/boot_id; cut -d. -f1 /proc/uptime"
    phone.shell(f"echo stays > {TMP}/stays; setprop debug.goes 1; setsid sleep 500 >/dev/null 2>&1 &")
    time.sleep(1.5)
    boot, uptime = phone.shell(mark).split()
    phone.break_("reboot", down=1)
    assert wait_until(lambda: phone.state() != "device")
    assert wait_until(lambda: phone.state() == "device")
    new_boot, new_uptime = phone.shell(mark).split()
    assert new_boot != boot
    assert int(new_uptime) <= max(2, int(uptime))
    assert phone.shell(f"cat {TMP}/stays; getprop debug.goes") == "stays\n\n"
    assert "sleep" not in phone.shell("ps -A")
    assert phone.faults() == []


def test_faults_survive_a_reboot(phone: Phones) -> None:
    phone.break_("refuse", service="sync:*")
    phone.break_("reboot", down=0.5)
    assert wait_until(lambda: phone.state() != "device")
    assert wait_until(lambda: phone.state() == "device")
    assert phone.adb("pull", "/system/bin/sh", os.devnull).returncode != 0


def test_the_clock_jumps(phone: Phones) -> None:
    def behind() -> float:
        return int(phone.shell("date +%s")) - time.time()

    assert abs(behind()) < 5
    for by in (86_400, -7200):
        phone.break_("clock", by=by)
        assert abs(behind() - by) < 5
        year = time.strftime("%Y-%m-%d", time.gmtime(time.time() + by))
        assert phone.shell("date -u +%Y-%m-%d") == f"{year}\n"
        # A time that was asked for is no clock.
        assert phone.shell("date -u -d @0 +%Y") == "1970\n"
    phone.heal("clock")
    assert abs(behind()) < 5


@pytest.fixture(scope="module")
def clock_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("uhr 时钟") / "clock"
    compiler = shutil.which("g++") or shutil.which("clang++")
    assert compiler, "script/test installs a compiler"
    source = Path(__file__).parents[1] / "data/clock/clock.cpp"
    # The phone has no C++ library.
    flags = ["-O1", "-pthread", "-static-libstdc++", "-static-libgcc"]
    subprocess.run([compiler, *flags, source, "-o", program], check=True)
    return program


@pytest.mark.skipif(not clock.can_preload(), reason="this C library cannot wait by another clock")
@pytest.mark.parametrize("by", [86_400, -7200, 400_000_000])
def test_programs_see_the_jump_and_wait_as_long_as_before(
    phone: Phones, clock_program: Path, by: int
) -> None:
    assert phone.adb("push", clock_program, "/data/local/tmp/clock").returncode == 0
    phone.break_("clock", by=by)
    words = [line.split() for line in phone.shell("/data/local/tmp/clock").splitlines()]
    times = [int(value) for name, value in words if name == "time"]
    waits = {name: float(value) for name, value in words if name != "time"}
    assert len(times) == 6 and all(abs(told - time.time() - by) < 10 for told in times), times
    assert len(waits) == 6 and all(0.15 < waited < 5 for waited in waits.values()), waits
    phone.heal("clock")
    told = int(phone.shell("/data/local/tmp/clock | head -n 1").split()[1])
    assert abs(told - time.time()) < 10


@pytest.mark.skipif(not clock.can_preload(), reason="this C library cannot wait by another clock")
def test_a_running_program_sees_the_clock_jump_again(phone: Phones, clock_program: Path) -> None:
    assert phone.adb("push", clock_program, "/data/local/tmp/clock").returncode == 0
    phone.break_("clock", by=5000)
    command = [ADB, "-P", str(phone.record.adb_port), "-s", phone.record.serial]
    with subprocess.Popen(
        [*command, "shell", "-T", "/data/local/tmp/clock follow"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
    ) as running:  # fmt: skip
        assert running.stdin and running.stdout
        assert abs(int(running.stdout.readline()) - time.time() - 5000) < 10
        for ahead in (-9000, 0):
            if ahead:
                phone.break_("clock", by=ahead)
            else:
                phone.heal("clock")
            running.stdin.write("\n")
            running.stdin.flush()
            assert abs(int(running.stdout.readline()) - time.time() - ahead) < 10
        running.stdin.close()


def test_the_log_tombstones_and_times_of_files_agree_with_the_jump(phone: Phones, tmp_path: Path) -> None:
    by = 40 * 86_400
    day = time.strftime("%m-%d", time.gmtime(time.time() + by))
    phone.break_("clock", by=by)
    phone.shell("logcat -c; log -t Jumped hello; sh -c 'kill -SEGV $$'; true")
    logged = phone.shell("logcat -d -b main,crash -v year")
    stamps = {line[5:10] for line in logged.splitlines() if not line.startswith("-----")}
    next_day = time.strftime("%m-%d", time.gmtime(time.time() + by))
    assert stamps <= {day, next_day} and "Jumped" in logged and "signal 11" in logged
    (tmp_path / "tree/inner").mkdir(parents=True)
    (tmp_path / "tree/inner/file").write_text("x")
    os.utime(tmp_path / "tree/inner/file", (1_000_000_000, 1_000_000_000))
    assert phone.adb("push", tmp_path / "tree", "/data/local/tmp/jumped").returncode == 0
    phone.shell("touch /data/local/tmp/touched")
    names = "/data/local/tmp/jumped /data/local/tmp/touched"
    for told in phone.shell(f"stat -c %Y {names}").split():
        assert abs(int(told) - time.time() - by) < 60
    # A pushed file has the time the host gave it, whatever the phone's clock says.
    assert phone.shell("stat -c %Y /data/local/tmp/jumped/inner/file") == "1000000000\n"
    phone.shell("rm -r /data/local/tmp/jumped /data/local/tmp/touched")


# ---- the desk


def test_every_fault_is_known_by_name_and_one_line() -> None:
    assert len(FAULTS) >= 13
    for fault in FAULTS.values():
        assert fault.summary.endswith(".") and "\n" not in fault.summary and len(fault.summary) <= 100


@pytest.mark.parametrize(
    ("fault", "options", "message"),
    [
        ("unplgu", {}, "no fault named unplgu"),
        ("refuse", {}, "needs --service"),
        ("cut", {"by": 1}, "has no option --by"),
        ("cut", {"after": "soon"}, "is not a size"),
        ("cut", {"after": 0}, "at least 1"),
        ("cut", {"direction": "left"}, "one of up, down, both"),
        ("slow", {"rate": "fast"}, "is not a rate"),
        ("reboot", {"down": -1}, "between 0 and 600"),
    ],
)
def test_wrong_wishes(phone: Phones, fault: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError) as caught:
        phone.break_(fault, **options)
    assert message in caught.value.what
    assert caught.value.hints or "sense" in caught.value.what


def test_healing_what_is_whole_and_what_does_not_exist(phone: Phones) -> None:
    assert phone.heal() == [] and phone.heal("cut") == []
    with pytest.raises(UsageError):
        phone.heal("cute")


def test_no_such_phone(phone: Phones) -> None:
    with pytest.raises(SimError) as caught:
        sim.break_phone("fautly", "unplug")
    assert "did you mean faulty?" in caught.value.hints


def test_the_control_socket_is_the_users_own(phone: Phones) -> None:
    assert stat.S_IMODE((phone.record.state_dir / "control").stat().st_mode) == 0o600


@pytest.mark.parametrize("rubbish", [b"", b"\n", b"{]\n", b"[]\n", b'{"op": "explode"}\n', b"x" * 2_000_000])
def test_rubbish_on_the_control_socket(phone: Phones, rubbish: bytes) -> None:
    import socket

    from devkit.sim.control import _short_path

    with socket.socket(socket.AF_UNIX) as sock:
        sock.settimeout(10)
        with _short_path(phone.record.state_dir) as path:
            sock.connect(path)
        with suppress(OSError):
            sock.sendall(rubbish)
        with suppress(OSError):
            sock.shutdown(socket.SHUT_WR)
            while sock.recv(4096):
                pass
    assert phone.faults() == []
