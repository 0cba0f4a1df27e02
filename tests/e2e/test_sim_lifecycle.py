"""Birth and death of virtual phones: nothing is left, whoever dies; failures say what to do."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from devkit import paths, sim
from devkit.errors import SimError
from devkit.sim import Phone, PhoneRecord
from tests.e2e.support import WHEEL_ADB

ADB = WHEEL_ADB
NOBODY = 65534


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "leer zeichen 手机"
    monkeypatch.setenv("XDG_STATE_HOME", str(home))
    return home


def adb(record: PhoneRecord, *arguments: str, timeout_s: float = 20) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [ADB, "-H", "127.0.0.1", "-P", str(record.adb_port), "-s", record.serial, *arguments],
        capture_output=True,
        timeout=timeout_s,
        check=False,
    )


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


def descendants(pid: int) -> set[int]:
    """All processes below `pid`, those inside the phone included."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        current = waiting.pop()
        for task in Path(f"/proc/{current}/task").iterdir():
            children = {int(child) for child in (task / "children").read_text().split()}
            waiting.extend(children - found)
            found |= children
    return found


def alive(pids: set[int]) -> set[int]:
    return {pid for pid in pids if Path(f"/proc/{pid}").exists() and not is_zombie(pid)}


def is_zombie(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def can_connect(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def start_busy_phone(**options: object) -> tuple[Phone, set[int]]:
    """A phone with a program and a daemon of its own, and all its processes."""
    phone = sim.start_phone("busy", adb=ADB, **options)  # type: ignore[arg-type]
    command = "setsid sleep 300 >/dev/null 2>&1 </dev/null & nohup sleep 301 >/dev/null 2>&1 &"
    assert adb(phone.record, "shell", command).returncode == 0
    pids = {phone.record.pid} | descendants(phone.record.pid)
    # Supervisor, adb server, warden, init, adbd, two programs.
    assert len(pids) >= 7
    return phone, pids


def check_nothing_is_left(record: PhoneRecord, pids: set[int], state_home: Path) -> None:
    assert wait_until(lambda: not alive(pids)), alive(pids)
    assert not can_connect(record.port)
    assert record.adb_port is not None
    assert not can_connect(record.adb_port)
    assert str(state_home) not in Path("/proc/self/mountinfo").read_text().replace("\\040", " ")
    assert sim.list_phones() == []


# ---- ends


def test_stop_leaves_nothing(state_home: Path) -> None:
    phone, pids = start_busy_phone()
    record = phone.record
    assert sim.list_phones() == [record]
    started = time.monotonic()
    assert sim.stop_phone("busy") == record
    assert time.monotonic() - started < 3
    phone.stop()
    check_nothing_is_left(record, pids, state_home)
    assert not record.state_dir.exists()
    leftovers = [path for path in state_home.rglob("*") if not path.is_dir()]
    assert leftovers == []


def test_sigkill_of_the_supervisor_leaves_no_process_mount_or_port(state_home: Path) -> None:
    phone, pids = start_busy_phone()
    os.kill(phone.record.pid, signal.SIGKILL)
    phone._child.wait()
    check_nothing_is_left(phone.record, pids, state_home)
    # What lies on the disk goes with the next start.
    with sim.start_phone("another"):
        assert not phone.record.state_dir.exists()
        assert not list(paths.adb_server_registry().glob("*.json"))


def test_death_of_the_owner_ends_the_phone(state_home: Path) -> None:
    script = f"""
        import os, sys, time
        from pathlib import Path
        from devkit import sim
        phone = sim.start_phone("owned", adb=Path({str(ADB)!r}), lifeline=True)
        print(phone.record.pid, flush=True)
        time.sleep(60)
    """
    owner = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pid = int(owner.stdout.readline())
    (record,) = sim.list_phones()
    pids = {pid} | descendants(pid)
    owner.kill()
    owner.communicate()
    check_nothing_is_left(record, pids, state_home)
    assert wait_until(lambda: not record.state_dir.exists())


def test_a_phone_without_lifeline_outlives_its_starter(state_home: Path) -> None:
    script = "from devkit import sim; print(sim.start_phone('free').record.pid)"
    subprocess.run([sys.executable, "-c", script], check=True, capture_output=True)
    (record,) = sim.list_phones()
    assert record.name == "free"
    assert can_connect(record.port)
    sim.stop_phone("free")
    assert sim.list_phones() == []


def test_death_of_the_phones_init_ends_all_of_it(state_home: Path) -> None:
    phone, pids = start_busy_phone()
    (init,) = (pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().rstrip(b"\0") == b"init")
    os.kill(init, signal.SIGKILL)
    check_nothing_is_left(phone.record, pids, state_home)
    phone.stop()


def test_files_that_programs_locked_up_are_removed_too() -> None:
    phone = sim.start_phone("locked", adb=ADB)
    command = "cd /data/local/tmp && mkdir -p a/b && touch a/b/c && chmod 0 a/b/c a/b a"
    assert adb(phone.record, "shell", command).returncode == 0
    phone.stop()
    assert not phone.record.state_dir.exists()


def test_a_context_manager_stops_the_phone() -> None:
    with sim.start_phone("context") as phone:
        assert can_connect(phone.record.port)
    assert not can_connect(phone.record.port)
    phone.stop()


# ---- several, and foreign servers


@pytest.fixture
def server(tmp_path: Path) -> int:
    """An adb server that is not the phone's."""
    from devkit.sim.adbserver import PrivateServer

    started = PrivateServer(ADB, tmp_path / "foreign")
    started.start()
    yield started.address[1]  # type: ignore[misc]
    assert not started.has_ended()
    started.stop()


def devices(port: int) -> dict[str, str]:
    listing = subprocess.run(
        [ADB, "-H", "127.0.0.1", "-P", str(port), "devices"], capture_output=True, check=True
    )
    return dict(line.split("\t") for line in listing.stdout.decode().splitlines() if "\t" in line)


def test_two_phones_on_one_existing_server(server: int) -> None:
    address = ("127.0.0.1", server)
    with sim.start_phone("one", connect_to=address) as one, sim.start_phone("two", connect_to=address) as two:
        assert devices(server) == {one.record.serial: "device", two.record.serial: "device"}
        for phone in (one, two):
            assert (
                adb(phone.record, "shell", f"echo {phone.record.name} >/data/local/tmp/name").returncode == 0
            )
            serial = adb(phone.record, "shell", "getprop ro.serialno").stdout
            assert serial.startswith(b"SIM")
        assert adb(one.record, "shell", "cat /data/local/tmp/name").stdout == b"one\n"
        assert adb(two.record, "shell", "cat /data/local/tmp/name").stdout == b"two\n"
        # Each has its own network and its own processes.
        assert adb(one.record, "shell", "ps -A").stdout.count(b"adbd") == 1
    # Stopped phones are not left behind as offline.
    assert devices(server) == {}


def test_a_phone_that_lost_its_server_connection_comes_back(server: int) -> None:
    with sim.start_phone("back", connect_to=("127.0.0.1", server)) as phone:
        serial = phone.record.serial
        subprocess.run(
            [ADB, "-H", "127.0.0.1", "-P", str(server), "disconnect", serial], check=True, capture_output=True
        )
        assert wait_until(lambda: devices(server) == {serial: "device"}, 10)


def test_the_private_server_is_announced_and_withdrawn() -> None:
    with sim.start_phone("registered", adb=ADB) as phone:
        entry = json.loads((paths.adb_server_registry() / "sim-registered.json").read_text())
        assert entry["origin"] == "sim"
        assert (entry["host"], entry["port"]) == (phone.record.adb_host, phone.record.adb_port)
        assert entry["serials"] == [phone.record.serial]
        assert entry["pid"] == phone.record.pid
        written = json.loads((phone.record.state_dir / "phone.json").read_text())
        assert written == phone.record.as_dict()
    assert not list(paths.adb_server_registry().glob("*"))


def test_an_adb_that_cannot_be_given_a_socket(tmp_path: Path) -> None:
    # Debian's adb 29 does not know acceptfd.
    old = tmp_path / "old adb"
    old.write_text(
        f'#!/bin/sh\ncase "$2" in acceptfd:*) echo "unknown socket" >&2; exit 1;; esac\nexec "{ADB}" "$@"\n'
    )
    old.chmod(0o755)
    with sim.start_phone("old", adb=old) as phone:
        assert adb(phone.record, "shell", "echo ok").stdout == b"ok\n"


# ---- limits and failures


def test_a_full_disk_is_said_and_leaves_the_phone_alive(tmp_path: Path) -> None:
    (tmp_path / "big").write_bytes(bytes(3 * 1024 * 1024))
    with sim.start_phone("small", adb=ADB, data_limit_bytes=1024 * 1024) as phone:
        done = adb(phone.record, "push", str(tmp_path / "big"), "/data/local/tmp/big")
        assert done.returncode == 1
        assert b"No space left on device" in done.stderr
        assert adb(phone.record, "shell", "ls /data/local/tmp").stdout == b""
        done = adb(phone.record, "shell", "dd if=/dev/zero of=/data/local/tmp/x bs=1M count=2")
        assert done.returncode == 1
        assert b"No space left on device" in done.stderr


def failure(*, exit_code: int = 125, **options: object) -> SimError:
    with pytest.raises(SimError) as caught:
        sim.start_phone(**options)  # type: ignore[arg-type]
    assert caught.value.exit_code == exit_code
    return caught.value


def test_a_name_that_is_taken() -> None:
    with sim.start_phone("taken") as phone:
        error = failure(name="taken")
        assert "already running" in error.what
        assert phone.record.serial in (error.evidence or "")
        assert "devkit sim stop taken" in error.hints
        assert can_connect(phone.record.port)


def test_the_same_name_twice_at_once_gives_one_phone() -> None:
    outcomes: list[Phone | SimError] = []

    def start() -> None:
        try:
            outcomes.append(sim.start_phone("race"))
        except SimError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=start) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    phones = [outcome for outcome in outcomes if isinstance(outcome, Phone)]
    assert len(phones) == 1, outcomes
    phones[0].stop()


@pytest.mark.parametrize("name", ["", "..", "a/b", "a b", "手机", "-x", "x" * 65])
def test_names_that_cannot_be(name: str) -> None:
    assert "cannot be the name" in failure(name=name, exit_code=2).what


def test_a_port_that_is_taken_or_belongs_to_emulators(state_home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        error = failure(name="port", port=port)
    assert f"port {port} cannot be used" in error.what
    assert "in use" in (error.evidence or "")
    assert "emulator" in (failure(name="port", port=5555).evidence or "")
    assert not [path for path in state_home.rglob("*") if path.is_file()]


def test_an_unknown_model_and_a_missing_adb(tmp_path: Path) -> None:
    error = failure(name="m", model="generik", exit_code=2)
    assert error.hints == ("did you mean generic?",)
    assert "was not found" in failure(name="m", adb=tmp_path / "no-adb").what


def test_an_adb_that_is_none(tmp_path: Path) -> None:
    fake = tmp_path / "adb"
    fake.write_text("#!/bin/sh\necho no such option >&2\nexit 1\n")
    fake.chmod(0o755)
    error = failure(name="m", adb=fake)
    assert "does not start" in error.what
    assert error.evidence == "no such option\nno such option"


def test_a_server_that_is_not_there() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        error = failure(name="m", connect_to=unused.getsockname())
    assert "does not accept the virtual phone" in error.what
    assert "refused" in (error.evidence or "")


def test_stopping_what_does_not_run(tmp_path: Path) -> None:
    with pytest.raises(SimError) as caught:
        sim.stop_phone("ghost")
    assert "no virtual phone named ghost" in caught.value.what


# ---- other users, and machines that refuse


def python_for_others() -> tuple[Path, str]:
    """An interpreter that other users may run, and the PYTHONPATH it needs."""
    usable = all(folder.stat().st_mode & 0o001 for folder in Path(sys.executable).resolve().parents)
    if os.geteuid() != 0 or usable:
        return Path(sys.executable), os.environ.get("PYTHONPATH", "")
    packages = WHEEL_ADB.parents[2]
    repository = Path(sim.__file__).parent.parent.parent
    return Path("/usr/bin/python3"), f"{repository}:{packages}"


def run_elsewhere(
    script: str, tmp_path: Path, *prefix: str, **options: object
) -> subprocess.CompletedProcess[str]:
    """Run a script in another kind of process, with folders it may write."""
    home = tmp_path / "ordner für nobody 无名"
    home.mkdir(exist_ok=True)
    # pytest's folders are closed to others.
    for folder in (home, *home.parents):
        if folder.owner() == home.owner() and folder != Path("/") and os.geteuid() == 0:
            folder.chmod(folder.stat().st_mode | 0o755)
    python, search = python_for_others()
    if prefix[:1] == ("setpriv",):
        shutil.chown(home, NOBODY, NOBODY)
    environment = {
        **os.environ,
        "PYTHONPATH": search,
        "HOME": str(home),
        "XDG_STATE_HOME": str(home / "state"),
        "XDG_CACHE_HOME": str(home / "cache"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return subprocess.run(
        [*prefix, python, "-c", textwrap.dedent(script)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,  # type: ignore[call-overload]
    )


def test_an_ordinary_user_needs_no_privileges(tmp_path: Path) -> None:
    script = f"""
        import os, subprocess
        from pathlib import Path
        from devkit import sim
        assert os.geteuid() != 0
        with sim.start_phone("mine", adb=Path({str(ADB)!r}), lifeline=True) as phone:
            def adb(*words):
                server = [{str(ADB)!r}, "-P", str(phone.record.adb_port)]
                done = subprocess.run([*server, *words], capture_output=True)
                assert done.returncode == 0, done
                return done.stdout.decode()
            assert "uid=2000(shell)" in adb("shell", "id")
            Path(os.environ["HOME"], "f").write_text("x" * 100000)
            adb("push", os.environ["HOME"] + "/f", "/data/local/tmp/sub/f")
            assert adb("shell", "wc -c </data/local/tmp/sub/f").strip() == "100000"
            assert "/dev/pts/" in adb("shell", "-tt", "tty")
            assert adb("shell", "chmod 0 /data/local/tmp/sub") == ""
        assert not phone.record.state_dir.exists()
        print("all good")
    """
    prefix = ["setpriv", "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
    done = run_elsewhere(script, tmp_path, *(prefix if os.geteuid() == 0 else []))
    assert done.stdout.strip() == "all good", done.stderr


START_AND_SHOW = """
    import json
    from devkit import sim
    from devkit.errors import SimError
    try:
        sim.start_phone("refused", confinement="namespaces").stop()
        print("started")
    except SimError as error:
        print(json.dumps(error.as_dict()))
"""


def test_a_machine_without_user_namespaces_says_which_setting(tmp_path: Path) -> None:
    limit = 'echo 0 >/proc/sys/user/max_user_namespaces && exec "$@"'
    done = run_elsewhere(START_AND_SHOW, tmp_path, "unshare", "-U", "-r", "sh", "-c", limit, "sh")
    error = json.loads(done.stdout)
    assert "does not allow more user namespaces" in error["error"]
    assert error["hints"] == ["sudo sysctl user.max_user_namespaces=10000"]


def test_a_container_that_refuses_namespaces_is_told_apart(tmp_path: Path) -> None:
    done = run_elsewhere(START_AND_SHOW, tmp_path, preexec_fn=_refuse_unshare_as_docker_does)
    error = json.loads(done.stdout)
    assert "namespaces are refused" in error["error"]
    assert any("seccomp=unconfined" in hint for hint in error["hints"])


def test_a_container_with_a_masked_proc_is_told_apart(tmp_path: Path) -> None:
    mask = 'mount -t tmpfs none /proc/fs && exec "$@"'
    done = run_elsewhere(START_AND_SHOW, tmp_path, "unshare", "-U", "-r", "-m", "sh", "-c", mask, "sh")
    error = json.loads(done.stdout)
    assert "mounts are refused" in error["error"]
    assert "mount proc" in error["evidence"]
    assert any("systempaths=unconfined" in hint for hint in error["hints"])


def _refuse_unshare_as_docker_does() -> None:
    """A seccomp filter that answers unshare with EPERM and lets everything else through."""
    import ctypes

    number = {"x86_64": 272, "aarch64": 97}[os.uname().machine]
    instructions = [
        (0x20, 0, 0, 0),  # load the system call's number
        (0x15, 0, 1, number),  # if it is not unshare, skip one
        (0x06, 0, 0, 0x00050000 | 1),  # return EPERM
        (0x06, 0, 0, 0x7FFF0000),  # allow
    ]
    code = b"".join(struct.pack("HBBI", *instruction) for instruction in instructions)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack("HxxxxxxQ", len(instructions), ctypes.addressof(buffer))
    libc = ctypes.CDLL(None)
    zero = ctypes.c_ulong(0)
    assert libc.prctl(38, ctypes.c_ulong(1), zero, zero, zero) == 0
    assert libc.prctl(22, ctypes.c_ulong(2), ctypes.c_char_p(program), zero, zero) == 0
