"""logcat and log on the virtual phone, through the real adb: layouts, filters, buffers, speed."""

from __future__ import annotations

import os
import re
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import adbutils
import pytest

from devkit import sim
from devkit.sim import Phone
from tests.e2e.support import eventually

ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
LINES = 50_000
# What logd and logcat may take together for LINES, so that a core of its own could do that many a second.
MAX_CPU_S = 1.6
HEAD = re.compile(r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3} +\d+ +\d+ [VDIWEF] ")

WRITER = r"""
#include <string.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct sockaddr_un address = {AF_UNIX, "/dev/socket/logdw"};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0);
    if (connect(fd, (void *)&address, sizeof address)) return 2;
    for (int i = 0; i < atoi(argv[1]); i++) {
        char packet[300] = {0};
        struct timespec now;
        clock_gettime(CLOCK_REALTIME, &now);
        unsigned short tid = getpid();
        unsigned seconds = now.tv_sec, nanoseconds = now.tv_nsec;
        memcpy(packet + 1, &tid, 2);
        memcpy(packet + 3, &seconds, 4);
        memcpy(packet + 7, &nanoseconds, 4);
        packet[11] = 4;
        int size = 12 + sprintf(packet + 12, "MNNJNI") + 1;
        size += argc > 2 ? sprintf(packet + size, "%s", argv[2]) + 1
                         : sprintf(packet + size, "line %d of a text about as long as others are", i) + 1;
        if (send(fd, packet, size, 0) < 0) return 3;
    }
    return 0;
}
"""


class Shell:
    def __init__(self, phone: Phone) -> None:
        self.base = [str(ADB), "-P", str(phone.record.adb_port), "-s", phone.record.serial]

    def __call__(self, command: str) -> str:
        done = subprocess.run([*self.base, "shell", command], capture_output=True, timeout=60, check=False)
        assert done.returncode == 0, (command, done.returncode, done.stdout, done.stderr)
        return done.stdout.decode("utf-8", "replace")

    def adb(self, *words: str) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run([*self.base, *words], capture_output=True, timeout=60, check=False)


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state") / "leer 日志"))
        with sim.start_phone("logcat", adb=ADB, lifeline=True) as started:
            yield started
            log = (started.record.state_dir / "adbd.log").read_text()
    assert "Traceback" not in log and "late import" not in log, log


@pytest.fixture(scope="module")
def phone_11(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state") / "leer 11"))
        with sim.start_phone("logcat-11", adb=ADB, lifeline=True, android="11") as started:
            yield Shell(started)


@pytest.fixture
def shell(phone: Phone) -> Shell:
    """With empty buffers."""
    found = Shell(phone)
    found("logcat -b all -c")
    return found


@pytest.fixture(scope="module")
def writer(phone: Phone, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("schreiber 写")
    (folder / "writer.c").write_text(WRITER)
    subprocess.run(["gcc", "-O2", "writer.c", "-o", "writer"], cwd=folder, check=True)
    assert Shell(phone).adb("push", str(folder / "writer"), "/data/local/tmp/writer").returncode == 0
    return "/data/local/tmp/writer"


def test_log_writes_with_priority_and_tag(shell: Shell) -> None:
    for letter in "vdiwef":
        shell(f"log -p {letter} -t 'My Tag' priority {letter}")
    shell("log plain; log -t MNNJNI ''; log -tT -pe -- -x")
    lines = shell("logcat -d").splitlines()
    assert lines[0] == "--------- beginning of main"
    assert all(HEAD.match(line) for line in lines[1:])
    texts = [HEAD.sub("", line) for line in lines[1:]]
    assert texts == [
        *(f"My Tag  : priority {letter}" for letter in "vdiwef"),
        "log     : plain",
        "MNNJNI  : ",
        "T       : -x",
    ]
    assert [line.split()[4] for line in lines[1:7]] == list("VDIWEF")
    assert shell.adb("shell", "log -p x y").returncode == 1


def test_adb_logcat_passes_its_filters_through_the_environment(shell: Shell) -> None:
    shell("log -t MNNJNI -p e wanted; log -t other -p f hidden; log -t MNNJNI -p d low")
    out = shell.adb("logcat", "-d", "-v", "brief", "MNNJNI:I", "*:S").stdout.decode()
    assert re.fullmatch(r"--------- beginning of main\nE/MNNJNI  \( +\d+\): wanted\n", out)
    environment = {**os.environ, "ANDROID_LOG_TAGS": "other:V *:S"}
    done = subprocess.run(
        [*shell.base, "logcat", "-d", "-v", "raw"], capture_output=True, env=environment, check=True
    )
    assert done.stdout.decode().splitlines()[1:] == ["hidden"]
    assert shell("logcat -d -s -v tag MNNJNI | tail -n +2").splitlines() == [
        "E/MNNJNI  : wanted",
        "D/MNNJNI  : low",
    ]


@pytest.mark.parametrize(
    ("words", "pattern"),
    [
        ("brief", r"I/tag     \( *{pid}\): text"),
        ("process", r"I\( *{pid}\) text  \(tag\)"),
        ("tag", r"I/tag     : text"),
        ("thread", r"I\( *{pid}: *{pid}\) text"),
        ("raw", r"text"),
        ("time", r"{stamp} I/tag     \( *{pid}\): text"),
        ("threadtime", r"{stamp} +{pid} +{pid} I tag     : text"),
        ("long", r"\[ {stamp} +{pid}: *{pid} I/tag      \]\ntext\n"),
        ("threadtime,uid", r"{stamp} shell +{pid} +{pid} I tag     : text"),
        ("year,usec,zone", r"\d{{4}}-{stamp}\d\d\d \+0000 +{pid} +{pid} I tag     : text"),
        ("epoch", r" +\d{{10}}\.\d{{3}} +{pid} +{pid} I tag     : text"),
        ("monotonic", r" *\d+\.\d{{3}} +{pid} +{pid} I tag     : text"),
        ("color", r"\x1b\[32m{stamp} +{pid} +{pid} I tag     : text\x1b\[0m"),
    ],
)
def test_layouts(shell: Shell, words: str, pattern: str) -> None:
    pid = shell("log -t tag text & echo $!; wait").strip()
    text = shell(f"logcat -d -v {words}").split("\n", 1)[1]
    expected = pattern.format(pid=pid, stamp=r"\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}")
    assert re.fullmatch(expected + r"\n", text), text


def test_times_are_those_of_date(shell: Shell) -> None:
    before = shell("date '+%m-%d %H:%M:%S'; log x").strip()
    stamp = shell("logcat -d | tail -n 1")[:14]
    assert before <= stamp <= shell("date '+%m-%d %H:%M:%S'").strip()


def test_selecting(shell: Shell) -> None:
    shell("for i in 1 2 3 4 5; do log -t t$i number $i; done; sleep 0.02")
    moment = shell("date '+%m-%d %H:%M:%S.%3N'").strip()
    shell("log -t late number 6")

    def numbers(options: str) -> list[str]:
        found = shell(f"logcat -v raw {options}").splitlines()
        return [line.split()[1] for line in found if line.startswith("number")]

    assert numbers("-d") == list("123456")
    assert numbers("-t 2") == numbers("-d -T 2") == list("56")
    assert numbers(f"-t '{moment}'") == list("6")
    assert numbers("-d -e 'number [135]'") == list("135")
    assert numbers("-d -m 2") == numbers("-m 2") == list("12")
    assert numbers("-m 1 -e 'number [45]'") == list("4")
    assert numbers("--print -m 1 -e 'number [45]'") == list("1234")
    assert numbers("-d t3 t5:S '*:S'") == list("3")
    pid = shell("logcat -d -t 1 | tail -n 1").split()[2]
    assert numbers(f"-d --pid={pid}") == list("6")
    assert numbers("-d --uid=2000") == list("123456") and numbers("-d --uid=0,1") == []
    assert numbers("-d -b crash") == [] and numbers("-d -b system,main") == list("123456")


def test_a_live_logcat_shows_what_comes(shell: Shell) -> None:
    shell("log old")
    live = subprocess.Popen([*shell.base, "logcat", "-T", "1", "-v", "raw"], stdout=subprocess.PIPE)
    try:
        assert live.stdout is not None
        assert [live.stdout.readline() for _ in range(2)] == [b"--------- beginning of main\n", b"old\n"]
        began = time.monotonic()
        shell("log new")
        assert live.stdout.readline() == b"new\n"
        assert time.monotonic() - began < 5
    finally:
        live.terminate()
        live.wait(10)
    assert eventually(lambda: shell("pidof logcat || echo none").strip() == "none", within_s=20)


def test_sizes_and_clearing(shell: Shell) -> None:
    line = "ring buffer is 1 MiB ({0} consumed, {0} readable), max entry is 5120 B, max payload is 4068 B"
    assert shell("logcat -b main -g").strip() == "main: " + line.format("0 B")
    shell("log x; logcat -b main -G 128K")
    assert "ring buffer is 128 KiB (" in shell("logcat -b main -g")
    failed = shell.adb("shell", "logcat -b main,crash -G 1K")
    assert failed.returncode == 1
    assert failed.stderr.strip() == b"logcat: failed to set the 'main,crash' log sizes."
    shell("logcat -b main -G 1M; logcat -c")
    assert shell("logcat -d") == ""


def test_binary_output_is_loggers_entries(shell: Shell) -> None:
    shell("log -t MNNJNI -p w binary")
    data = shell.adb("exec-out", "logcat -d -B").stdout
    length, head, pid, tid, _, _, log_id, uid = struct.unpack_from("<HHiIIIII", data)
    assert (head, log_id, uid, length) == (28, 0, 2000, len(data) - 28)
    assert pid == tid and data[28:] == b"\x05MNNJNI\0binary\0"


def test_to_a_file_with_rotation(shell: Shell) -> None:
    shell("cd /data/local/tmp && rm -f lc* && for i in 1 2 3; do log line $i; done && logcat -d -f lc")
    assert shell("grep -c line /data/local/tmp/lc").strip() == "3"
    shell("cd /data/local/tmp && logcat -d -f lc2 -r 1 -n 3; logcat -c -f lc")
    assert shell("ls /data/local/tmp/lc* | wc -l").strip() == "1"


def test_mistakes_are_named(shell: Shell) -> None:
    for words, complaint in (("-b nonsense", "Unknown -b buffer 'nonsense'."), ("-t soon", "not in time")):
        failed = shell.adb("shell", f"logcat {words}")
        assert failed.returncode == 1 and complaint in failed.stderr.decode()
    assert "Usage: logcat" in shell("logcat --help")


def test_markers_of_several_buffers(shell: Shell, writer: str) -> None:
    shell("log one; sh -c 'kill -SEGV $$'; log two")
    assert shell("logcat -d -D -v raw").splitlines()[:2] == ["--------- beginning of main", "one"]
    markers = [line for line in shell("logcat -d -D").splitlines() if line.startswith("---")]
    assert markers[:2] == ["--------- beginning of main", "--------- beginning of crash"]
    assert set(markers[2:]) <= {"--------- switch to main", "--------- switch to crash"} and markers[2:]


def test_properties_decide_what_is_logged(shell: Shell) -> None:
    shell("setprop log.tag.quiet S; sleep 0.2; log -t quiet -p f no; log -t loud yes")
    assert "no" not in shell("logcat -d -v raw") and "yes" in shell("logcat -d -v raw")
    shell("setprop log.tag.quiet ''; sleep 0.2; log -t quiet again")
    assert "again" in shell("logcat -d -v raw")


def test_repeats_are_folded_on_android_11_and_not_on_14(
    shell: Shell, phone_11: Shell, writer: str, tmp_path: Path
) -> None:
    local = tmp_path / "writer"
    assert shell.adb("pull", writer, str(local)).returncode == 0
    local.chmod(0o755)
    assert phone_11.adb("push", str(local), writer).returncode == 0
    for phone in (shell, phone_11):
        phone(f"logcat -c; {writer} 30 same; log end")
    texts = shell("logcat -d -v raw").splitlines()[1:]
    assert texts == ["same"] * 30 + ["end"]
    texts = phone_11("logcat -d -v tag").splitlines()[1:]
    assert [texts[0], *texts[2:]] == ["I/MNNJNI  : same", "I/MNNJNI  : same", "I/log     : end"]
    assert texts[1] == "I/chatty  : uid=2000(shell) writer identical 28 lines"
    assert "readable" not in phone_11("logcat -b main -g")


def cpu_s(shell: Shell, *names: str) -> float:
    total = 0
    for line in shell("cat /proc/[0-9]*/stat 2>/dev/null || true").splitlines():
        name = line[line.index("(") + 1 : line.rindex(")")]
        if name in names:
            fields = line[line.rindex(")") + 1 :].split()
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def test_fifty_thousand_lines_and_none_is_lost(shell: Shell, writer: str, tmp_path: Path) -> None:
    shell("logcat -G 16M")
    target = tmp_path / "log 记录.txt"
    with target.open("wb") as file:
        live = subprocess.Popen([*shell.base, "logcat", "-s", "MNNJNI:I"], stdout=file)
        try:
            time.sleep(0.3)
            before = cpu_s(shell, "logd", "toolbox")
            shell(f"{writer} {LINES}")
            deadline = time.monotonic() + 30
            while target.read_bytes().count(b"\n") <= LINES and time.monotonic() < deadline:
                time.sleep(0.1)
            used = cpu_s(shell, "logd", "toolbox") - before
        finally:
            live.terminate()
            live.wait(10)
            shell("logcat -G 1M")
    lines = target.read_text().splitlines()
    assert lines.pop(0) == "--------- beginning of main"
    numbers = [int(line.split("line ", 1)[1].split()[0]) for line in lines]
    assert numbers == list(range(LINES))
    assert used < MAX_CPU_S, f"{used:.2f} s for {LINES} lines"


def test_a_reader_that_does_not_read_is_given_up(shell: Shell, writer: str) -> None:
    stopped = subprocess.Popen(
        [*shell.base, "shell", "logcat -b main"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        # The one that waits for work, and the one that reads for logcat.
        assert eventually(lambda: len(shell("pidof toolbox").split()) == 2, within_s=20)
        shell("kill -STOP $(pidof toolbox | tr ' ' '\\n' | sort -n | tail -n 1)")
        shell(f"{writer} 60000")
        shell("kill -CONT $(pidof toolbox)")
        out, err = stopped.communicate(timeout=30)
        assert b"Unexpected EOF!" in err and out.count(b"\n") < 60000
    finally:
        stopped.kill()
        stopped.wait()


def test_logd_comes_back(shell: Shell) -> None:
    shell("log before; kill -9 $(pidof logd)")
    # Until it is back there is nobody to write to or to read from; what was before is lost.
    back = lambda: set(shell("log after; logcat -d -v raw || true").splitlines()[1:]) == {"after"}  # noqa: E731
    assert eventually(back, within_s=20)


# ---- what logd tells of itself


def test_statistics(shell: Shell, writer: str) -> None:
    before = shell("logcat -S").splitlines()[1].split()[-1]
    shell("log -t One x; log -p e -t Two 'a longer text'")
    pid = shell(f"{writer} 100 & echo $!; wait").strip()
    lines = shell("logcat -b main,crash -S").splitlines()
    assert lines[0].split() == ["size/num", "main", "crash", "Total"]
    total, count = map(int, lines[1].split()[1].split("/"))
    assert count - int(before.split("/")[1]) >= 102 and total > 100 * len("line 1 of a text")
    assert lines[2].startswith("Now      ") and lines[2].split()[1].endswith("/102")
    assert "Chattiest UIDs in main log buffer:                           Size   +/-  Pruned" in lines
    assert any(re.fullmatch(r"2000  shell {45,}\d{4,5}", line) for line in lines), lines
    # The one who has logged most comes first, also when it has ended long ago.
    processes = lines[lines.index(next(line for line in lines if line.startswith("Chattiest PIDs:"))) + 2 :]
    assert processes[0].split()[:2] == [f"{pid}/2000", writer]
    assert any(re.fullmatch(rf" +{pid}/2000  MNNJNI +\d+", line) for line in lines)


def test_the_prune_list(shell: Shell) -> None:
    assert shell("logcat -p") == "~! ~1000/!\n"
    assert shell("logcat -P '2000/7 ~1000'; logcat --prune") == "2000/7 ~1000\n"
    refused = shell("logcat -P sieben 2>&1; echo $?")
    assert refused == "logcat: Failed to set the prune list to 'sieben'.\n1\n"
    assert shell("logcat -P ''; logcat -p; logcat -P default; logcat -p") == "\n~! ~1000/!\n"


def test_the_log_of_before_the_reboot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "leer 重启"))
    with sim.start_phone("last", adb=ADB, lifeline=True) as phone:
        shell = Shell(phone)
        missing = "logcat: Logcat read failure: No such file or directory\n1\n"
        assert shell("logcat -L 2>&1; echo $?") == missing
        shell("log -t Before one; log -p w -t Before two; log -t Other three")
        sim.break_phone("last", "reboot", {"down": 0.2})
        shell.adb("wait-for-disconnect")
        assert shell.adb("wait-for-device").returncode == 0
        assert "Before" not in shell("logcat -d")
        shell("log -t After four")
        texts = [line.split(": ", 1)[1] for line in shell("logcat -L -s Before:W Other").splitlines()[1:]]
        assert texts == ["two", "three"]
        assert shell("logcat --last -v tag | tail -n 1") == "I/Other   : three\n"
        assert "four" not in shell("logcat -L") and "four" in shell("logcat -d")
        # Clearing the log of this boot leaves it alone.
        shell("logcat -c")
        assert "one" in shell("logcat -L")
        shell("logcat -L -c; logcat -L -c")
        assert shell("logcat -L 2>&1; echo $?") == missing
