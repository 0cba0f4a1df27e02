"""Symbols in `devkit debug`: moved source trees, breakpoints without code, libraries that come later."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.support import Cli, Sim, TinyApp
from tests.e2e.test_debug import nothing_left

GO_ON = "breakpoint delete --force\nprocess continue\n"


@pytest.fixture(autouse=True)
def nothing_is_left(sim: Sim, device: Device) -> Iterator[None]:
    yield
    assert nothing_left(device)


def test_a_tree_that_was_moved_after_the_build(sim: Sim, tiny: TinyApp, devkit: Cli, workdir: Path) -> None:
    built, moved = workdir / "built on 别的", workdir / "moved here"
    built.mkdir()
    for source in ("inner.cpp", "main.cpp"):
        shutil.copy(tiny.folder / source, built)
    flags = ["g++", "-g", "-O0"]
    library = [*flags, "-fPIC", "-shared", "inner.cpp", "-o", "libinner.so", "-Wl,-soname,libinner.so"]
    subprocess.run(library, cwd=built, check=True)
    subprocess.run([*flags, "main.cpp", "-o", "tiny", "-L.", "-linner"], cwd=built, check=True)
    built.rename(moved)
    point = f"{moved}/inner.cpp:4"
    ran = devkit("debug", moved / "tiny", "-b", point, "--batch", "-", "--json", stdin=GO_ON)
    assert ran.code == 7, ran.err
    files = [frame["file"] for frame in ran.data["stops"][0]["frames"][:2]]
    assert files == [str(moved / "inner.cpp"), str(moved / "main.cpp")]


def test_breakpoints_without_code_are_explained(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    points = ["-b", "inne", "-b", "inner.cpp:999", "-b", "iner.cpp:4"]
    ran = devkit("debug", tiny.program, *points, "--batch", "-", stdin="quit\n")
    assert "no function inne in tiny, libinner.so; the nearest is inner" in ran.err
    assert "inner.cpp is compiled into libinner.so, but has no code at line 999 or below" in ran.err
    assert "no source iner.cpp among the 2 with debug information in tiny, libinner.so" in ran.err
    assert "the nearest is inner.cpp" in ran.err


LATE = """
#include <dlfcn.h>
#include <stdio.h>
int main(int argc, char **argv) {
    if (argc > 1) return 3;
    void *plug = dlopen("libplug.so", RTLD_NOW);
    if (!plug) { puts(dlerror()); return 1; }
    int (*work)(int) = (int (*)(int))dlsym(plug, "plug_work");
    return work(20);
}
"""
PLUG = "int plug_work(int n) {\n    int twice = n * 2;\n    return twice + 1;\n}\n"


@pytest.fixture
def late(workdir: Path) -> Path:
    """A project whose program opens a library when it runs."""
    (workdir / "late.c").write_text(LATE)
    (workdir / "plug.c").write_text(PLUG)
    library = ["gcc", "-g", "-O0", "-fPIC", "-shared", "-o", "libplug.so", "plug.c", "-Wl,-soname,libplug.so"]
    subprocess.run([*library, "-Wl,--build-id"], cwd=workdir, check=True)
    subprocess.run(["gcc", "-g", "-O0", "-o", "late", "late.c", "-ldl"], cwd=workdir, check=True)
    (workdir / "CMakeLists.txt").touch()
    (workdir / "devkit.yaml").write_text(
        "engine: cmake\napps:\n  late: {target: ./late, files: [libplug.so]}\n", "utf-8"
    )
    return workdir


def test_a_library_that_is_opened_later(sim: Sim, late: Path, devkit: Cli) -> None:
    words = ("debug", "late", "-b", "plug.c:2", "--batch", "-", "--json")
    ran = devkit(*words, cwd=late, stdin=GO_ON)
    [stop] = ran.data["stops"]
    top, below = stop["frames"][:2]
    assert (top["function"], top["module"], top["line"]) == ("plug_work", "libplug.so", 2)
    assert (below["function"], below["module"]) == ("main", "late") and ran.code == 41
    ran = devkit(*words, "--", "not", cwd=late, stdin="")
    assert ran.code == 3
    assert "libplug.so, which the program has not loaded" in ran.err
