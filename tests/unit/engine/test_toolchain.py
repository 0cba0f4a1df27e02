"""Which compiler is chosen, and what it says about itself."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from devkit.engine import DeviceFacts, Profile, cmake_tools, host_compilers, resolve_toolchain, toolchain
from devkit.engine.cmake_tools import find_build_tools, find_cmake, find_make_program
from devkit.engine.host_compilers import find_host_compilers, zig_compilers
from devkit.errors import ToolMissing
from devkit.ndk import Ndk

DEVICE = Profile("cpu")
HOST = Profile("host", target="host")
_COMPILER = """#!/bin/sh
case "$1" in
  --version) echo "{name} 9.9";;
  -print-file-name=libstdc++.so.6) echo '{runtime}';;
  -print-file-name=*) echo "${{1#*=}}";;
esac
"""


@pytest.fixture
def programs(tmp_path: Path) -> Path:
    folder = tmp_path / "程序 bin"
    folder.mkdir()
    return folder


@pytest.fixture(autouse=True)
def _no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cmake_tools, "package_folders", lambda name: [])
    monkeypatch.setattr(host_compilers, "package_folders", lambda name: [])


def install(folder: Path, name: str, text: str = "#!/bin/sh\necho program 9.9\n") -> Path:
    (folder / name).write_text(text)
    (folder / name).chmod(0o755)
    return folder / name


def compiler(folder: Path, *names: str) -> None:
    runtime = folder / "lib" / "libstdc++.so.6"
    runtime.parent.mkdir(exist_ok=True)
    runtime.touch()
    for name in names:
        install(folder, name, _COMPILER.format(name=name, runtime=runtime))


def test_no_compiler_says_what_was_sought_and_what_brings_one() -> None:
    with pytest.raises(ToolMissing) as caught:
        find_host_compilers({"PATH": ""})
    assert "c++, g++, clang++" in (caught.value.evidence or "")
    assert any("apt install g++" in hint for hint in caught.value.hints)
    assert any("mnn-devkit[zig]" in hint for hint in caught.value.hints)


def test_half_a_pair_is_no_compiler(programs: Path) -> None:
    compiler(programs, "cc", "gcc", "clang", "clang++")
    found = find_host_compilers({"PATH": str(programs)})
    assert found.c == (str(programs / "clang"),)
    assert found.cxx == (str(programs / "clang++"),)
    assert found.description == f"clang++ 9.9 ({programs / 'clang++'})"


def test_the_runtime_folder_is_what_the_compiler_names(programs: Path) -> None:
    compiler(programs, "cc", "c++")
    assert find_host_compilers({"PATH": str(programs)}).runtime_dirs() == (programs / "lib",)


@pytest.mark.parametrize(
    ("environ", "c", "cxx"),
    [
        ({"CC": "gcc-12"}, ["gcc-12"], ["g++-12"]),
        ({"CXX": "clang++"}, ["clang"], ["clang++"]),
        ({"CC": "ccache gcc-12 -m64"}, ["gcc-12", "-m64"], ["g++-12", "-m64"]),
        ({"CC": "clang", "CXX": "g++-12 -pipe"}, ["clang"], ["g++-12", "-pipe"]),
    ],
)
def test_variables_win_and_complete_each_other(
    programs: Path, environ: dict[str, str], c: list[str], cxx: list[str]
) -> None:
    compiler(programs, "cc", "c++", "gcc-12", "g++-12", "clang", "clang++")
    found = find_host_compilers({"PATH": str(programs), **environ})
    assert found.c == (str(programs / c[0]), *c[1:])
    assert found.cxx == (str(programs / cxx[0]), *cxx[1:])


def test_a_variable_that_names_nothing(programs: Path) -> None:
    compiler(programs, "cc", "c++")
    with pytest.raises(ToolMissing, match="CXX names a compiler that does not exist"):
        find_host_compilers({"PATH": str(programs), "CC": "cc", "CXX": "c++-99"})
    with pytest.raises(ToolMissing, match=r"^CXX names a compiler that does not exist: nosuch"):
        find_host_compilers({"PATH": str(programs), "CXX": "nosuch"})
    compiler(programs, "gcc-12")
    with pytest.raises(ToolMissing, match=r"^CXX is not set, and g\+\+-12, which belongs to CC"):
        find_host_compilers({"PATH": str(programs), "CC": "gcc-12"})


def test_a_compiler_that_does_not_run(programs: Path) -> None:
    compiler(programs, "cc")
    install(programs, "c++", "#!/bin/sh\necho 'bad license' >&2; exit 3\n")
    with pytest.raises(ToolMissing) as caught:
        find_host_compilers({"PATH": str(programs)})
    assert caught.value.evidence == "bad license"


def test_another_file_under_the_same_name_is_another_toolchain(programs: Path) -> None:
    compiler(programs, "cc", "c++")
    before = toolchain.host_toolchain({"PATH": str(programs)})
    os.utime(programs / "c++", (1, 1))
    after = toolchain.host_toolchain({"PATH": str(programs)})
    assert before.description == after.description
    assert before.fingerprint != after.fingerprint


def test_zig_becomes_one_program_for_cmake(
    programs: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "缓存 cache"))
    monkeypatch.setattr(host_compilers.platform, "machine", lambda: "aarch64")
    zig = install(
        programs, "zig", '#!/bin/sh\nif [ "$1" = version ]; then echo 0.17.1; else printf "%s|" "$@"; fi\n'
    )
    found = zig_compilers(zig)
    answer = host_compilers.process.run([found.cxx[0], "-c", "a b.cpp"]).text
    assert answer == "c++|-fno-sanitize=undefined|-target|aarch64-linux-gnu|-c|a b.cpp|"
    assert found.runtime_dirs() == ()
    times = {p: p.stat().st_mtime_ns for p in Path(found.c[0]).parent.iterdir()}
    assert {p.name for p in times} == {"zig-cc", "zig-c++", "zig-ar", "zig-ranlib"}
    # Written again they would look like another compiler, and every folder would start over.
    assert zig_compilers(zig).identity == found.identity


def test_the_host_profile_needs_no_ndk(programs: Path) -> None:
    compiler(programs, "cc", "c++")
    found = resolve_toolchain(HOST, environ={"PATH": str(programs)})
    assert (found.kind, found.tag, found.api_level) == ("host", toolchain.host_abi(), None)
    assert found.cmake_args == {
        "CMAKE_C_COMPILER": str(programs / "cc"),
        "CMAKE_CXX_COMPILER": str(programs / "c++"),
    }


def test_the_virtual_phone_gets_the_host_compiler(programs: Path) -> None:
    compiler(programs, "cc", "c++")
    abi = toolchain.host_abi()
    found = resolve_toolchain(DEVICE, device=DeviceFacts(abi, 35, "glibc"), environ={"PATH": str(programs)})
    assert (found.kind, found.abi, found.tag) == ("host", abi, f"{abi}-sim")
    with pytest.raises(ToolMissing, match="the virtual phone is armeabi-v7a"):
        resolve_toolchain(
            DEVICE, device=DeviceFacts("armeabi-v7a", 35, "glibc"), environ={"PATH": str(programs)}
        )


def test_a_phone_gets_the_ndk(fake_ndk: Ndk) -> None:
    environ = {"ANDROID_NDK": str(fake_ndk.path)}
    found = resolve_toolchain(DEVICE, device=DeviceFacts("x86_64", 35), environ=environ)
    assert (found.kind, found.tag, found.api_level) == ("ndk", "x86_64", 24)
    assert found.runtime_dirs[0].name == "x86_64-linux-android"
    # An older phone lowers the level, no phone means arm64.
    assert resolve_toolchain(DEVICE, device=DeviceFacts("x86_64", 21), environ=environ).api_level == 21
    assert resolve_toolchain(DEVICE, environ=environ).abi == "arm64-v8a"
    assert (
        resolve_toolchain(DEVICE, environ=environ, api_level=30).cmake_args["ANDROID_PLATFORM"]
        == "android-30"
    )
    assert resolve_toolchain(DEVICE, ndk_path=fake_ndk.path, environ={}).fingerprint != found.fingerprint


def test_no_ndk() -> None:
    with pytest.raises(ToolMissing, match="no Android NDK"):
        resolve_toolchain(DEVICE, environ={"HOME": "/nonexistent"})


def test_cmake_too_old_is_passed_over_and_named(programs: Path) -> None:
    install(programs, "cmake", "#!/bin/sh\necho cmake version 3.16.3\n")
    with pytest.raises(ToolMissing) as caught:
        find_cmake({"PATH": str(programs)})
    assert "3.21" in caught.value.what
    assert caught.value.evidence == f"{programs / 'cmake'}: 3.16.3"
    install(programs, "cmake", "#!/bin/sh\necho cmake version 3.21.0-rc1\n")
    assert find_cmake({"PATH": str(programs)}) == (programs / "cmake", "3.21.0-rc1")


def test_ninja_before_make_before_nothing(programs: Path) -> None:
    with pytest.raises(ToolMissing, match="neither ninja nor make"):
        find_make_program({"PATH": str(programs)})
    install(programs, "make")
    assert find_make_program({"PATH": str(programs)}) == ("Unix Makefiles", programs / "make")
    install(programs, "ninja")
    assert find_make_program({"PATH": str(programs)}) == ("Ninja", programs / "ninja")


def test_ccache_is_used_when_it_is_there(programs: Path) -> None:
    install(programs, "cmake", "#!/bin/sh\necho cmake version 4.0.1\n")
    install(programs, "ninja")
    assert find_build_tools({"PATH": str(programs)}).launcher is None
    install(programs, "ccache")
    assert find_build_tools({"PATH": str(programs)}).launcher == programs / "ccache"


def test_the_packages_program_stands_in_for_its_script(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = programs / "site" / "cmake"
    (package / "data/bin").mkdir(parents=True)
    real = package / "data/bin/cmake"
    real.symlink_to("/bin/echo")  # `echo --version` prints a version; any ELF program will do
    monkeypatch.setattr(cmake_tools, "package_folders", lambda name: [package])
    install(programs, "cmake", "#!/usr/bin/env python3\n")
    assert cmake_tools._candidates("cmake", {"PATH": str(programs)}) == [real, programs / "cmake"]
    assert cmake_tools._candidates("cmake", {"PATH": ""}) == [real]
