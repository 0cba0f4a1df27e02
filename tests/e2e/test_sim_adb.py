"""The virtual phone through the real adb client: everything adb offers that devkit relies on."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from devkit import sim
from devkit.sim import Phone
from devkit.sim.adbd.compression import available_codecs
from tests.e2e.support import WHEEL_ADB

ADB = WHEEL_ADB
BIG_BYTES = 64 * 1024 * 1024


class Adb:
    """The real adb program, pointed at a phone's private server."""

    def __init__(self, phone: Phone) -> None:
        self.phone = phone
        self.base = [str(ADB), "-H", "127.0.0.1", "-P", str(phone.record.adb_port), "-s", phone.record.serial]

    def __call__(
        self, *arguments: str | Path, stdin: bytes | None = None, timeout_s: float = 60
    ) -> subprocess.CompletedProcess[bytes]:
        source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
        return subprocess.run(
            [*self.base, *map(str, arguments)],
            capture_output=True,
            timeout=timeout_s,
            check=False,
            **source,  # type: ignore[call-overload]
        )

    def shell(self, command: str, *, stdin: bytes | None = None) -> str:
        done = self("shell", "-T", command, stdin=stdin)
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode()

    def start(self, *arguments: str, **options: object) -> subprocess.Popen[bytes]:
        return subprocess.Popen([*self.base, *arguments], **options)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def state_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        home = tmp_path_factory.mktemp("state") / "leer zeichen 手机"
        patch.setenv("XDG_STATE_HOME", str(home))
        yield home


@pytest.fixture(scope="module")
def phone(state_home: Path) -> Iterator[Phone]:
    with sim.start_phone("adb-test", adb=ADB, lifeline=True) as started:
        yield started
        log = (started.record.state_dir / "adbd.log").read_text()
    assert "late import" not in log, "adbd imported a module after its root was changed"
    assert "Traceback" not in log


@pytest.fixture
def adb(phone: Phone) -> Adb:
    return Adb(phone)


def wait_until(condition: Callable[[], bool], timeout_s: float = 20.0) -> bool:
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


# ---- identity


def test_device_is_listed_with_its_identity(adb: Adb) -> None:
    listing = adb("devices", "-l").stdout.decode()
    line = next(line for line in listing.splitlines() if line.startswith(adb.phone.record.serial))
    assert line.split()[1] == "device"
    assert "model:Virtual_Phone" in line


def test_programs_are_the_shell_user_without_capabilities(adb: Adb) -> None:
    assert "uid=2000(shell) gid=2000(shell)" in adb.shell("id")
    status = adb.shell("cat /proc/self/status")
    assert "CapEff:\t0000000000000000" in status
    assert "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status
    assert adb.shell("ulimit -c").strip() == "0"


def test_programs_cannot_make_namespaces(adb: Adb) -> None:
    # They would have capabilities in them.
    adb("push", "/usr/bin/unshare", "/data/local/tmp/unshare")
    done = adb("shell", "/data/local/tmp/unshare -U true")
    assert done.returncode != 0
    assert b"unshare failed: No space left on device" in done.stderr


def test_system_is_read_only_and_private_folders_are_closed(adb: Adb) -> None:
    refused = ("touch /x", "touch /system/x", "chmod 777 /data", "touch /data/x", "ls /data/data", "ls /data")
    refused += (
        "rm /system/bin/sh",
        "mount -o remount,rw /",
        "touch /dev/x",
        "echo 1 >/proc/sys/vm/swappiness",
    )
    for command in refused:
        assert adb("shell", command).returncode != 0, command
    adb.shell("echo ok >/data/local/tmp/x && rm /data/local/tmp/x && echo ok >/sdcard/x && rm /sdcard/x")


def test_shared_storage_runs_nothing(adb: Adb) -> None:
    done = adb("shell", "cp /system/bin/true /sdcard/prog && chmod 755 /sdcard/prog && /sdcard/prog")
    assert done.returncode == 126
    assert b"ermission denied" in done.stderr


def test_no_file_of_the_host_is_visible(adb: Adb) -> None:
    listing = set(adb.shell("ls /").split())
    assert listing.isdisjoint({"usr", "home", "root", "tmp", "var", "work", "opt"})
    mounts = adb.shell("cat /proc/self/mountinfo")
    assert str(adb.phone.record.state_dir) not in mounts.replace("\\040", " ").split(" - ")[0]
    assert adb.shell("ls /proc | grep -c '^[0-9]'") != ""
    assert int(adb.shell("ls -d /proc/[0-9]* | wc -l")) < 20


def test_processes_look_like_a_phones(adb: Adb) -> None:
    processes = adb.shell("ps -A -o PID,NAME,ARGS").splitlines()
    assert processes[0].split() == ["PID", "NAME", "ARGS"]
    assert processes[1].split() == ["1", "init", "init"]
    assert any(line.split()[1:] == ["adbd", "adbd"] for line in processes)
    assert adb.shell("pidof adbd").strip().isdigit()
    assert adb("shell", "pidof no-such-program").returncode == 1


def test_properties(adb: Adb) -> None:
    assert adb.shell("getprop ro.build.version.sdk").strip() == "34"
    assert adb.shell("getprop no.such fallback").strip() == "fallback"
    assert "[ro.devkit.libc]: [glibc]" in adb.shell("getprop")
    adb.shell("setprop debug.devkit.test 'a b'")
    assert adb.shell("getprop debug.devkit.test").strip() == "a b"
    assert "[debug.devkit.test]: [a b]" in adb.shell("getprop")
    refused = adb("shell", "setprop ro.product.model Other")
    assert refused.returncode == 1
    assert b"Failed to set property 'ro.product.model'" in refused.stderr
    assert adb.shell("getprop ro.product.model").strip() == "Virtual_Phone"


@pytest.mark.parametrize(
    "command",
    [
        "echo abc | sha256sum | cut -d' ' -f1",
        "printf '%s\\n' b a | sort | head -n 1",
        "seq 3 | xargs -n1 echo | wc -l",
        "echo x | gzip | gzip -d",
        "echo x | gzip >/data/local/tmp/x.gz && zcat /data/local/tmp/x.gz && gunzip -f /data/local/tmp/x.gz",
        "stat -c '%s %Y %a' /system/bin/sh",
        "find /system/lib64 -name 'libc.so*'",
        "dd if=/dev/zero bs=1k count=4 2>/dev/null | wc -c",
        "readlink -f /sdcard/..",
        "setsid true && nohup true && timeout 5 true",
        "date +%s; uname -m; uptime; df /data/local/tmp; du -s /data/local/tmp",
        "which ls getprop",
        "sleep 0.01 & wait",
        "pgrep -f adbd",
        "grep -c processor /proc/cpuinfo; cat /sys/devices/system/cpu/possible",
        "tar -cf - -C /system/etc hosts | tar -tf -",
    ],
)
def test_tools_run(adb: Adb, command: str) -> None:
    adb.shell(command)


# ---- shell


def test_exit_codes_and_separate_outputs(adb: Adb) -> None:
    done = adb("shell", "echo out; echo err >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"out\n", b"err\n")
    assert adb("shell", "no-such-command").returncode == 127
    assert adb("shell", "kill -9 $$").returncode == 128 + 9
    assert adb("shell", "kill -SEGV $$").returncode == 128 + 11


def test_stdin_reaches_the_program_whole_and_ends(adb: Adb) -> None:
    data = os.urandom(3 * 1024 * 1024)
    done = adb("shell", "-T", "sha1sum; echo end", stdin=data)
    assert done.stdout.split() == [hashlib.sha1(data).hexdigest().encode(), b"-", b"end"]


def test_stdin_comes_back_whole(adb: Adb) -> None:
    data = os.urandom(5_000_001)
    assert adb("shell", "-T", "cat", stdin=data).stdout == data


def test_shell_version_1_has_one_output_and_no_exit_code(adb: Adb) -> None:
    done = adb("shell", "-x", "echo out; echo err >&2; exit 7")
    assert done.returncode == 0
    assert done.stdout == b"out\nerr\n"


def test_terminal(adb: Adb) -> None:
    done = adb("shell", "-tt", "tty; stty -a; echo $TERM")
    assert done.stdout.startswith(b"/dev/pts/")
    assert b"\r\n" in done.stdout
    assert b" echo " in done.stdout
    assert adb("shell", "-T", "tty").returncode == 1
    # A terminal has one output only.
    assert adb("shell", "-tt", "echo err >&2").stdout == b"err\r\n"


def test_interactive_shell_in_a_terminal(adb: Adb) -> None:
    done = adb("shell", "-tt", stdin=b"echo $((40+2)); exit 5\n")
    assert b"42" in done.stdout
    assert done.returncode == 5


def test_interrupt_key_reaches_the_program_in_a_terminal(adb: Adb) -> None:
    command = "trap 'echo caught; exit 3' INT; echo ready; while :; do sleep 0.05; done"
    client = adb.start("shell", "-tt", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdin is not None and client.stdout is not None
    assert client.stdout.readline().strip() == b"ready"
    client.stdin.write(b"\x03")
    client.stdin.flush()
    output, _ = client.communicate(timeout=10)
    assert b"caught" in output
    assert client.returncode == 3


def test_binary_output_is_not_changed(adb: Adb, tmp_path: Path) -> None:
    data = bytes(range(256)) * 4096
    (tmp_path / "all bytes 字节").write_bytes(data)
    assert adb("push", tmp_path / "all bytes 字节", "/data/local/tmp/all bytes 字节").returncode == 0
    assert adb("exec-out", "cat '/data/local/tmp/all bytes 字节'").stdout == data
    assert adb("shell", "-T", "cat '/data/local/tmp/all bytes 字节'").stdout == data


def test_a_background_child_that_holds_the_output_keeps_the_stream_open(adb: Adb) -> None:
    # adbd reports the exit code only after the end of both outputs.
    started = time.monotonic()
    assert adb("shell", "sleep 0.6 & echo now").stdout == b"now\n"
    assert time.monotonic() - started > 0.5
    started = time.monotonic()
    assert adb("shell", "sleep 3 >/dev/null 2>&1 & echo now").stdout == b"now\n"
    assert time.monotonic() - started < 2


def test_without_the_protocol_the_end_of_the_shell_is_the_end(adb: Adb) -> None:
    # The end of a session's leader hangs up its terminal: its process group gets SIGHUP.
    for way in (("exec-out",), ("shell", "-x"), ("shell", "-tt")):
        started = time.monotonic()
        assert adb(*way, "sleep 3 & sleep 0.1; echo now").stdout.strip() == b"now", way
        assert time.monotonic() - started < 2, way


def _count(adb: Adb, marker: str) -> int:
    return int(adb.shell(f"ps -A -o ARGS | grep -c '^sleep {marker}$' || true"))


def test_closing_the_client_hangs_up_the_shell_of_a_raw_program_only(adb: Adb) -> None:
    # shell_service.cpp: SIGHUP to the shell only. (mksh, unlike dash, hands it on to its foreground program.)
    command = "sleep 71.1 >/dev/null 2>&1 & echo ready; sleep 72.1; echo never"
    client = adb.start("shell", "-T", command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert client.stdout is not None
    assert client.stdout.readline() == b"ready\n"
    shell_pid = adb.shell("pgrep -f 'echo never' | head -n 1").strip()
    client.kill()
    client.communicate()
    assert wait_until(lambda: adb("shell", f"kill -0 {shell_pid}").returncode != 0)
    assert _count(adb, "71.1") == 1
    adb.shell("kill $(pgrep -f '^sleep 7[12]')")


def test_closing_the_client_hangs_up_a_terminal(adb: Adb) -> None:
    client = adb.start(
        "shell", "-tt", "echo ready; sleep 73.1", stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert client.stdout is not None
    assert client.stdout.readline().strip() == b"ready"
    assert _count(adb, "73.1") == 1
    client.kill()
    client.communicate()
    assert wait_until(lambda: _count(adb, "73.1") == 0)


def test_output_that_nobody_reads_stops_the_program_and_nothing_else(adb: Adb) -> None:
    client = adb.start("shell", "-T", "yes; true", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    time.sleep(0.5)
    assert adb.shell("echo alive") == "alive\n"
    before = adb.shell("cat /proc/$(pidof yes)/io | grep wchar")
    time.sleep(0.3)
    assert adb.shell("cat /proc/$(pidof yes)/io | grep wchar") == before
    client.kill()
    client.communicate()
    assert wait_until(lambda: adb("shell", "pidof yes").returncode == 1)


def test_many_shells_at_once(adb: Adb) -> None:
    clients = [
        adb.start(
            "shell", "-T", f"echo {n}; sleep 0.3; exit {n}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        for n in range(24)
    ]
    for n, client in enumerate(clients):
        output, _ = client.communicate(timeout=30)
        assert (output, client.returncode) == (f"{n}\n".encode(), n)


def test_unknown_services_are_refused(adb: Adb) -> None:
    with socket.create_connection(("127.0.0.1", adb.phone.record.adb_port or 0), 5) as sock:
        for service in (f"host:transport:{adb.phone.record.serial}", "no-such-service:"):
            sock.sendall(f"{len(service):04x}{service}".encode())
            status = sock.recv(4)
        assert status == b"FAIL"
    assert adb("jdwp", timeout_s=10).stdout == b""
    assert adb.shell("echo alive") == "alive\n"


# ---- sync


def test_push_and_pull_a_folder(adb: Adb, tmp_path: Path) -> None:
    source = tmp_path / "ein ordner 文件夹"
    (source / "sub" / "empty").mkdir(parents=True)
    (source / "a.txt").write_text("alpha")
    (source / "sub" / "zero").write_bytes(b"")
    (source / "sub" / "tool").write_bytes(b"#!/system/bin/sh\necho tool ran\n")
    (source / "sub" / "tool").chmod(0o755)
    os.utime(source / "a.txt", (1_600_000_000, 1_600_000_000))
    done = adb("push", source, "/data/local/tmp/dir 目录")
    assert done.returncode == 0, done.stderr
    assert adb.shell("'/data/local/tmp/dir 目录/sub/tool'") == "tool ran\n"
    # adbd gives group and others what the user has.
    assert adb.shell("stat -c '%Y %a' '/data/local/tmp/dir 目录/a.txt'").split() == ["1600000000", "666"]
    back = tmp_path / "zurück"
    assert adb("pull", "-a", "/data/local/tmp/dir 目录", back).returncode == 0
    assert (back / "a.txt").read_text() == "alpha"
    assert int((back / "a.txt").stat().st_mtime) == 1_600_000_000
    assert (back / "sub" / "zero").read_bytes() == b""
    assert stat.S_IMODE((back / "sub" / "tool").stat().st_mode) & 0o100
    adb.shell("rm -r '/data/local/tmp/dir 目录'")


def test_push_sync_skips_what_is_there(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "f1").write_text("1")
    (tmp_path / "f2").write_text("2")
    assert adb("push", "--sync", f"{tmp_path}/.", "/data/local/tmp/synced").returncode == 0
    second = adb("push", "--sync", f"{tmp_path}/.", "/data/local/tmp/synced")
    assert b"0 files pushed, 2 skipped" in second.stdout + second.stderr
    adb.shell("rm -r /data/local/tmp/synced")


def test_symlinks_travel_as_links(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "target").write_text("content")
    (tmp_path / "folder" / "link").symlink_to("target")
    assert adb("push", tmp_path / "folder", "/data/local/tmp/links").returncode == 0
    assert (
        adb.shell("readlink /data/local/tmp/links/link; cat /data/local/tmp/links/link") == "target\ncontent"
    )
    adb.shell("rm -r /data/local/tmp/links")


def test_a_big_file_survives_both_ways(adb: Adb, tmp_path: Path) -> None:
    block = os.urandom(1024 * 1024)
    digest = hashlib.sha256()
    with (tmp_path / "big").open("wb") as file:
        for n in range(BIG_BYTES // len(block)):
            piece = block[n:] + block[:n]
            digest.update(piece)
            file.write(piece)
    assert adb("push", tmp_path / "big", "/data/local/tmp/big").returncode == 0
    assert adb.shell("sha256sum </data/local/tmp/big").split()[0] == digest.hexdigest()
    assert adb("pull", "/data/local/tmp/big", tmp_path / "back").returncode == 0
    assert hashlib.sha256((tmp_path / "back").read_bytes()).hexdigest() == digest.hexdigest()
    adb.shell("rm /data/local/tmp/big")


def test_push_replaces_a_program_that_runs(adb: Adb, tmp_path: Path) -> None:
    adb.shell("cp /system/bin/sleep /data/local/tmp/busy && (/data/local/tmp/busy 2 >/dev/null 2>&1 &)")
    (tmp_path / "new").write_text("new")
    assert adb("push", tmp_path / "new", "/data/local/tmp/busy").returncode == 0
    assert adb.shell("cat /data/local/tmp/busy") == "new"


def test_sync_errors_say_why(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("x")
    for target, words in (
        ("/system/f", b"couldn't create file: Read-only file system"),
        ("/data/local/tmp", b""),
        ("/data/no/f", b"secure_mkdirs() failed: "),
    ):
        done = adb("push", tmp_path / "f", target)
        assert words in done.stderr + done.stdout, (target, done)
        assert (done.returncode == 0) == (words == b"")
    missing = adb("pull", "/data/local/tmp/missing", tmp_path / "m")
    assert missing.returncode == 1
    assert b"No such file or directory" in missing.stderr
    secret = adb("pull", "/data/data", tmp_path / "s")
    assert not any((tmp_path / "s").glob("*")) or secret.returncode != 0
    assert adb.shell("echo alive") == "alive\n"


def test_pull_of_proc_files_without_a_size(adb: Adb, tmp_path: Path) -> None:
    assert adb("pull", "/proc/cpuinfo", tmp_path / "cpuinfo").returncode == 0
    assert b"processor" in (tmp_path / "cpuinfo").read_bytes()


def test_pushing_with_compression_asked_for_still_works(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "z").write_bytes(b"zeros" * 100_000)
    # A way the phone does not offer is refused, as by Android's adbd of that age.
    offered = {codec.feature.removeprefix("sendrecv_v2_") for codec in available_codecs().values()}
    for way in ("any", "none", *offered):
        assert adb("push", "-z", way, tmp_path / "z", "/data/local/tmp/z").returncode == 0, way
        assert adb.shell("stat -c %s /data/local/tmp/z").strip() == "500000"
        assert adb("pull", "-z", way, "/data/local/tmp/z", tmp_path / f"z-{way}").returncode == 0, way
        assert (tmp_path / f"z-{way}").read_bytes() == b"zeros" * 100_000


# ---- sockets


ECHO_SERVER = """
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
int main(int argc, char **argv) {
    int s;
    if (argc > 2) {
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int abstract = argv[1][0] == 'a';
        strcpy(a.sun_path + abstract, argv[2]);
        s = socket(AF_UNIX, SOCK_STREAM, 0);
        if (bind(s, (void *)&a, offsetof(struct sockaddr_un, sun_path) + abstract + strlen(argv[2])))
            return perror("bind"), 1;
    } else {
        struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[1]))};
        a.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        s = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(s, (void *)&a, sizeof a)) return perror("bind"), 1;
    }
    listen(s, 8);
    puts("listening");
    fflush(stdout);
    for (;;) {
        int c = accept(s, 0, 0);
        char buf[65536];
        ssize_t n, o, w;
        while ((n = read(c, buf, sizeof buf)) > 0)
            for (o = 0; o < n; o += w)
                if ((w = write(c, buf + o, n - o)) <= 0) break;
        close(c);
    }
}
"""


@pytest.fixture(scope="module")
def echo_server(phone: Phone, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("echo")
    (folder / "echo.c").write_text(ECHO_SERVER)
    subprocess.run(["gcc", "-O1", "-o", folder / "echo", folder / "echo.c"], check=True)
    assert Adb(phone)("push", folder / "echo", "/data/local/tmp/echo-server").returncode == 0
    return "/data/local/tmp/echo-server"


@pytest.mark.parametrize(
    ("arguments", "remote"),
    [
        ("31313", "tcp:31313"),
        ("a devkit-é-test", "localabstract:devkit-é-test"),
        ("f /data/local/tmp/socket", "localfilesystem:/data/local/tmp/socket"),
        ("f /dev/socket/reserved", "localreserved:reserved"),
    ],
)
def test_forward(adb: Adb, echo_server: str, arguments: str, remote: str) -> None:
    server = adb.start(
        "shell", "-T", f"exec {echo_server} {arguments}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    try:
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        port = int(adb("forward", "tcp:0", remote).stdout)
        data = os.urandom(2_000_000)
        for _ in range(2):
            with socket.create_connection(("127.0.0.1", port), 10) as sock:
                assert _echo(sock, data) == data
        adb("forward", "--remove", f"tcp:{port}")
    finally:
        server.kill()
        server.communicate()
        adb.shell("rm -f /data/local/tmp/socket /dev/socket/reserved")
        # The client's end hangs up the program itself: the shell was replaced by it.
        assert wait_until(lambda: adb("shell", "pidof echo-server").returncode == 1)


def _echo(sock: socket.socket, data: bytes) -> bytes:
    """Send and receive at the same time; forwards have no half-close."""
    sock.setblocking(False)
    view, received = memoryview(data), bytearray()
    deadline = time.monotonic() + 30
    while len(received) < len(data) and time.monotonic() < deadline:
        try:
            view = view[sock.send(view[:65536]) :] if view else view
        except BlockingIOError:
            pass
        try:
            piece = sock.recv(65536)
            if not piece:
                break
            received += piece
        except BlockingIOError:
            time.sleep(0.001)
    return bytes(received)


def test_forward_to_nobody_closes(adb: Adb) -> None:
    port = int(adb("forward", "tcp:0", "localabstract:nobody").stdout)
    with socket.create_connection(("127.0.0.1", port), 10) as sock:
        assert sock.recv(1) == b""
    adb("forward", "--remove", f"tcp:{port}")


def test_the_phones_ports_are_not_the_hosts(adb: Adb, echo_server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        port = host.getsockname()[1]
        server = adb.start(
            "shell", "-T", f"exec {echo_server} {port}", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
        )
        assert server.stdout is not None
        assert server.stdout.readline() == b"listening\n"
        server.kill()
        server.communicate()


def test_reverse(adb: Adb, echo_server: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as host:
        target = f"tcp:{host.getsockname()[1]}"
        port = int(adb("reverse", "tcp:0", target).stdout)
        assert f"(reverse) tcp:{port} {target}" in adb("reverse", "--list").stdout.decode()
        assert adb("reverse", "--no-rebind", f"tcp:{port}", target).returncode != 0
        # The phone has no netcat: reach the listener through a forward, that is through both ways at once.
        local = int(adb("forward", "tcp:0", f"tcp:{port}").stdout)
        with socket.create_connection(("127.0.0.1", local), 10) as near:
            host.settimeout(10)
            far, _ = host.accept()
            with far:
                near.sendall(b"ping")
                assert far.recv(4) == b"ping"
                far.sendall(b"pong")
                assert near.recv(4) == b"pong"
                far.close()
                assert near.recv(1) == b""
        assert adb("reverse", "--remove", f"tcp:{port}").returncode == 0
        missing = adb("reverse", "--remove", f"tcp:{port}")
        assert missing.returncode != 0
        assert b"not found" in missing.stderr
        adb("reverse", "localabstract:name", target)
        adb("reverse", "--remove-all")
        assert adb("reverse", "--list").stdout.strip() == b""


# ---- loaders and libraries


MAPS_PROGRAM = r"""
#include <stdio.h>
#include <math.h>
#include <pthread.h>
#define _GNU_SOURCE
#include <link.h>
static int show(struct dl_phdr_info *i, size_t n, void *p) { printf("module %s\n", i->dlpi_name); return 0; }
static void *run(void *p) { return p; }
int main(int argc, char **argv) {
    pthread_t t; pthread_create(&t, 0, run, 0); pthread_join(t, 0);
    printf("cos %.1f\n", cos(argc - 1.0));
    dl_iterate_phdr(show, 0);
    char line[4096]; FILE *f = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, f)) fputs(line, stdout);
    return 0;
}
"""


def test_programs_built_here_run_with_the_phones_own_libraries(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "maps.c").write_text("#define _GNU_SOURCE\n" + MAPS_PROGRAM)
    subprocess.run(["gcc", "-o", tmp_path / "maps", tmp_path / "maps.c", "-lm", "-lpthread"], check=True)
    adb("push", tmp_path / "maps", "/data/local/tmp/maps")
    output = adb.shell("/data/local/tmp/maps")
    assert "cos 1.0" in output
    assert "module /system/lib64/libc.so.6" in output
    assert "module /system/lib64/libm.so.6" in output
    assert "/system/bin/linker64" in output
    assert "linux-gnu" not in output
    adb("pull", "/system/lib64/libc.so.6", tmp_path / "libc")
    host = Path(
        next(
            line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libc.so" in line
        )
    )
    assert _build_id(tmp_path / "libc") != _build_id(host)


def _build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line)


def test_libstdcxx_is_not_part_of_the_phone(adb: Adb, tmp_path: Path) -> None:
    (tmp_path / "hello.cpp").write_text('#include <iostream>\nint main() { std::cout << "hi\\n"; }\n')
    subprocess.run(["g++", "-o", tmp_path / "hello", tmp_path / "hello.cpp"], check=True)
    adb("push", tmp_path / "hello", "/data/local/tmp/hello")
    done = adb("shell", "/data/local/tmp/hello")
    # As Android's linker says and ends it.
    assert done.returncode == 1
    assert b"CANNOT LINK EXECUTABLE" in done.stderr and b'library "libstdc++.so.6" not found' in done.stderr
    adb.shell("mkdir -p /data/local/tmp/libs")
    for name in ("libstdc++.so.6", "libgcc_s.so.1"):
        found = subprocess.run(
            ["g++", f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout
        adb("push", found.strip(), "/data/local/tmp/libs/")
    assert adb.shell("LD_LIBRARY_PATH=/data/local/tmp/libs /data/local/tmp/hello") == "hi\n"


# ---- the connection


def test_adbd_that_is_killed_comes_back(adb: Adb) -> None:
    client = adb.start("shell", "-T", "sleep 74.1; true", stdin=subprocess.DEVNULL)
    assert wait_until(lambda: _count(adb, "74.1") == 1)
    before = adb.shell("pidof adbd")
    adb("shell", "kill -9 $(pidof adbd)")
    client.wait(10)

    def is_back() -> bool:
        done = adb("shell", "pidof adbd", timeout_s=10)
        return done.returncode == 0 and done.stdout.decode() != before

    assert wait_until(is_back, 15)
    # Its programs went with it, as with Android's init.
    assert _count(adb, "74.1") == 0


def test_programs_cannot_end_the_phone(adb: Adb) -> None:
    adb("shell", "kill -9 1; kill -TERM 1")
    assert adb.shell("echo alive") == "alive\n"


def test_the_server_refuses_to_be_killed(adb: Adb) -> None:
    subprocess.run([*adb.base[:5], "kill-server"], capture_output=True, timeout=20, check=False)
    assert adb.shell("echo alive") == "alive\n"


def test_the_adb_server_that_dies_is_started_again(adb: Adb) -> None:
    supervisor = adb.phone.record.pid
    children = Path(f"/proc/{supervisor}/task/{supervisor}/children").read_text().split()
    servers = [pid for pid in children if b"nodaemon" in Path(f"/proc/{pid}/cmdline").read_bytes()]
    assert len(servers) == 1
    os.kill(int(servers[0]), signal.SIGKILL)
    assert wait_until(lambda: adb("shell", "true", timeout_s=10).returncode == 0, 15)
