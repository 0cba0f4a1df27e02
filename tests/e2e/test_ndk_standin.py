"""A complete stand-in NDK: installed from its archive, then built, run and debugged with.

The phone stays what it is (its C library is glibc, and everything that depends on it is right);
`build.toolchain: ndk` says that programs for it come from the NDK all the same.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devkit.device import Device
from devkit.engine.toolchain import host_abi
from devkit.symbols import read_elf
from tests.e2e.support import REPO, Cli, Sim, left_on_phone
from tests.support.http_server import sha1
from tests.support.ndk_trees import zip_tree
from tests.support.standin_ndk import ARCHITECTURES, HOST_TAGS, REVISION, TRIPLES, make_standin_ndk

ABI = host_abi()
PREBUILT = f"toolchains/llvm/prebuilt/{HOST_TAGS[ABI]}"
SOURCE = REPO / "examples/mini-engine/source/backend/cpu/CPUMatMul.cpp"


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("archive 归档")
    zip_tree(make_standin_ndk(folder / "android-ndk-r27d"), folder / "android-ndk-r27d-linux.zip")
    return folder / "android-ndk-r27d-linux.zip"


@pytest.fixture
def engine(workdir: Path) -> Path:
    folder = workdir / "mini-engine"
    shutil.copytree(REPO / "examples/mini-engine", folder, ignore=shutil.ignore_patterns("build"))
    text = (folder / "devkit.yaml").read_text()
    (folder / "devkit.yaml").write_text(text + "\nbuild: {toolchain: ndk}\nndk: {version: r27d}\n")
    return folder


@pytest.mark.slow
def test_install_build_run_debug(
    devkit: Cli, sim: Sim, device: Device, archive: Path, engine: Path, workdir: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setenv("XDG_DATA_HOME", str(workdir / "数据 data"))
    refused = devkit("build", cwd=engine)
    assert refused.code == 125 and "devkit ndk install r27d" in refused.err
    ran = devkit("ndk", "install", "--from", archive, "--sha1", sha1(archive.read_bytes()), "--json")
    assert ran.code == 0, ran.out
    ndk = Path(ran.data["path"])

    # Build: CMake got the NDK's toolchain file and its interface.
    built = devkit("build", "cpu", "--json", "-s", f"sim:{sim.name}", cwd=engine)
    assert built.code == 0, built.err + built.out
    cache = (Path(built.data["build_dir"]) / "CMakeCache.txt").read_text("utf-8")
    for line in (
        f"CMAKE_TOOLCHAIN_FILE:UNINITIALIZED={ndk}/build/cmake/android.toolchain.cmake",
        f"ANDROID_ABI:UNINITIALIZED={ABI}",
        "ANDROID_PLATFORM:UNINITIALIZED=android-24",
        "ANDROID_STL:UNINITIALIZED=c++_shared",
        "ANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES:UNINITIALIZED=ON",
    ):
        assert line.replace("UNINITIALIZED", "FILEPATH") in cache or line in cache, line
    [program] = [Path(a["path"]) for a in built.data["artifacts"] if a["path"].endswith("/llm_demo")]
    info = read_elf(program)
    assert "libc++_shared.so" in info.needed and info.abi == ABI

    # Run: the NDK's C++ library travelled with the program.
    ran = devkit("run", "llm_demo", cwd=engine)
    assert ran.code == 0 and "prefill" in ran.out, ran.out + ran.err
    there = device.shell("ls /data/local/tmp/devkit/llm_demo /data/local/tmp/devkit/llm_demo/*").text
    assert "libc++_shared.so" in there and "libllm.so" in there

    # Debug: with the NDK's lldb and the lldb-server that belongs to it.
    line = next(n for n, text in enumerate(SOURCE.read_text().splitlines(), 1) if "onExecute" in text)
    script = workdir / "批 batch.lldb"
    script.write_text("frame variable\nthread backtrace\nprocess kill\n")
    ran = devkit("debug", "llm_demo", "--break", f"CPUMatMul.cpp:{line + 3}", "--batch", script,
                 "--no-build", "--json", "-v", cwd=engine)  # fmt: skip
    [stop] = ran.data["stops"]
    assert stop["is_breakpoint"] and stop["frames"][0]["file"].endswith("CPUMatMul.cpp")
    assert stop["locals"], "there are locals: it was built with debug information"
    assert f"{ndk}/{PREBUILT}/bin/lldb.sh" in ran.err
    server = ndk / PREBUILT / "lib/clang/18/lib/linux" / ARCHITECTURES[ABI] / "lldb-server"
    sizes = device.shell("stat -c %s /data/local/tmp/devkit/.devkit-lldb/lldb-server-*").text.split()
    assert str(server.stat().st_size) in sizes
    assert not left_on_phone(device, "lldb-server", "llm_demo")

    # The self-test's program is compiled with it, too.
    tested = devkit("debug", "--self-test", "--json", cwd=engine)
    assert tested.code == 0, tested.out
    [compiled] = [link for link in tested.data["links"] if link["id"] == "compile"]
    assert str(ndk) in compiled["evidence"]

    # Another compiler must not mix with it: without the switch the phone gets the host's programs.
    plan = devkit("build", "cpu", "--dry-run", "--json", "-s", f"sim:{sim.name}", cwd=engine,
                  DEVKIT_BUILD_TOOLCHAIN="auto").data  # fmt: skip
    assert plan["build_dir"] != built.data["build_dir"] and "NDK" not in plan["toolchain"]


def test_paths_of_the_standin(devkit: Cli, archive: Path, workdir: Path) -> None:
    env = {"XDG_DATA_HOME": str(workdir / "data")}
    devkit("ndk", "install", "--from", archive, "--sha1", sha1(archive.read_bytes()), **env)
    [row] = devkit("ndk", "list", "--json", **env).data["installed"]
    assert (row["revision"], row["llvm"], row["missing"]) == (REVISION, "18", [])
    path = devkit("ndk", "path", "libc++_shared.so", "--abi", ABI, **env).out.strip()
    assert path.endswith(f"{PREBUILT}/sysroot/usr/lib/{TRIPLES[ABI]}/libc++_shared.so")
    assert read_elf(Path(path)).needed[0] == "libstdc++.so.6"
