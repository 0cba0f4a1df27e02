"""`devkit debug` of programs with AddressSanitizer: they stop at the report, which has source lines."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from devkit.device import Device
from tests.e2e.f5_project import ADAPTERS, launch_of
from tests.e2e.support import REPO, Cli, Sim, eventually, left_on_phone
from tests.support.standin_ndk import make_standin_ndk
from tests.tools.f5 import f5

LINE = 7


@pytest.fixture
def project(sim: Sim, workdir: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(workdir / "home"))
    folder = workdir / "my engine"
    folder.mkdir()
    shutil.copy(REPO / "tests/data/tiny/overflow.cpp", folder)
    compiler = shutil.which("g++")
    assert compiler
    flags = [compiler, "-g", "-O0", "-fsanitize=address"]
    subprocess.run([*flags, "overflow.cpp", "-o", "overflow"], cwd=folder, check=True)
    found = subprocess.run(
        [compiler, "-print-file-name=libasan.so"], capture_output=True, text=True, check=True
    )
    runtime = Path(found.stdout.strip()).resolve()
    shutil.copy(runtime, folder / ".".join(runtime.name.split(".")[:3]))  # libasan.so.8, its soname
    (folder / "CMakeLists.txt").touch()
    (folder / "devkit.yaml").write_text(
        f"engine: cmake\napps:\n  overflow: {{target: '{folder}/overflow', args: [heap]}}\n"
        f"  right: {{target: '{folder}/overflow'}}\n",
        "utf-8",
    )
    return folder


@pytest.fixture(autouse=True)
def nothing_is_left(device: Device) -> Iterator[None]:
    yield
    assert eventually(lambda: not left_on_phone(device, "lldb-server", "overflow", ".devkit-guard"))


def batch(folder: Path, *commands: str) -> Path:
    file = folder / "batch.lldb"
    file.write_text("\n".join(commands) + "\n")
    return file


def test_it_stops_at_the_report_which_has_source_lines(project: Path, devkit: Cli) -> None:
    ran = devkit("debug", "overflow", "--batch", batch(project, "frame select 0"), "--json", cwd=project)
    assert ran.code == 128 + 6, ran.err
    assert "not on this machine" not in ran.err  # the sources of the copy of libasan
    [stop] = ran.data["stops"]
    assert stop["signal"] == 6 or stop["reason"] == "Heap buffer overflow"  # LLDB 23 knows the runtime
    assert ["fill", LINE] in [[f["function"].partition("(")[0], f["line"]] for f in stop["frames"]]
    [crash] = ran.data["crashes"]
    assert crash["what"] == "heap-buffer-overflow" and crash["access"] == "WRITE of size 4"
    assert crash["own"]["file"] == str(project / "overflow.cpp") and crash["own"]["line"] == LINE
    text = ran.data["transcript"]
    assert "begin" in text and "heap-buffer-overflow" in text
    assert "built with asan: it stops at the abort after a report" in ran.err


def test_a_right_program_is_told_to_be_right(project: Path, devkit: Cli) -> None:
    ran = devkit("debug", "right", "--batch", batch(project, "process status"), "--json", cwd=project)
    assert (ran.code, ran.data["crashes"]) == (3, []) and "asan reported nothing" in ran.err


def test_who_goes_on_after_errors_stops_before_each_report(project: Path, devkit: Cli) -> None:
    words = ("debug", "overflow", "-e", "ASAN_OPTIONS=halt_on_error=0")
    ran = devkit(*words, "--batch", batch(project, "thread backtrace"), "--json", cwd=project)
    [stop] = ran.data["stops"]
    assert stop["is_breakpoint"] and "at __asan_on_error, before each report" in ran.err
    assert LINE in [frame["line"] for frame in stop["frames"]]


def test_in_vs_code(project: Path, devkit: Cli) -> None:
    assert devkit("vscode", cwd=project).code == 0
    session = f5(launch_of(project), "devkit: overflow on the phone", [], stops=1, then="disconnect",
                 adapter=ADAPTERS["codelldb-23"])  # fmt: skip
    [stop] = session.stops
    assert LINE in [frame[2] for frame in stop["frames"]] and not stop["breakpoint"]
    assert session.terminal.index("begin") < session.terminal.index("ABORTING")
    assert (
        f"{project}/overflow.cpp:{LINE}:" in session.terminal
        and ": error: AddressSanitizer: heap-" in session.terminal
    )


@pytest.mark.slow
def test_the_profile_of_an_engine(
    sim: Sim, devkit: Cli, workdir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Built with an NDK's runtime, which travels with the program."""
    engine = workdir / "MNN 引擎"
    shutil.copytree(REPO / "tests/data/mnn-shape", engine)
    (engine / "devkit.yaml").write_text("engine: mnn\nbuild: {toolchain: ndk}\n")
    monkeypatch.setenv("ANDROID_NDK", str(make_standin_ndk(workdir / "安卓 ndk/android-ndk-r27d")))
    for name in ("ANDROID_NDK_ROOT", "ANDROID_NDK_HOME", "CC", "CXX"):
        monkeypatch.delenv(name, raising=False)
    file = batch(workdir, "thread backtrace")
    words = ("debug", "llm_demo", "--profile", "asan", "--json", "--batch", file, "--", "overflow")
    ran = devkit(*words, cwd=engine, timeout=300)
    assert ran.code == 128 + 6, ran.err + ran.out
    [crash] = ran.data["crashes"]
    assert crash["what"] == "heap-buffer-overflow"
    assert crash["own"]["file"].endswith("llm_demo.cpp") and crash["own"]["line"] == 10
    assert "libclang_rt.asan-" in sim.device().shell("ls /data/local/tmp/devkit/llm_demo").text
