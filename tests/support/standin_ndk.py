"""A complete NDK made of this machine's own tools: what `devkit build` and `debug` see of a real one.

The interface is the NDK's (source.properties, android.toolchain.cmake with ANDROID_ABI,
ANDROID_PLATFORM and ANDROID_STL, clang, lldb.sh, lldb-server, libc++_shared.so in their places); its
programs are for this machine's architecture and C library, so that they run on the virtual phone.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from devkit.engine.host_compilers import HostCompilers, find_host_compilers
from devkit.engine.toolchain import host_abi
from devkit.lldb.tools import _native_pairs
from devkit.symbols import read_elf

REVISION = "27.3.13750724"
TRIPLES = {"x86_64": "x86_64-linux-android", "arm64-v8a": "aarch64-linux-android"}
ARCHITECTURES = {"x86_64": "x86_64", "arm64-v8a": "aarch64"}
# Google has none for Linux on ARM; the stand-in has.
HOST_TAGS = {"x86_64": "linux-x86_64", "arm64-v8a": "linux-aarch64"}

# CMAKE_SYSTEM_NAME is not Android: CMake's own modules for it look into a real NDK's platforms.
TOOLCHAIN = r"""# The interface of the NDK's android.toolchain.cmake, for a compiler of this machine.
cmake_minimum_required(VERSION 3.6)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR @MACHINE@)
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES ANDROID_ABI ANDROID_PLATFORM ANDROID_STL)
get_filename_component(ANDROID_NDK "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
if(NOT ANDROID_ABI)
  set(ANDROID_ABI armeabi-v7a)
endif()
if(NOT ANDROID_ABI STREQUAL "@ABI@")
  message(FATAL_ERROR "Invalid Android ABI: ${ANDROID_ABI}.")
endif()
if(NOT ANDROID_PLATFORM MATCHES "^(android-)?([0-9]+)$")
  message(FATAL_ERROR "Invalid Android platform: ${ANDROID_PLATFORM}.")
endif()
set(ANDROID_PLATFORM_LEVEL ${CMAKE_MATCH_2})
if(NOT ANDROID_STL)
  set(ANDROID_STL c++_static)
endif()
if(NOT ANDROID_STL MATCHES "^(c\\+\\+_shared|c\\+\\+_static|none|system)$")
  message(FATAL_ERROR "Invalid Android STL: ${ANDROID_STL}.")
endif()
set(ANDROID TRUE)
set(CMAKE_ANDROID_ARCH_ABI ${ANDROID_ABI})
set(_prebuilt "${ANDROID_NDK}/toolchains/llvm/prebuilt/@TAG@")
set(CMAKE_C_COMPILER "${_prebuilt}/bin/clang")
set(CMAKE_CXX_COMPILER "${_prebuilt}/bin/clang++")
# Phones want neither RPATH nor RUNPATH: LD_LIBRARY_PATH is what finds libraries there.
set(CMAKE_SKIP_RPATH TRUE)
string(APPEND CMAKE_C_FLAGS_INIT " -D__ANDROID_API__=${ANDROID_PLATFORM_LEVEL}")
string(APPEND CMAKE_CXX_FLAGS_INIT " -D__ANDROID_API__=${ANDROID_PLATFORM_LEVEL}")
if(ANDROID_STL STREQUAL "c++_shared")
  set(_stl "${_prebuilt}/sysroot/usr/lib/@TRIPLE@/libc++_shared.so")
  string(REPLACE "$" "\\$$" _stl "${_stl}") # for ninja or make, and then the shell
  set(CMAKE_CXX_STANDARD_LIBRARIES_INIT
      "-Wl,--push-state,--no-as-needed \"${_stl}\" -Wl,--pop-state")
elseif(ANDROID_STL STREQUAL "c++_static")
  set(CMAKE_CXX_STANDARD_LIBRARIES_INIT "-static-libstdc++ -static-libgcc")
endif()
"""


def make_standin_ndk(folder: Path) -> Path:
    """Make the stand-in in `folder`."""
    abi = host_abi()
    tag, triple = HOST_TAGS[abi], TRIPLES[abi]
    compilers = find_host_compilers()
    lldb = next(_native_pairs())
    base = folder / "toolchains/llvm/prebuilt" / tag
    libraries = base / "sysroot/usr/lib" / triple
    server = base / "lib/clang/18/lib/linux" / ARCHITECTURES[abi] / "lldb-server"
    for directory in (libraries, server.parent, base / "bin", base / "sysroot/usr/include",
                      folder / "build/cmake"):  # fmt: skip
        directory.mkdir(parents=True)
    (folder / "source.properties").write_text(f"Pkg.Desc = Android NDK\nPkg.Revision = {REVISION}\n")
    text = TOOLCHAIN
    for name, value in (("TAG", tag), ("TRIPLE", triple), ("ABI", abi),
                        ("MACHINE", tag.partition("-")[2])):  # fmt: skip
        text = text.replace(f"@{name}@", value)
    (folder / "build/cmake/android.toolchain.cmake").write_text(text)
    (base / "sysroot/usr/include/README").write_text("the compiler's own headers are used\n")
    asan = _make_asan_runtime(server.parent.parent, compilers)
    _compiler(base / "bin/clang", compilers.c, asan)
    _compiler(base / "bin/clang++", compilers.cxx, asan)
    _script(base / "bin/lldb.sh", str(lldb.lldb))
    for tool in ("strip", "readelf", "objcopy"):
        found = shutil.which(tool)
        if found:
            _script(base / "bin" / f"llvm-{tool}", found)
    shutil.copy(lldb.server, server)
    # libc++_shared.so passes everything on to the compiler's own C++ library, which travels too.
    source = folder / "empty.cpp"
    source.write_text("")
    subprocess.run(
        [*compilers.cxx, "-shared", "-fPIC", source, "-o", libraries / "libc++_shared.so",
         "-Wl,-soname,libc++_shared.so", "-Wl,--no-as-needed", "-lstdc++"], check=True,
    )  # fmt: skip
    source.unlink()
    for directory in compilers.runtime_dirs():
        for name in ("libstdc++.so.6", "libgcc_s.so.1"):
            if (directory / name).is_file():
                shutil.copy(directory / name, libraries / name)
    return folder


def _make_asan_runtime(folder: Path, compilers: HostCompilers) -> Path | None:
    """clang's runtime in its place, which passes everything on to the compiler's own; None without one."""
    answer = subprocess.run(
        [*compilers.cxx, "-print-file-name=libasan.so"], check=True, capture_output=True, text=True
    )
    own = Path(answer.stdout.strip())
    if not own.is_absolute():
        return None
    soname = read_elf(own).soname
    assert soname is not None
    shutil.copy(own, folder / soname)
    runtime = folder / f"libclang_rt.asan-{ARCHITECTURES[host_abi()]}-android.so"
    source = folder / "empty.cpp"
    source.write_text("")
    subprocess.run(
        [*compilers.cxx, "-shared", "-fPIC", source, "-o", runtime, f"-Wl,-soname,{runtime.name}",
         "-Wl,--no-as-needed", folder / soname], check=True,
    )  # fmt: skip
    source.unlink()
    return runtime


def _compiler(file: Path, command: tuple[str, ...], asan: Path | None) -> None:
    """What clang does and this compiler does not.

    clang for Android links the shared sanitizer runtime by its name; ccache, which goes by the
    compiler's name, adds an option that only clang knows.
    """
    words = " ".join(_quoted(word) for word in command)
    file.write_text(
        f"""#!/bin/sh
here=$(dirname "$(realpath "$0")")
link=yes
asan=
for word; do
  shift
  case $word in
    -fcolor-diagnostics) word=-fdiagnostics-color ;;
    -fno-color-diagnostics) word=-fno-diagnostics-color ;;
    -c | -E | -S | -M | -MM | --version | -print-*) link= ;;
    -fsanitize=address) asan={"yes" if asan else ""} ;;
  esac
  set -- "$@" "$word"
done
if [ "$link$asan" = yesyes ]; then
  runtime=$here/../lib/clang/18/lib/linux/{asan and asan.name}
  set -- "$@" -Wl,--push-state,--no-as-needed "$runtime" -Wl,--pop-state
fi
exec {words} "$@"
"""
    )
    file.chmod(0o755)


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def _script(file: Path, *command: str) -> None:
    words = " ".join(_quoted(word) for word in command)
    file.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    file.chmod(0o755)
