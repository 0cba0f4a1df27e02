"""The four ways LLDB reaches a phone, with LLDB 23 (PyPI) and 19 (Debian): as on a real phone, and slowly.

lldb-server is the wheel's in all of them: Debian's needs libraries that no phone has.
"""

from __future__ import annotations

import itertools
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import adbutils
import pytest

from devkit import sim
from devkit.sim import Phone

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

ADB = Path(adbutils.__file__).parent / "binaries" / "adb"
TMP = "/data/local/tmp"
LIBRARIES = 200
# One for each platform: a server that is ending still listens for a moment.
PORTS = itertools.count(31313)
# Debian's is there where script/test --all could install it.
LLDBS = {"23": str(Path(sys.executable).parent / "lldb"), "19": shutil.which("lldb-19")}
PROGRAM = """
#include <stdio.h>
int answer(int n) {
    int local = n * 2;
    printf("local %d\\n", local);
    return local;
}
int main(int argc, char **argv) { return answer(20 + argc) == 42 ? 9 : 1; }
"""


@pytest.fixture(params=[version for version, path in LLDBS.items() if path])
def lldb(request: pytest.FixtureRequest) -> str:
    path = LLDBS[request.param]
    assert path is not None
    return path


@pytest.fixture(scope="module")
def phone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Phone]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state") / "leer 手机"))
        with sim.start_phone("modes", adb=ADB, lifeline=True) as started:
            yield started


@pytest.fixture(scope="module")
def server(phone: Phone) -> str:
    import lldb_for_pwndbg

    adb(
        phone, "push", Path(lldb_for_pwndbg.__file__).parent / "_vendor/bin/lldb-server", f"{TMP}/lldb-server"
    )
    return f"{TMP}/lldb-server"


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("prog") / "mein programm 程序"
    folder.mkdir()
    (folder / "prog.c").write_text(PROGRAM)
    subprocess.run(["gcc", "-g", "-O0", "-o", "prog", "prog.c"], cwd=folder, check=True)
    return folder / "prog"


def adb(phone: Phone, *words: str | Path) -> str:
    command = [ADB, "-P", str(phone.record.adb_port), "-s", phone.record.serial, *words]
    return subprocess.run(command, capture_output=True, check=True, timeout=120).stdout.decode()


def start_on_phone(phone: Phone, command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [ADB, "-P", str(phone.record.adb_port), "-s", phone.record.serial, "shell", "-T", f"exec {command}"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def end(child: subprocess.Popen[bytes]) -> None:
    child.terminate()
    child.wait(20)


def wait_for(phone: Phone, what: str, where: str) -> None:
    deadline = time.monotonic() + 15
    while what not in adb(phone, "shell", f"cat {where}"):
        assert time.monotonic() < deadline, f"{what} does not appear in {where}"
        time.sleep(0.05)


def wait_for_port(phone: Phone, port: int) -> None:
    wait_for(phone, f":{port:04X} 00000000:0000 0A", "/proc/net/tcp")


def run_lldb(
    lldb: str, commands: list[str], tmp_path: Path, *, timeout_s: float = 240, **environment: str
) -> str:
    home = tmp_path / "lldb home"
    home.mkdir(exist_ok=True)
    # A built-in debuginfod address may hang for minutes.
    first = [] if "19" in lldb else ["settings clear plugin.symbol-locator.debuginfod.server-urls"]
    options = [word for command in [*first, *commands] for word in ("-o", command)]
    done = subprocess.run(
        [lldb, "--no-lldbinit", "-b", *options],
        env={**os.environ, "HOME": str(home), "DEBUGINFOD_URLS": "", **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout_s,
        check=False,
    )
    return done.stdout.decode("utf-8", "replace")


def check_session(text: str) -> None:
    """A launch that stopped in answer(), saw its variables, and ended as the program does."""
    assert "prog`answer(n=21) at prog.c:" in text, text
    assert "prog`main(argc=1" in text, text
    assert re.search(r"\(int\) n = 21", text), text
    assert "exited with status = 9" in text, text


USE = ["bt", "frame variable n", "c"]


@pytest.mark.parametrize("url", ["connect://localhost:{port}", "connect://[{serial}]:{port}"])
def test_remote_android(
    lldb: str, phone: Phone, server: str, program: Path, tmp_path: Path, url: str
) -> None:
    """The platform speaks to the adb server itself and makes its own forwards."""
    port = next(PORTS)
    platform = start_on_phone(phone, f"{server} platform --server --listen 127.0.0.1:{port}")
    try:
        wait_for_port(phone, port)
        text = run_lldb(
            lldb,
            [
                "platform select remote-android",
                "platform connect " + url.format(port=port, serial=phone.record.serial),
                f"platform settings -w {TMP}",
                f'target create "{program}"',
                "b answer",
                "run",
                *USE,
            ],
            tmp_path,
            ANDROID_SERIAL=phone.record.serial,
            ANDROID_ADB_SERVER_PORT=str(phone.record.adb_port),
        )
        assert "Connected: yes" in text, text
        check_session(text)
    finally:
        end(platform)
        adb(phone, "forward", "--remove-all")


def test_remote_linux_over_two_forwards(
    lldb: str, phone: Phone, server: str, program: Path, tmp_path: Path
) -> None:
    """No adb in sight: the same numbers here as on the phone, one for the platform, one for gdbserver."""
    ports = [int(adb(phone, "forward", "tcp:0", "tcp:1")) for _ in range(2)]
    for number in ports:
        adb(phone, "forward", f"tcp:{number}", f"tcp:{number}")
    listen = f"--listen 127.0.0.1:{ports[0]} --gdbserver-port {ports[1]}"
    platform = start_on_phone(phone, f"{server} platform --server {listen}")
    try:
        wait_for_port(phone, ports[0])
        text = run_lldb(
            lldb,
            [
                "platform select remote-linux",
                f"platform connect connect://127.0.0.1:{ports[0]}",
                f"platform settings -w {TMP}",
                f'target create "{program}"',
                "b answer",
                "run",
                *USE,
            ],
            tmp_path,
            PATH="/usr/bin:/bin",
        )
        check_session(text)
    finally:
        end(platform)
        adb(phone, "forward", "--remove-all")


def test_gdb_remote(lldb: str, phone: Phone, server: str, program: Path, tmp_path: Path) -> None:
    adb(phone, "push", program, f"{TMP}/prog")
    name = f"modes-{Path(lldb).name}"
    gdbserver = start_on_phone(phone, f"{server} gdbserver unix-abstract://{name} -- {TMP}/prog")
    try:
        wait_for(phone, f"@{name}", "/proc/net/unix")
        port = adb(phone, "forward", "tcp:0", f"localabstract:{name}").strip()
        commands = [f'target create "{program}"', "b answer", f"gdb-remote {port}", "c", *USE]
        check_session(run_lldb(lldb, commands, tmp_path))
    finally:
        end(gdbserver)
        adb(phone, "forward", "--remove-all")


# ---- attach with 200 libraries


@pytest.fixture(scope="module")
def crowd(phone: Phone, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program with LIBRARIES small libraries, on the phone; its folder here."""
    folder = tmp_path_factory.mktemp("crowd") / "viele 多"
    libraries = folder / "libs"
    libraries.mkdir(parents=True)

    def build(number: int) -> None:
        source = folder / f"s{number}.c"
        function = f"int f{number}(int x) {{ return x + data[0] + {number}; }}\n"
        source.write_text(f'static const char data[4096] = "{number}";\n{function}')
        name = f"libcrowd{number:03d}.so"
        command = [
            "gcc",
            "-g",
            "-O0",
            "-fPIC",
            "-shared",
            "-nostdlib",
            "-Wl,--build-id",
            f"-Wl,-soname,{name}",
        ]
        subprocess.run([*command, "-o", libraries / name, source], check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, range(LIBRARIES)))
    calls = "".join(f"int f{n}(int); " for n in range(LIBRARIES))
    total = " + ".join(f"f{n}(i)" for n in range(LIBRARIES))
    (folder / "crowd.c").write_text(
        f"#include <stdio.h>\n#include <unistd.h>\n{calls}\n"
        "int tick(int i) {\n"
        f"    int sum = {total};\n"
        "    return sum;\n}\n"
        'int main(void) { for (int i = 0;; i++) { printf("%d\\n", tick(i)); usleep(50000); } }\n'
    )
    names = [f"-lcrowd{n:03d}" for n in range(LIBRARIES)]
    command = ["gcc", "-g", "-O0", "-o", "crowd", "crowd.c", "-Llibs", "-Wl,--no-as-needed", *names]
    subprocess.run(command, cwd=folder, check=True)
    adb(phone, "push", folder / "crowd", TMP)
    adb(phone, "push", libraries, TMP)
    return folder


@pytest.fixture
def running(phone: Phone, crowd: Path) -> Iterator[str]:
    """The pid of the running crowd."""
    child = start_on_phone(phone, f"env LD_LIBRARY_PATH={TMP}/libs {TMP}/crowd")
    try:
        wait_for(phone, "crowd", "/proc/[0-9]*/comm")
        pid = adb(phone, "shell", "pidof crowd").strip()
        wait_for(phone, f"libcrowd{LIBRARIES - 1:03d}.so", f"/proc/{pid}/maps")
        yield pid
    finally:
        adb(phone, "shell", "kill -9 $(pidof crowd) || true")
        end(child)


ATTACHED = ["b f150", "c", "bt 2", "frame variable x", "image list -b", "detach"]


def check_attached(text: str) -> None:
    assert "`f150(x=" in text and "`tick(i=" in text, text[-4000:]
    assert re.search(r"\(int\) x = \d+", text), text[-4000:]
    assert len(set(re.findall(r"libcrowd\d+\.so$", text, re.MULTILINE))) == LIBRARIES


def test_attach_to_200_libraries_by_gdb_remote(
    lldb: str, phone: Phone, server: str, crowd: Path, running: str, tmp_path: Path
) -> None:
    name = f"crowd-{Path(lldb).name}"
    gdbserver = start_on_phone(phone, f"{server} gdbserver unix-abstract://{name} --attach {running}")
    try:
        wait_for(phone, f"@{name}", "/proc/net/unix")
        port = adb(phone, "forward", "tcp:0", f"localabstract:{name}").strip()
        text = run_lldb(
            lldb,
            [
                f'settings set target.exec-search-paths "{crowd}/libs"',
                f'target create --no-dependents "{crowd}/crowd"',
                f"gdb-remote {port}",
                *ATTACHED,
            ],
            tmp_path,
        )
        check_attached(text)
        # It lives on.
        assert adb(phone, "shell", "pidof crowd").strip() == running
    finally:
        end(gdbserver)
        adb(phone, "forward", "--remove-all")


def test_attach_to_200_libraries_by_remote_android(
    lldb: str, phone: Phone, server: str, crowd: Path, running: str, tmp_path: Path
) -> None:
    """Cold: every library is asked for and pulled over adb."""
    port = next(PORTS)
    platform = start_on_phone(phone, f"{server} platform --server --listen 127.0.0.1:{port}")
    try:
        wait_for_port(phone, port)
        text = run_lldb(
            lldb,
            [
                "platform select remote-android",
                f"platform connect connect://localhost:{port}",
                f"process attach --pid {running}",
                *ATTACHED,
            ],
            tmp_path,
            ANDROID_SERIAL=phone.record.serial,
            ANDROID_ADB_SERVER_PORT=str(phone.record.adb_port),
        )
        check_attached(text)
        cached = list((tmp_path / "lldb home").rglob("libcrowd*.so"))
        assert len({path.name for path in cached}) == LIBRARIES
    finally:
        end(platform)
        adb(phone, "forward", "--remove-all")
