"""`--stdin` where LLDB cannot launch onto a terminal: the program is made to wait for it, and attached to."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit import config
from devkit.device import Device, PushItem
from devkit.lldb import find_tools
from tests.e2e.support import Cli, Sim, TinyApp
from tests.e2e.test_debug import MAIN, nothing_left

FIRST_LINE = next(n for n, line in enumerate(MAIN, start=1) if "std::string mode" in line)
# Files of terminals cannot be opened by what is preloaded with it.
NO_TERMINALS = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    mode_t mode = va_arg(more, mode_t);
    va_end(more);
    if (!strncmp(path, "/dev/pts/", 9)) {
        errno = EACCES;
        return -1;
    }
    return ((int (*)(const char *, int, mode_t))dlsym(RTLD_NEXT, "open"))(path, flags, mode);
}
int open64(const char *path, int flags, ...) __attribute__((alias("open")));
"""


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device) -> Iterator[None]:
    yield
    assert nothing_left(device)


@pytest.fixture
def typed(workdir: Path) -> Path:
    file = workdir / "typed.txt"
    file.write_text("one\nzwei 二\n", "utf-8")
    return file


def test_it_stands_before_main_and_reads(sim: Sim, tiny: TinyApp, devkit: Cli, typed: Path) -> None:
    words = (
        "debug",
        tiny.program,
        "--stdin",
        typed,
        "-b",
        f"main.cpp:{FIRST_LINE}",
        "--batch",
        "-",
        "--json",
    )
    ran = devkit(*words, "--", "cat", stdin="process continue\n", DEVKIT_LLDB_INPUT="preload")
    assert ran.code == 0, ran.err
    [stop] = ran.data["stops"]
    assert stop["is_breakpoint"] and stop["frames"][0]["line"] == FIRST_LINE
    for line in ("one", "zwei 二", "eof"):
        assert line in ran.data["transcript"]


@pytest.mark.slow
def test_its_children_do_not_wait(sim: Sim, tiny: TinyApp, devkit: Cli, typed: Path) -> None:
    words = ("debug", tiny.program, "--stdin", typed, "--batch", "-", "--", "env", "LD_PRELOAD")
    ran = devkit(*words, stdin="process continue\n", DEVKIT_LLDB_INPUT="preload")
    assert ran.code == 0 and "devkit-wait" not in ran.out, ran.err


@pytest.mark.slow
def test_a_static_program_cannot_be_made_to_wait(
    sim: Sim, workdir: Path, devkit: Cli, typed: Path, device: Device
) -> None:
    (workdir / "static.c").write_text("int main(void) { return 4; }\n")
    subprocess.run(["gcc", "-g", "-static", "-o", "static", "static.c"], cwd=workdir, check=True)
    words = ("debug", "./static", "--stdin", typed, "--batch", "-")
    ran = devkit(*words, stdin="process continue\n", DEVKIT_LLDB_INPUT="preload")
    assert ran.code == 125 and "static is a static program" in ran.err and "try: " in ran.err
    # LLDB launches it as any other.
    assert devkit(*words, stdin="process continue\n").code == 4


@pytest.mark.slow
def test_a_refused_launch_falls_back_by_itself_and_is_remembered(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path, typed: Path, tmp_path: Path
) -> None:
    (workdir / "no.c").write_text(NO_TERMINALS)
    subprocess.run(["gcc", "-fPIC", "-shared", "-o", "no.so", "no.c", "-ldl"], cwd=workdir, check=True)
    real = find_tools(config.load(), device).server
    there = "/data/local/tmp/no-terminals"
    device.shell(["mkdir", "-p", there], check=True)
    device.push(
        [
            PushItem(local=workdir / "no.so", remote=f"{there}/no.so", mode=0o755, mtime_s=0),
            PushItem(local=real, remote=f"{there}/lldb-server", mode=0o755, mtime_s=0),
        ]
    )
    server = workdir / "server.sh"
    server.write_text(f'#!/system/bin/sh\nLD_PRELOAD={there}/no.so exec {there}/lldb-server "$@"\n')
    server.chmod(0o755)
    words = ("debug", tiny.program, "--stdin", typed, "--batch", "-", "--json", "--", "cat")
    environment = {"DEVKIT_LLDB_SERVER": str(server), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    for number in (1, 2):
        ran = devkit(*words, stdin="process continue\n", **environment)
        assert ran.code == 0, ran.err
        assert "zwei 二" in ran.data["transcript"] and len(ran.data["stops"]) == 1
        assert ("it is made to wait for LLDB instead" in ran.err) == (number == 1)
    [reason] = json.loads((tmp_path / "cache/devkit/launch-refused.json").read_text()).values()
    assert reason
    told = devkit(*words, stdin="quit\n", DEVKIT_LLDB_INPUT="launch", **environment)
    assert "was not launched onto a terminal" in told.err
