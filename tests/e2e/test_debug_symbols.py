"""Symbols in `devkit debug`: moved source trees, breakpoints without code, libraries that come later."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device, PushItem
from devkit.symbols import read_elf
from tests.e2e.support import Cli, Sim, TinyApp, eventually, left_on_phone
from tests.e2e.test_debug import nothing_left

DIR = "/data/local/tmp/devkit/tiny"
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


def test_a_copy_of_a_library_from_elsewhere_is_refused(
    sim: Sim, tiny: TinyApp, devkit: Cli, device: Device, workdir: Path
) -> None:
    """LLDB would take the symbols here for it, because they have its name."""
    assert devkit("deploy", tiny.program).code == 0
    other, there = workdir / "libinner.so", "/data/local/tmp/other"
    source = workdir / "inner.cpp"
    source.write_text((tiny.folder / "inner.cpp").read_text() + "int more() { return 1; }\n")
    flags = ["g++", "-g", "-fPIC", "-shared", source, "-o", other, "-Wl,-soname,libinner.so"]
    subprocess.run(flags, check=True)
    # It is also one of the builds here.
    kept = workdir / "build/devkit/old/libinner.so"
    kept.parent.mkdir(parents=True)
    shutil.copy(other, kept)
    device.shell(["mkdir", "-p", there], check=True)
    device.push([PushItem(local=other, remote=f"{there}/libinner.so", mode=0o644, mtime_s=0)])
    run = f"cd {DIR} && LD_LIBRARY_PATH={there}:{DIR} exec ./tiny wait"
    with device.open_shell(run) as stream:
        assert stream.read(timeout_s=5) == ("stdout", b"waiting\n")
        ran = devkit("debug", tiny.program, "--attach", "tiny", "--batch", "-", stdin="quit\n")
    assert ran.code == 125 and "the phone has another build" in ran.err
    assert f"{there}/libinner.so" in ran.err and str(read_elf(other).build_id) in ran.err
    assert f"the phone's build is here too: {kept}" in ran.err


@pytest.mark.slow
def test_symbols_are_found_by_build_id_for_what_the_app_does_not_have(
    sim: Sim, late: Path, devkit: Cli, device: Device
) -> None:
    there = "/data/local/tmp/plugins"
    (late / "devkit.yaml").write_text("engine: cmake\napps:\n  late: {target: ./late}\n", "utf-8")
    (late / "plug.c").write_text(
        "#include <unistd.h>\nint plug_work(int n) {\n    for (;;) usleep(50000 + n);\n}\n"
    )
    library = ["gcc", "-g", "-O0", "-fPIC", "-shared", "-o", "libplug.so", "plug.c", "-Wl,-soname,libplug.so"]
    subprocess.run([*library, "-Wl,--build-id"], cwd=late, check=True)
    kept = late / "build/devkit/profile/libplug.so"
    kept.parent.mkdir(parents=True)
    (late / "libplug.so").rename(kept)
    subprocess.run(["strip", "--strip-all", kept, "-o", late / "stripped.so"], check=True)
    assert devkit("deploy", "late", cwd=late).code == 0
    device.shell(["mkdir", "-p", there], check=True)
    item = PushItem(local=late / "stripped.so", remote=f"{there}/libplug.so", mode=0o644, mtime_s=0)
    device.push([item])
    with device.open_shell(f"cd {DIR}/../late && LD_LIBRARY_PATH={there} exec ./late"):
        assert eventually(lambda: bool(left_on_phone(device, "./late")))
        pid = device.find_process("late").pid
        assert eventually(lambda: "libplug" in device.shell(["cat", f"/proc/{pid}/maps"]).text)
        ran = devkit("debug", "late", "--attach", "late", "--batch", "-", "--json", cwd=late, stdin="bt\n")
    assert ran.code == 0, ran.err
    frames = ran.data["stops"][0]["frames"]
    [work] = [frame for frame in frames if frame["function"] == "plug_work"]
    assert (work["line"], work["module"]) == (3, "libplug.so") and work["file"].endswith("plug.c")


def test_round_trips_are_counted_and_saved(sim: Sim, tiny: TinyApp, devkit: Cli) -> None:
    ran = devkit("-v", "debug", tiny.program, "-b", "inner", "--batch", "-", stdin="quit\n")
    counted = re.search(r"(\d+) requests waited for the phone; (\d+) of LLDB's questions did not", ran.err)
    assert counted is not None, ran.err
    assert int(counted[1]) > 0 and int(counted[2]) >= 10
