"""Reports of real sanitizers: programs with errors, built here with gcc's or clang's runtime."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from devkit.crashes import Crash, SymbolFolders, cause_of, own_frame, read_crashes, symbolize
from devkit.symbols import Symbolizer

SOURCE = """\
#include <stdlib.h>
__attribute__((noinline)) static int take(int *v, int n) {
    return v[n]; /* access */
}
__attribute__((noinline)) static int *make(void) {
    int *v = malloc(10 * sizeof *v); /* malloc */
    v[0] = 1;
    return v;
}
int main(int argc, char **argv) {
    (void)argv;
    if (argc > 2)
        return 2147483000 + argc * 1000; /* overflow */
    int *v = make(); /* make */
    if (argc > 1)
        free(v); /* free */
    return take(v, argc > 1 ? 1 : 10) + 1; /* take */
}
"""
LINES = {
    mark: number
    for number, line in enumerate(SOURCE.splitlines(), 1)
    for mark in re.findall(r"/\* (\w+) \*/", line)
}


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("asan 程序")
    (folder / "main.c").write_text(SOURCE)
    compiler = shutil.which("gcc") or shutil.which("clang")
    assert compiler
    flags = ["-g", "-O1", "-fno-omit-frame-pointer", "-fsanitize=address,undefined", "-Wl,--build-id"]
    done = subprocess.run(
        [compiler, *flags, folder / "main.c", "-o", folder / "prog"], capture_output=True, check=False
    )
    if done.returncode and re.search(rb"cannot find .*l?[au]b?san", done.stderr):
        pytest.skip("this compiler has no sanitizer runtime")
    assert done.returncode == 0, done.stderr
    return folder / "prog"


def report(program: Path, *args: str, symbolized: bool) -> Crash:
    flag = f"symbolize={int(symbolized)}"
    environment = {**os.environ, "ASAN_OPTIONS": flag, "UBSAN_OPTIONS": "print_stacktrace=0"}
    done = subprocess.run([program, *args], stderr=subprocess.PIPE, env=environment, check=False)
    text = done.stderr.decode()
    # As the phone's log has it, cut into records among other processes' lines.
    lines = [f"05-14 10:40:12.360 I/wrap.sh (22487): {line}" for line in text.splitlines()]
    for at in range(len(lines), 0, -3):
        lines.insert(at, "05-14 10:40:12.364 D/        (22488): #0 0x1 (/another/process+0x1)")
    crashes = [crash for crash in read_crashes(lines).crashes if crash.kind == "sanitizer"]
    with SymbolFolders([program] if not symbolized else []) as folders:
        symbolize(crashes, folders, Symbolizer())
    return crashes[0]


def places(crash: Crash, stack: int) -> list[tuple[str | None, int | None]]:
    frames = crash.stacks[stack].frames
    return [
        (loc.function, loc.line)
        for frame in frames
        for loc in frame.locations
        if (loc.file or "").endswith("/main.c")
    ]


@pytest.mark.parametrize("symbolized", [False, True])
def test_a_heap_overflow(program: Path, symbolized: bool) -> None:
    crash = report(program, symbolized=symbolized)
    assert (crash.what, crash.access) == ("heap-buffer-overflow", "READ of size 4")
    assert [stack.title for stack in crash.stacks] == ["access", "allocated by"]
    assert places(crash, 0) == [("take", LINES["access"]), ("main", LINES["take"])]
    assert places(crash, 1)[0] == ("make", LINES["malloc"])
    found = own_frame(crash)
    assert found is not None and found[1] is not None and found[1].line == LINES["access"]


@pytest.mark.parametrize("symbolized", [False, True])
def test_a_use_after_free(program: Path, symbolized: bool) -> None:
    crash = report(program, "x", symbolized=symbolized)
    assert (crash.what, cause_of(crash).kind) == ("heap-use-after-free", "use-after-free")
    assert [stack.title for stack in crash.stacks] == ["access", "freed by", "allocated by"]
    assert places(crash, 1) == [("main", LINES["free"])]
    assert places(crash, 2)[0] == ("make", LINES["malloc"])


def test_undefined_behaviour(program: Path) -> None:
    crash = report(program, "x", "y", symbolized=True)
    assert crash.tool == "UndefinedBehaviorSanitizer" and (crash.what or "").startswith(
        "signed integer overflow"
    )
    found = own_frame(crash)
    assert found is not None and found[1] is not None
    assert found[1].line == LINES["overflow"] and (found[1].file or "").endswith("main.c")
