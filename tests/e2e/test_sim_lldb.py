"""The virtual phone under the real LLDB: lldb-server runs in it and stops a program at main."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import sim
from devkit.sim import Phone
from tests.e2e.support import WHEEL_ADB

ADB = WHEEL_ADB
SOURCE = """
#include <math.h>
#include <stdio.h>
#include <pthread.h>
static void *work(void *p) { *(double *)p = cos(*(double *)p); return p; }
int answer(int n) {
    int local = n * 2;
    double value = 0;
    pthread_t thread;
    pthread_create(&thread, 0, work, &value);
    pthread_join(thread, 0);
    printf("value %.1f local %d\\n", value, local);
    return local;
}
int main(int argc, char **argv) {
    puts("before");
    return answer(20 + argc) == 42 ? 9 : 1;
}
"""


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state") / "leer 手机"))
        with sim.start_phone("lldb", adb=ADB, lifeline=True) as started:
            yield started


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prog") / "mein programm 程序"
    folder.mkdir()
    (folder / "prog.c").write_text(SOURCE)
    command = ["gcc", "-g", "-O0", "-o", "prog", "prog.c", "-lm", "-lpthread"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "prog"


def adb(phone: Phone, *words: str | Path) -> str:
    command = [ADB, "-P", str(phone.record.adb_port), "-s", phone.record.serial, *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=60).stdout.decode()


def build_id(path: Path) -> str:
    notes = subprocess.run(["readelf", "-n", path], capture_output=True, text=True, check=True).stdout
    return next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line)


def run_lldb(commands: list[str], tmp_path: Path) -> str:
    # A built-in debuginfod address may hang for minutes.
    commands = ["settings clear plugin.symbol-locator.debuginfod.server-urls", *commands]
    options = [word for command in commands for word in ("-o", command)]
    done = subprocess.run(
        [Path(sys.executable).parent / "lldb", "--no-lldbinit", "-b", *options],
        env={**os.environ, "HOME": str(tmp_path), "DEBUGINFOD_URLS": ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=90,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


@pytest.fixture(scope="module")
def lldb_server(phone: Phone) -> str:
    import lldb_for_pwndbg

    server = Path(lldb_for_pwndbg.__file__).parent / "_vendor/bin/lldb-server"
    adb(phone, "push", server, "/data/local/tmp/lldb-server")
    return "/data/local/tmp/lldb-server"


def wait_for_socket(phone: Phone, name: str) -> None:
    deadline = time.monotonic() + 10
    while f"@{name}" not in adb(phone, "shell", "cat /proc/net/unix"):
        assert time.monotonic() < deadline, "lldb-server does not listen"
        time.sleep(0.05)


def test_lldb_stops_at_main_and_sees_the_phones_libraries(
    phone: Phone, lldb_server: str, program: Path, tmp_path: Path
) -> None:
    adb(phone, "push", program, "/data/local/tmp/prog")
    command = f"exec {lldb_server} gdbserver unix-abstract://devkit-lldb -- /data/local/tmp/prog"
    server = subprocess.Popen(
        [ADB, "-P", str(phone.record.adb_port), "-s", phone.record.serial, "shell", "-T", command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    wait_for_socket(phone, "devkit-lldb")
    port = adb(phone, "forward", "tcp:0", "localabstract:devkit-lldb").strip()
    # What a debugger needs of the phone: its C library, under the name that the link map has.
    sysroot = tmp_path / "sysroot 系统"
    sysroot.mkdir()
    for name in ("libc.so.6", "libm.so.6"):
        adb(phone, "pull", f"/system/lib64/{name}", sysroot / name)
    text = run_lldb(
        [
            f'settings set target.exec-search-paths "{sysroot}"',
            f'target create "{program}"',
            "b answer",
            f"gdb-remote {port}",
            "c",
            "bt",
            "image list -u -f",
            "disassemble -n pthread_create -c 1",
            "n",
            "frame variable local",
            "c",
        ],
        tmp_path,
    )
    server.communicate(timeout=20)
    assert "stop reason = breakpoint 1.1" in text, text
    assert "prog`answer(n=21) at prog.c:" in text, text
    assert "prog`main(argc=1" in text, text
    assert "local = 42" in text, text
    assert "exited with status = 9" in text, text
    # The phone's own files, not those of this machine that have the same names.
    for name in ("libc.so.6", "libm.so.6"):
        image = next(line for line in text.splitlines() if line.endswith(f"sysroot 系统/{name}"))
        assert build_id(sysroot / name) in image.replace("-", "").lower(), image
    assert "libc.so.6`pthread_create" in text, text
    assert "linux-gnu/libc" not in text, text
    # gdbserver hands the program's output to the debugger.
    assert "value 1.0 local 42" in text, text


def test_lldb_attaches_to_a_running_program(phone: Phone, lldb_server: str, tmp_path: Path) -> None:
    pid = adb(phone, "shell", "setsid sleep 81.5 >/dev/null 2>&1 </dev/null & echo $!").strip()
    server = subprocess.Popen(
        [
            *[ADB, "-P", str(phone.record.adb_port), "-s", phone.record.serial, "shell", "-T"],
            f"exec {lldb_server} gdbserver unix-abstract://devkit-attach --attach {pid}",
        ],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_socket(phone, "devkit-attach")
    port = adb(phone, "forward", "tcp:0", "localabstract:devkit-attach").strip()
    text = run_lldb([f"gdb-remote {port}", "process status", "process kill"], tmp_path)
    server.wait(20)
    assert f"Process {pid} stopped" in text, text
    assert "exited with status = 9" in text, text
