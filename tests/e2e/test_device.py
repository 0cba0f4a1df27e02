"""The device room against a virtual phone and the real adb server."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import json
import os
import pty
import random
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from devkit.device import AdbServer, Device, PushItem, find_adb, known_servers, select_device
from devkit.device.failures import NothingListens, PhoneLost, ServerUnreachable
from devkit.device.listing import list_devices
from devkit.device.shell import ShellStream
from devkit.errors import DeviceError, OperationTimeout
from devkit.sim import Phone, start_phone

DATA = Path(__file__).parents[1] / "data"
TMP = "/data/local/tmp"


@pytest.fixture(scope="module")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("st äte")


@contextlib.contextmanager
def in_state(home: Path) -> Iterator[None]:
    """Phones are started and stopped under one state folder, whatever a test's own is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(home))
        yield


@pytest.fixture(scope="module")
def phone(state_home: Path) -> Iterator[Phone]:
    with in_state(state_home):
        started = start_phone("p1", adb=find_adb().path, lifeline=True)
    try:
        yield started
    finally:
        with in_state(state_home):
            started.stop()


@pytest.fixture
def device(phone: Phone) -> Device:
    return device_of(phone)


def device_of(phone: Phone) -> Device:
    record = phone.record
    assert record.adb_host and record.adb_port
    return Device(record.serial, AdbServer(record.adb_host, record.adb_port, "sim", record.name))


@pytest.fixture
def folder(device: Device, request: pytest.FixtureRequest) -> Iterator[str]:
    """A fresh folder on the phone, with a blank, a quote and a letter beyond ASCII."""
    path = f"{TMP}/it's ü {abs(hash(request.node.name)) % 100000}"
    device.shell(["mkdir", "-p", path], check=True)
    yield path
    device.shell(["rm", "-rf", path], check=True)


def devkit(
    arguments: Sequence[str], *, state: Path | None = None, stdin: bytes = b"", **environ: str
) -> subprocess.CompletedProcess[bytes]:
    full = {**os.environ, **environ}
    if state is not None:
        full["XDG_STATE_HOME"] = str(state)
    return subprocess.run(
        [sys.executable, "-m", "devkit", *arguments],
        input=stdin,
        capture_output=True,
        env=full,
        timeout=60,
        check=False,
    )


# Shell


def test_output_errors_and_exit_code_are_apart(device: Device) -> None:
    result = device.shell("echo out; echo err >&2; exit 42")
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 42)
    assert device.shell("kill -9 $$").exit_code == 128 + 9
    assert device.shell("no_such_command_here").exit_code == 127
    with pytest.raises(DeviceError, match="exit code 1"):
        device.shell(["cat", "/none"], check=True)


def test_words_of_case_d5_come_back_unchanged(device: Device) -> None:
    rows = json.loads((DATA / "cases" / "D5" / "argv.json").read_bytes())
    assert len(rows) > 10
    for row in rows:
        answer = device.shell(["printf", "%s\\0", *row], check=True).stdout
        assert [word.decode() for word in answer.split(b"\0")[:-1]] == row


def test_output_streams_while_the_command_runs(device: Device) -> None:
    with device.open_shell("echo first; sleep 0.5; echo second; exit 3") as stream:
        begun = time.monotonic()
        assert stream.read(5) == ("stdout", b"first\n")
        first_after_s = time.monotonic() - begun
        assert list(stream) == [("stdout", b"second\n"), ("exit", 3)]
        assert time.monotonic() - begun - first_after_s > 0.3


def test_stdin_is_a_dialogue_and_can_end(device: Device) -> None:
    with device.open_shell("while read line; do echo got $line; done; echo end") as stream:
        stream.write_stdin(b"one\n")
        assert stream.read(5) == ("stdout", b"got one\n")
        stream.write_stdin(b"two\n")
        assert stream.read(5) == ("stdout", b"got two\n")
        stream.close_stdin()
        assert list(stream)[-2:] == [("stdout", b"end\n"), ("exit", 0)]


def test_big_input_and_output_at_once(device: Device) -> None:
    data = random.Random(3).randbytes(8_000_000)
    assert device.shell("cat", stdin=data).stdout == data
    # A command that does not want it all.
    assert device.shell("head -c 3", stdin=data).stdout == data[:3]


def test_50_mb_of_output_arrive_intact(device: Device, folder: str) -> None:
    data = random.Random(4).randbytes(50_000_000)
    device.push_bytes(data, f"{folder}/big")
    result = device.shell(["cat", f"{folder}/big"], timeout_s=60)
    assert hashlib.sha256(result.stdout).digest() == hashlib.sha256(data).digest()
    assert result.exit_code == 0


def test_a_timeout_ends_the_wait_and_the_connection_stays_good(device: Device) -> None:
    begun = time.monotonic()
    with pytest.raises(OperationTimeout):
        device.shell("echo started; sleep 30", timeout_s=0.5)
    assert time.monotonic() - begun < 5
    assert device.shell("echo alive").text == "alive\n"


def test_pty_has_a_size_and_a_signal_key(device: Device) -> None:
    # Repeated: the size travels after the command, as with `adb shell`.
    # `exec`: a shell that the key finds between two programs would wait for the next one.
    command = "while ! stty size | grep '33 77'; do sleep 0.05; done; exec sleep 30"
    with device.open_shell(command, pty=True, size=(33, 77)) as stream:
        assert read_until(stream, b"33 77")
        stream.write_stdin(b"\x03")
        code = next(data for name, data in stream if name == "exit")
        assert code == 128 + signal.SIGINT


def read_until(stream: ShellStream, wanted: bytes) -> bytes:
    seen = b""
    while wanted not in seen:
        name, data = stream.read(10)
        assert isinstance(data, bytes), f"ended with {name} {data}; seen {seen!r}"
        seen += data
    return seen


def test_resize_reaches_the_phone(device: Device) -> None:
    with device.open_shell("", pty=True, term="dumb", size=(20, 60)) as stream:
        stream.write_stdin(b"stty size; echo \"$TERM\" do''ne\n")
        assert b"20 60" in read_until(stream, b"dumb done")
        stream.resize(30, 90)
        stream.write_stdin(b"stty size; echo ag''ain\n")
        assert b"30 90" in read_until(stream, b"again")
        stream.write_stdin(b"exit 9\n")
        assert list(stream)[-1] == ("exit", 9)


def test_a_phone_without_shell_v2(device: Device, folder: str) -> None:
    """The same phone, spoken to as to one before Android 7."""
    device.features = device.features - {"shell_v2"}
    result = device.shell("echo out; echo err >&2; exit 42")
    assert result.exit_code == 42
    assert sorted(result.stdout.splitlines()) == [b"err", b"out"]
    assert device.shell("printf 'no newline'; exit 1").stdout == b"no newline"
    data = random.Random(5).randbytes(300_000)
    assert device.shell("cat", stdin=data).stdout == data
    assert device.shell("cat").stdout == b""
    assert device.shell("((").exit_code != 0
    with device.open_shell("echo first; sleep 0.3; echo second; exit 5") as stream:
        assert stream.read(5) == ("stdout", b"first")
        assert list(stream)[-1] == ("exit", 5)
    assert device.writable_dir(f"{folder}/w") == f"{folder}/w"


def test_the_phone_ends_in_the_middle(state_home: Path) -> None:
    with in_state(state_home), start_phone("short-lived", adb=find_adb().path, lifeline=True) as mortal:
        device = device_of(mortal)
        with device.open_shell("echo up; sleep 60") as stream:
            assert stream.read(10) == ("stdout", b"up\n")
            killer = threading.Timer(0.2, os.kill, (mortal.record.pid, signal.SIGKILL))
            killer.start()
            with pytest.raises(PhoneLost, match="broke off"):
                list(stream)
        with pytest.raises(DeviceError) as caught:
            device.shell("echo hi")
        assert device.serial in caught.value.what or isinstance(caught.value, ServerUnreachable)


# Files


def test_100_mb_travel_there_and_back(device: Device, folder: str, tmp_path: Path) -> None:
    block = random.Random(6).randbytes(1_000_000)
    local = tmp_path / "b i,g ü.bin"
    with local.open("wb") as file:
        for number in range(100):
            file.write(number.to_bytes(4, "little") + block)
    digest = hashlib.sha256(local.read_bytes()).hexdigest()
    counted: list[int] = []
    device.push([PushItem(local, f"{folder}/b i,g ü.bin", 0o755, 1_600_000_000)], counted.append)
    assert sum(counted) == local.stat().st_size
    assert device.shell(["sha256sum", f"{folder}/b i,g ü.bin"]).text.split()[0] == digest
    about = device.stat([f"{folder}/b i,g ü.bin"])[f"{folder}/b i,g ü.bin"]
    assert about is not None
    assert (about.size, about.mtime_s, about.mode & 0o700) == (local.stat().st_size, 1_600_000_000, 0o700)
    back = tmp_path / "back"
    device.pull(f"{folder}/b i,g ü.bin", back)
    assert hashlib.sha256(back.read_bytes()).hexdigest() == digest


def test_many_small_files_in_one_round_trip(device: Device, folder: str) -> None:
    items = [PushItem(b"%d" % i * 100, f"{folder}/f{i}", 0o644, i + 1) for i in range(1000)]
    before = device.round_trips
    device.push(items)
    assert device.round_trips == before + 1
    answers = device.stat([item.remote for item in items] + [f"{folder}/none"])
    assert answers.pop(f"{folder}/none") is None
    assert [a and (a.size, a.mtime_s) for a in answers.values()] == [
        (len(item.local), item.mtime_s) for item in items if isinstance(item.local, bytes)
    ]
    assert set(device.list_dir(folder)) == {f"f{i}" for i in range(1000)}
    assert device.read_bytes(f"{folder}/f999") == b"999" * 100


def test_links_and_folders(device: Device, folder: str) -> None:
    device.push_bytes(b"abc", f"{folder}/file")
    device.shell(["ln", "-s", "file", f"{folder}/link"], check=True)
    followed = device.stat([f"{folder}/link"])[f"{folder}/link"]
    itself = device.stat([f"{folder}/link"], follow=False)[f"{folder}/link"]
    assert followed and followed.is_file and followed.size == 3
    assert itself and itself.is_link
    with pytest.raises(DeviceError, match="no folder"):
        device.list_dir(f"{folder}/file")
    with pytest.raises(DeviceError):
        device.read_bytes(folder)


def test_a_full_disk_is_told_and_the_phone_stays_usable(state_home: Path, tmp_path: Path) -> None:
    with (
        in_state(state_home),
        start_phone("small", adb=find_adb().path, lifeline=True, data_limit_bytes=8_000_000) as small,
    ):
        device = device_of(small)
        with pytest.raises(DeviceError) as caught:
            device.push(
                [
                    PushItem(b"fits", f"{TMP}/small", 0o644, 1),
                    PushItem(bytes(40_000_000), f"{TMP}/big", 0o644, 1),
                    PushItem(b"never", f"{TMP}/after", 0o644, 1),
                ]
            )
        assert f"pushing {TMP}/big failed" in caught.value.what
        assert "No space left on device" in (caught.value.evidence or "")
        assert device.read_bytes(f"{TMP}/small") == b"fits"
        answers = device.stat([f"{TMP}/big", f"{TMP}/after"])
        assert answers[f"{TMP}/after"] is None
        cut = answers[f"{TMP}/big"]
        assert cut is None or cut.size < 40_000_000  # adbd removes it or leaves what there was room for
        device.shell(["rm", "-f", f"{TMP}/big"], check=True)
        device.push_bytes(b"fits too", f"{TMP}/after")
        assert device.read_bytes(f"{TMP}/after") == b"fits too"
        # And no place to work in.
        device.push_bytes(bytes(7_900_000), f"{TMP}/filler")
        device.shell(f"cat /dev/zero > {TMP}/rest")
        with pytest.raises(DeviceError, match="no folder in which") as full:
            device.writable_dir(f"{TMP}/work")
        assert "No space left" in (full.value.evidence or "")


def test_a_place_that_may_not_be_written(device: Device) -> None:
    with pytest.raises(DeviceError, match="pushing /system/x failed") as caught:
        device.push_bytes(bytes(3_000_000), "/system/x")
    assert "Read-only file system" in (caught.value.evidence or "")
    assert device.shell("echo alive").text == "alive\n"


def test_the_phone_is_asked_where_programs_may_run(
    device: Device, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = device.round_trips
    assert device.writable_dir(f"{folder}/deep/er") == f"{folder}/deep/er"
    assert device.writable_dir(f"{folder}/deep/er") == f"{folder}/deep/er"
    assert device.round_trips == before + 1
    assert device.list_dir(f"{folder}/deep/er") == {}
    assert capsys.readouterr().err == ""
    # /sdcard takes files but runs none (noexec).
    assert device.writable_dir("/sdcard/devkit") == f"{TMP}/devkit"
    said = capsys.readouterr().err
    assert "/sdcard/devkit: files there cannot be run" in said
    assert device.stat(["/sdcard/devkit"]) == {"/sdcard/devkit": None}


# Sockets, facts, processes


def lldb_server() -> Path:
    spec = importlib.util.find_spec("lldb_for_pwndbg")
    assert spec is not None and spec.submodule_search_locations, "the sim extra is not installed"
    return Path(next(iter(spec.submodule_search_locations))) / "_vendor" / "bin" / "lldb-server"


def test_dial_a_debug_server(device: Device, folder: str) -> None:
    device.push([PushItem(lldb_server(), f"{folder}/lldb-server", 0o755, 1)])
    command = ["exec", f"{folder}/lldb-server", "gdbserver", "unix-abstract://devkit-dial-test"]
    words = "exec " + " ".join(f'"{word}"' for word in command[1:])
    with device.open_shell(words) as stream:
        with dial_when_ready(device, "localabstract:devkit-dial-test") as sock:
            assert sock.gettimeout() is None
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            sock.sendall(b"+$qSupported#37")
            sock.settimeout(10)
            assert sock.recv(1) == b"+"
            assert b"PacketSize=" in sock.recv(4096)
        stream.close()
    for service in ("localabstract:devkit-nobody", "tcp:9"):
        with pytest.raises(NothingListens, match=f"dialling {service}"):
            device.dial(service)


def dial_when_ready(device: Device, service: str) -> socket.socket:
    deadline = time.monotonic() + 10
    while True:
        try:
            return device.dial(service)
        except NothingListens:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


def test_facts(device: Device) -> None:
    before = device.round_trips
    assert device.abi in device.abilist
    assert device.api_level >= 21
    assert device.is_virtual
    assert device.libc == "glibc"
    assert device.fingerprint.startswith("devkit/")
    assert device.round_trips == before + 1
    facts = device.facts(TMP)
    assert facts.page_bytes == os.sysconf("SC_PAGESIZE")
    assert facts.free_bytes
    # Straight from the phone, one by one: parsing lost nothing.
    for key in ("ro.product.model", "ro.build.version.release"):
        assert device.shell(["getprop", key]).text.strip() == device.properties[key]


def test_processes_in_one_round_trip(device: Device) -> None:
    with device.open_shell("sleep 98765 & echo $!; exec sleep 98766") as stream:
        name, data = stream.read(10)
        assert name == "stdout" and isinstance(data, bytes)
        pid = int(data)
        before = device.round_trips
        entry = device.find_process(pid)
        assert device.round_trips == before + 1
        assert entry.cmdline == ("sleep", "98765")
        assert entry.user == "shell"
        parent = device.find_process(entry.ppid)
        assert parent.cmdline == ("sleep", "98766")
        with pytest.raises(DeviceError, match=r"[2-9] processes .* called sleep") as caught:
            device.find_process("sleep")
        assert f"{pid}  shell  sleep 98765" in (caught.value.evidence or "")
        assert f"{entry.ppid}  shell  sleep 98766" in (caught.value.evidence or "")
        device.shell(["kill", str(pid), str(entry.ppid)], check=True)


def test_adbutils_own_device_works_over_our_connections(device: Device) -> None:
    assert device.adbutils.prop.model == device.model
    assert device.adbutils.sync.read_text("/proc/version").startswith("Linux")


# Choosing


def test_two_phones(phone: Phone, state_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(state_home))
    with start_phone("p2", adb=find_adb().path, lifeline=True) as second:
        assert {server.name for server in known_servers()} == {"sim:p1", "sim:p2"}
        environ = {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{second.record.adb_port}"}
        with pytest.raises(DeviceError, match="2 phones are connected") as caught:
            select_device(environ=environ)
        assert "sim:p1" in (caught.value.evidence or "")
        assert "sim:p2" in (caught.value.evidence or "")
        for wish in ("sim:p1", "p1", phone.record.serial):
            assert select_device(wish, environ=environ).serial == phone.record.serial
        assert select_device(environ={**environ, "ANDROID_SERIAL": "p2"}).serial == second.record.serial
        with pytest.raises(DeviceError) as unknown:
            select_device("sim:p3", environ=environ)
        assert "did you mean sim:p" in unknown.value.hints[0]

        listed = json.loads(devkit(["device", "list", "--json"], state=state_home, **environ).stdout)
        assert {entry["server"] for entry in listed["devices"]} == {"sim:p1", "sim:p2"}
        assert all(entry["usable"] for entry in listed["devices"])

        ambiguous = devkit(["device", "shell", "--", "true"], state=state_home, **environ)
        assert ambiguous.returncode == 125
        assert b"-s sim:p" in ambiguous.stderr
        would = devkit(["device", "select", "p2", "--dry-run"], state=state_home, **environ)
        assert would.stdout == b"would select sim:p2\n"
        assert devkit(["device", "select"], state=state_home).stdout == b"no phone is selected\n"
        chosen = devkit(["device", "select", "p2"], state=state_home, **environ)
        assert chosen.stdout == b"selected sim:p2\n"
        serial = devkit(["device", "info", "--json"], state=state_home, **environ)
        assert json.loads(serial.stdout)["serial"] == second.record.serial
        kept = devkit(["device", "select", "--clear", "--dry-run"], state=state_home)
        assert kept.stdout == b"sim:p2 would be forgotten\n"
        assert devkit(["device", "select"], state=state_home).stdout == b"sim:p2\n"
        assert devkit(["device", "select", "p1", "--clear"], state=state_home).returncode == 2
        assert devkit(["device", "select", "--clear"], state=state_home).returncode == 0


@pytest.fixture
def empty_server(tmp_path: Path) -> Iterator[AdbServer]:
    """A private adb server without phones."""
    listener = socket.create_server(("127.0.0.1", 0))
    listener.set_inheritable(True)
    port = listener.getsockname()[1]
    process = subprocess.Popen(
        [find_adb().path, "-L", f"acceptfd:{listener.fileno()}", "server", "nodaemon"],
        pass_fds=[listener.fileno()],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(tmp_path), "ADB_USB": "0", "ADB_EMU": "0", "ADB_MDNS": "0"},
    )
    listener.close()
    yield AdbServer("127.0.0.1", port, "test")
    process.terminate()
    process.wait(10)


def test_no_phone(empty_server: AdbServer, tmp_path: Path) -> None:
    environ = {"ADB_SERVER_SOCKET": f"tcp:{empty_server.address}"}
    with pytest.raises(DeviceError, match="no phone is connected"):
        select_device(environ=environ)
    listed = devkit(["device", "list"], **environ)
    assert (listed.returncode, listed.stdout) == (0, b"")
    assert b"devkit sim start" in listed.stderr
    refused = devkit(["device", "info", "--json"], **environ)
    assert refused.returncode == 125
    assert json.loads(refused.stdout)["error"] == "no phone is connected"


def test_a_server_that_is_away_is_not_replaced(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        port = sock.getsockname()[1]
    for environ in (
        {"ADB_SERVER_SOCKET": f"tcp:127.0.0.1:{port}"},
        {"ANDROID_ADB_SERVER_PORT": str(port)},
        {"DEVKIT_ADB_SERVER": f"127.0.0.1:{port}"},
    ):
        for command in (["device", "list"], ["device", "shell", "--", "true"]):
            done = devkit(command, **environ)
            assert done.returncode == 125
            assert f"no adb server answers at 127.0.0.1:{port}".encode() in done.stderr
            assert b"Connection refused" in done.stderr
            assert b"Traceback" not in done.stderr
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 2)
    # adbutils itself would run `adb start-server` here.
    device = Device("x", AdbServer("127.0.0.1", port, "test"))
    with pytest.raises(ConnectionRefusedError):
        _ = device.adbutils.prop.model
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port), 2)


@pytest.mark.slow
def test_a_server_that_hangs() -> None:
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        begun = time.monotonic()
        done = devkit(["device", "list"], ADB_SERVER_SOCKET=f"tcp:127.0.0.1:{deaf.getsockname()[1]}")
        assert done.returncode == 124
        assert b"did not answer" in done.stderr
        assert time.monotonic() - begun < 15


def test_the_default_server_is_started_and_said(tmp_path: Path) -> None:
    """In namespaces of its own, so that port 5037 of this machine is left alone."""
    script = (
        "import fcntl, socket, struct, sys\n"
        "s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n"
        "fcntl.ioctl(s, 0x8914, struct.pack('16sh', b'lo', 0x41) + b'\\0' * 14)\n"
        "from devkit.cli.main import run\n"
        "assert run(['device', 'list']) == 0\n"
        "first = socket.create_connection(('127.0.0.1', 5037), 2)\n"
        "print('again', file=sys.stderr, flush=True)\n"
        "assert run(['device', 'list']) == 0\n"
    )
    done = subprocess.run(
        ["unshare", "-Urnpf", "--kill-child", "--mount-proc", sys.executable, "-c", script],
        capture_output=True,
        cwd=tmp_path,
        env={**os.environ, "HOME": str(tmp_path), "TMPDIR": str(tmp_path)},
        timeout=60,
        check=False,
    )
    said = done.stderr.decode()
    assert done.returncode == 0, said
    first, _, second = said.partition("again")
    assert f"no adb server at 127.0.0.1:5037: starting {find_adb().path}" in first
    assert "starting" not in second


# The command line


def test_shell_command_passes_everything_through(phone: Phone, state_home: Path) -> None:
    def run(*words: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        return devkit(["device", "shell", "-s", "sim:p1", *words], state=state_home, stdin=stdin)

    done = run("--", "sh", "-c", 'echo "a  b"; echo err >&2; exit 7')
    assert (done.returncode, done.stdout, done.stderr) == (7, b"a  b\n", b"err\n")
    assert run("echo $((1+2)) | cat").stdout == b"3\n"
    assert run("--", "printf", "%s|", "-n", "it's", "", "$HOME").stdout == b"-n|it's||$HOME|"
    # As with `adb shell`, what follows the first word needs no `--`.
    assert run("printf", "%s|", "-s", "--help").stdout == b"-s|--help|"
    data = random.Random(7).randbytes(2_000_000)
    assert run("--", "cat", stdin=data).stdout == data
    # Without a command and without a terminal: a script on stdin.
    done = run(stdin=b"echo from stdin\nexit 5\n")
    assert (done.returncode, done.stdout) == (5, b"from stdin\n")
    as_json = run("--json", "--", "sh", "-c", "echo x; exit 3")
    assert as_json.returncode == 3
    assert json.loads(as_json.stdout) == {"exit_code": 3, "stdout": "x\n", "stderr": ""}


def test_shell_on_a_terminal(phone: Phone, state_home: Path) -> None:
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(XDG_STATE_HOME=str(state_home), TERM="dumb")
        os.execv(sys.executable, [sys.executable, "-m", "devkit", "device", "shell", "-s", "sim:p1"])
    import fcntl
    import struct
    import termios

    def size(rows: int, cols: int) -> None:
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))

    def seen(wanted: bytes) -> bytes:
        data = b""
        deadline = time.monotonic() + 20
        while wanted not in data:
            ready, _, _ = select.select([terminal], [], [], max(0, deadline - time.monotonic()))
            assert ready, f"waited for {wanted!r}, saw {data!r}"
            data += os.read(terminal, 4096)
        return data

    size(31, 91)
    # Typed before it is up, the first line may be echoed twice; the answer is what counts.
    os.write(terminal, b"echo re''ady\n")
    seen(b"ready")
    size(32, 92)
    time.sleep(0.3)
    os.write(terminal, b"stty size; tty; echo do''ne\n")
    said = seen(b"done")
    assert b"32 92" in said
    assert b"/dev/pts/" in said
    # Ctrl-C belongs to the phone's command, not to devkit.
    os.write(terminal, b"sleep 50; echo code $?\n")
    time.sleep(0.3)
    os.write(terminal, b"\x03")
    os.write(terminal, b"echo st''ill here\n")
    seen(b"still here")
    os.write(terminal, b"exit 6\n")
    _, status = os.waitpid(pid, 0)
    os.close(terminal)
    assert os.waitstatus_to_exitcode(status) == 6


def test_info(phone: Phone, state_home: Path) -> None:
    done = devkit(["device", "info", "-s", "sim:p1", "--json"], state=state_home)
    data = json.loads(done.stdout)
    assert data["serial"] == phone.record.serial
    assert data["virtual"] is True
    assert data["folder"] == f"{TMP}/devkit"
    assert data["page_bytes"] == os.sysconf("SC_PAGESIZE")
    assert data["free_bytes"] > 0
    assert "shell_v2" in data["features"]
    human = devkit(["device", "info", "-s", "sim:p1"], state=state_home).stdout.decode()
    for part in (phone.record.serial, data["model"], "API", f"{TMP}/devkit", data["abi"]):
        assert part in human


def test_listing_knows_the_real_phone(phone: Phone, state_home: Path, empty_server: AdbServer) -> None:
    with in_state(state_home):
        inventory = list_devices(environ={"ADB_SERVER_SOCKET": f"tcp:{empty_server.address}"})
    assert [(entry.serial, entry.state) for entry in inventory.entries] == [(phone.record.serial, "device")]
    assert inventory.entries[0].model
    assert inventory.entries[0].server and inventory.entries[0].server.label == "p1"
