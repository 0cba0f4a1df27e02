"""What adb's protocol offers beyond shells and files: compression, windows, restarts, reverse, tracking."""

from __future__ import annotations

import hashlib
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import sim
from devkit.sim import Phone
from tests.e2e.adb_host import AdbHost, DelayProxy
from tests.e2e.support import eventually

DELAY_S = 0.02
PULL_BYTES = 24 * 1024 * 1024


@pytest.fixture(scope="module")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("state") / "zu stand 手机"
        patch.setenv("XDG_STATE_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def phone(state_home: Path) -> Iterator[Phone]:
    with sim.start_phone("protocol", lifeline=True) as started:
        yield started
        log = (started.record.state_dir / "adbd.log").read_text()
    assert "late import" not in log
    assert "Traceback" not in log


@pytest.fixture(scope="module")
def host(phone: Phone, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AdbHost]:
    with AdbHost(tmp_path_factory.mktemp("host")) as made:
        assert b"connected to" in made("connect", phone.record.serial).stdout
        assert made.becomes(phone.record.serial, "device")
        yield made


def is_up(host: AdbHost, serial: str) -> bool:
    """Whether a program can be run, connecting again if the server has lost the phone."""
    if host.state(serial) != "device":
        host("disconnect", serial)
        host("connect", serial)
        return False
    return host("-s", serial, "shell", "true").returncode == 0


# ---- compression


@pytest.mark.parametrize("algorithm", ["brotli", "lz4", "zstd"])
@pytest.mark.parametrize("content", ["text", "noise", "empty"])
def test_files_survive_compression_both_ways(
    host: AdbHost, phone: Phone, tmp_path: Path, algorithm: str, content: str
) -> None:
    data = {"text": b"all work and no play\n" * 200_000, "noise": os.urandom(3_000_001), "empty": b""}[
        content
    ]
    (tmp_path / "来 out").write_bytes(data)
    remote = f"/data/local/tmp/{algorithm} {content}"
    pushed = host("push", "-z", algorithm, tmp_path / "来 out", remote)
    assert pushed.returncode == 0, pushed.stderr
    digest = host("shell", f"sha256sum < '{remote}'").stdout.split()[0].decode()
    assert digest == hashlib.sha256(data).hexdigest()
    pulled = host("pull", "-z", algorithm, remote, tmp_path / "back")
    assert pulled.returncode == 0, pulled.stderr
    assert (tmp_path / "back").read_bytes() == data
    # It was really compressed, but for small files, which adb sends with the old request.
    log = (phone.record.state_dir / "adbd.log").read_text()
    compressed = log.count(f"{remote!r} with sendrecv_v2_{algorithm}")
    assert compressed == (1 if content == "empty" else 2)
    host("shell", f"rm '{remote}'")


def test_any_compression_and_none(host: AdbHost, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"x" * 1_000_000)
    for option in (["-z", "any"], ["-Z"]):
        assert host("push", *option, tmp_path / "f", "/data/local/tmp/f").returncode == 0
        assert host("pull", *option, "/data/local/tmp/f", tmp_path / "g").returncode == 0
        assert (tmp_path / "g").stat().st_size == 1_000_000
    host("shell", "rm /data/local/tmp/f")


# ---- delayed acks


def _pull_time(host: AdbHost, serial: str, target: Path) -> float:
    start = time.monotonic()
    done = host("-s", serial, "pull", "-Z", "/data/local/tmp/big", target)
    assert done.returncode == 0, done.stderr
    return time.monotonic() - start


def test_delayed_acks_speed_up_a_pull_over_a_slow_link(phone: Phone, tmp_path: Path) -> None:
    proxy = DelayProxy(phone.record.port, DELAY_S)
    serial = f"127.0.0.1:{proxy.port}"
    times = {}
    try:
        for name, environment in (("plain", {}), ("burst", {"ADB_BURST_MODE": "1"})):
            with AdbHost(tmp_path / f"host {name}", environment=environment) as host:
                host("connect", serial)
                assert host.becomes(serial, "device")
                if name == "plain":
                    host("-s", serial, "shell", f"head -c {PULL_BYTES} /dev/urandom > /data/local/tmp/big")
                times[name] = _pull_time(host, serial, tmp_path / name)
                assert (tmp_path / name).stat().st_size == PULL_BYTES
                # Streams of either direction still work.
                (tmp_path / "up").write_bytes(os.urandom(5_000_000))
                assert host("-s", serial, "push", "-Z", tmp_path / "up", "/data/local/tmp/up").returncode == 0
                digest = host("-s", serial, "shell", "sha256sum </data/local/tmp/up").stdout.split()[0]
                expected = hashlib.sha256((tmp_path / "up").read_bytes()).hexdigest()
                assert digest.decode() == expected
                assert (
                    host("-s", serial, "shell", "-T", "cat", stdin=b"y" * 3_000_000).stdout
                    == b"y" * 3_000_000
                )
        digests = {hashlib.sha256((tmp_path / name).read_bytes()).digest() for name in times}
        assert len(digests) == 1
    finally:
        proxy.close()
        with AdbHost(tmp_path / "cleaner") as cleaner:
            cleaner("connect", phone.record.serial)
            cleaner("-s", phone.record.serial, "shell", "rm -f /data/local/tmp/big /data/local/tmp/up")
    # Without, each MiB waits for its own round trip of 40 ms: at least a second for 24 of them.
    assert times["plain"] > PULL_BYTES / (1 << 20) * 2 * DELAY_S
    assert times["burst"] < times["plain"] * 0.7, times


# ---- reverse


def test_reverse_in_all_its_forms(host: AdbHost) -> None:
    with socket.create_server(("127.0.0.1", 0)) as here, socket.create_server(("127.0.0.1", 0)) as there:
        target, other = (f"tcp:{sock.getsockname()[1]}" for sock in (here, there))
        assert host("reverse", "localabstract:手", target).returncode == 0
        assert host("reverse", "tcp:31313", target).returncode == 0
        port = int(host("reverse", "tcp:0", target).stdout)
        listed = host("reverse", "--list").stdout.decode().splitlines()
        assert {line.split()[1] for line in listed if line} == {
            "localabstract:手", "tcp:31313", f"tcp:{port}",
        }  # fmt: skip
        # The same name again leads elsewhere, unless that is forbidden.
        assert host("reverse", "--no-rebind", "tcp:31313", other).returncode == 1
        assert host("reverse", "tcp:31313", other).returncode == 0
        local = int(host("forward", "tcp:0", "tcp:31313").stdout)
        with socket.create_connection(("127.0.0.1", local), 10) as near:
            there.settimeout(10)
            far, _ = there.accept()
            with far:
                near.sendall(b"over")
                assert far.recv(4) == b"over"
        host("forward", "--remove", f"tcp:{local}")
        assert host("reverse", "--remove", "localabstract:手").returncode == 0
        assert host("reverse", "--remove", "localabstract:手").returncode == 1
        assert host("reverse", "--remove-all").returncode == 0
        assert host("reverse", "--list").stdout.strip() == b""


# ---- restarts


def test_root_and_back(host: AdbHost, phone: Phone) -> None:
    serial = phone.record.serial
    assert b"adbd not running as root" in host("unroot").stdout
    assert b"restarting adbd as root" in host("root").stdout
    assert eventually(lambda: is_up(host, serial), 15)
    assert b"uid=0(root)" in host("shell", "id").stdout
    assert b"already running as root" in host("root").stdout
    assert host("shell", "ls /data/data").returncode == 0
    assert b"restarting adbd as non root" in host("unroot").stdout
    assert eventually(lambda: is_up(host, serial), 15)
    assert b"uid=2000(shell)" in host("shell", "id").stdout


def test_reboot_forgets_what_a_phone_forgets(host: AdbHost, phone: Phone) -> None:
    serial = phone.record.serial
    host("shell", "setprop debug.x 1; setprop persist.x 1; echo kept >/data/local/tmp/kept")
    sleeper = host.start("-s", serial, "shell", "sleep 83.1")
    assert eventually(lambda: b"83.1" in host("shell", "ps -A -o ARGS").stdout)
    assert host("reboot").returncode == 0
    assert eventually(lambda: host.state(serial) != "device"), "it went away"
    assert eventually(lambda: is_up(host, serial), 20)
    sleeper.wait(10)
    said = host("shell", "getprop debug.x; getprop persist.x; cat /data/local/tmp/kept; ps -A -o ARGS").stdout
    assert said.splitlines()[:3] == [b"", b"1", b"kept"]
    assert b"83.1" not in said


@pytest.mark.parametrize(("command", "answer"), [
    (["tcpip", "5555"], b"restarting in TCP mode port: 5555"), (["usb"], b"restarting in USB mode"),
])  # fmt: skip
def test_adbd_restarts_where_it_was(host: AdbHost, phone: Phone, command: list[str], answer: bytes) -> None:
    before = host("shell", "pidof adbd").stdout
    assert answer in host(*command).stdout
    assert eventually(lambda: is_up(host, phone.record.serial), 15)
    assert host("shell", "pidof adbd").stdout != before


def test_the_phones_own_reboot_program(host: AdbHost, phone: Phone) -> None:
    host("shell", "setprop debug.y 1; reboot")
    assert eventually(lambda: is_up(host, phone.record.serial), 20)
    assert host("shell", "getprop debug.y").stdout.strip() == b""


# ---- tracking


def test_servers_hear_of_phones_that_come_and_go(host: AdbHost, tmp_path: Path) -> None:
    tracker = host.start("track-devices")
    with sim.start_phone("guest", lifeline=True) as guest:
        serial = guest.record.serial
        host("connect", serial)
        assert host.becomes(serial, "device")
    assert host.becomes(serial, "offline") or host.state(serial) == ""
    host("disconnect", serial)
    assert host.becomes(serial, "")
    tracker.kill()
    events = tracker.communicate()[0].decode().split(serial)
    states = [part.split()[0] for part in events[1:]]
    assert "device" in states
    assert states.index("device") < len(states)


# ---- releases


@pytest.mark.parametrize("android", ["6", "8", "11", "14"])
def test_a_release_looks_like_itself(state_home: Path, tmp_path: Path, android: str) -> None:
    with (
        sim.start_phone(f"a{android}", android=android, lifeline=True) as old,
        AdbHost(tmp_path / "host") as host,
    ):
        host("connect", old.record.serial)
        assert host.becomes(old.record.serial, "device")
        features = host("features").stdout.decode().split()
        assert ("shell_v2" in features) == (android != "6")
        assert ("stat_v2" in features) == (android != "6")
        assert ("ls_v2" in features) == (android in ("11", "14"))
        assert ("sendrecv_v2_zstd" in features) == (android == "14")
        done = host("shell", "getprop ro.build.version.release; exit 7")
        assert done.stdout.decode().split()[0].split(".")[0] == android
        # Android 6 loses exit codes, and writes the line ends of a terminal.
        assert (done.returncode, b"\r\n" in done.stdout) == ((0, True) if android == "6" else (7, False))
        data = os.urandom(1_500_000)
        (tmp_path / "文 file").write_bytes(data)
        assert host("push", tmp_path / "文 file", "/data/local/tmp/文 file").returncode == 0
        assert host("pull", "/data/local/tmp/文 file", tmp_path / "back").returncode == 0
        assert (tmp_path / "back").read_bytes() == data
        # Binary output comes through unharmed, and so does input to a program without a terminal.
        assert host("exec-out", "cat '/data/local/tmp/文 file'").stdout == data
