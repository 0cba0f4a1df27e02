"""Which compiler a profile is built with: the NDK's for phones, this machine's for everything else."""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from devkit import ndk as ndk_room
from devkit.engine.host_compilers import HostCompilers, find_host_compilers
from devkit.engine.profiles import Profile
from devkit.errors import ToolMissing

# Where fseeko and Vulkan exist on every ABI; MNN's own script says 21.
DEFAULT_API_LEVEL = 24
DEFAULT_ABI = "arm64-v8a"
_HOST_ABIS = {"x86_64": "x86_64", "AMD64": "x86_64", "aarch64": "arm64-v8a", "arm64": "arm64-v8a"}
# r27 can align for 16 KiB pages, from r28 on it always does.
_FLEXIBLE_PAGES_NDK = 27


@dataclass(frozen=True)
class DeviceFacts:
    """What a build must know of a phone. libc is "bionic", or "glibc" on the virtual phone."""

    abi: str
    api_level: int
    libc: str = "bionic"


@dataclass(frozen=True)
class Toolchain:
    """A compiler as CMake gets it.

    Attributes:
        kind: "ndk" or "host".
        abi: Android's name of the architecture that it compiles for.
        tag: the ABI as it appears in a build folder's name; differs where two toolchains build
            for one ABI and must not mix.
        api_level: Android API level, or None on the host.
        cmake_args: CMake cache entries, name → value.
        env: variables for cmake and everything below it.
        description: one line for people.
        runtime_dirs: folders that hold the C++ and sanitizer runtimes that its programs load.
        version: the NDK's revision; empty for this machine's compiler.
        fingerprint: changes when CMake must start with an empty folder.
    """

    kind: str
    abi: str
    tag: str
    api_level: int | None
    cmake_args: Mapping[str, str]
    env: Mapping[str, str] = field(default_factory=dict)
    description: str = ""
    runtime_dirs: tuple[Path, ...] = ()
    fingerprint: str = ""
    version: str = ""


def host_abi() -> str:
    """Android's name for this machine's architecture; the machine's own where Android has none."""
    return _HOST_ABIS.get(platform.machine(), platform.machine())


def host_toolchain(environ: Mapping[str, str] | None = None, *, tag: str | None = None) -> Toolchain:
    """The toolchain of this machine.

    Args:
        tag: name in build folders (default: the ABI).

    Raises:
        ToolMissing: no compiler.
    """
    compilers = find_host_compilers(environ)
    abi = host_abi()
    return Toolchain(
        kind="host",
        abi=abi,
        tag=tag or abi,
        api_level=None,
        cmake_args=_host_args(compilers),
        description=compilers.description,
        runtime_dirs=compilers.runtime_dirs(),
        fingerprint=compilers.identity,
    )


def ndk_toolchain(ndk: ndk_room.Ndk, abi: str, api_level: int) -> Toolchain:
    """An NDK's toolchain for one ABI.

    The C++ library is the shared one: with several engine libraries in one process, a static
    copy in each breaks exceptions and RTTI between them.

    Raises:
        ToolMissing: the NDK is incomplete or does not know the ABI.
    """
    arguments = {
        "CMAKE_TOOLCHAIN_FILE": str(ndk.toolchain_file),
        "ANDROID_ABI": abi,
        "ANDROID_PLATFORM": f"android-{api_level}",
        "ANDROID_STL": "c++_shared",
    }
    if ndk.major == _FLEXIBLE_PAGES_NDK:
        arguments["ANDROID_SUPPORT_FLEXIBLE_PAGE_SIZES"] = "ON"
    identity = "\n".join([os.path.realpath(ndk.path), ndk.revision, abi, str(api_level)])
    return Toolchain(
        kind="ndk",
        abi=abi,
        tag=abi,
        api_level=api_level,
        cmake_args=arguments,
        env=ndk.environment,
        description=f"NDK {ndk.release} ({ndk.revision}, {ndk.path})",
        runtime_dirs=(ndk.runtime_dir(abi), *ndk.compiler_runtime_dirs(abi)),
        version=ndk.revision,
        fingerprint=hashlib.sha256(identity.encode()).hexdigest()[:16],
    )


def resolve_toolchain(
    profile: Profile,
    *,
    device: DeviceFacts | None = None,
    ndk_path: Path | None = None,
    ndk_version: str | None = None,
    always_ndk: bool = False,
    api_level: int = DEFAULT_API_LEVEL,
    environ: Mapping[str, str] | None = None,
) -> Toolchain:
    """The toolchain for a profile and the phone at hand.

    Args:
        device: the phone, or None when there is none: arm64-v8a then.
        ndk_path: the NDK that the user configured.
        ndk_version: the NDK release that the user configured.
        always_ndk: virtual phones get the NDK's programs too (an NDK that compiles for glibc).
        api_level: lowest Android API level to run on; a phone below it lowers it.

    Raises:
        ToolMissing: no NDK, no compiler, or a virtual phone of another architecture.
    """
    if profile.target == "host":
        return host_toolchain(environ)
    if device is not None and device.libc == "glibc" and not always_ndk:
        if device.abi != host_abi():
            raise ToolMissing(
                f"the virtual phone is {device.abi}, but this machine compiles for {host_abi()}",
                hints=["devkit sim start   (a virtual phone of this machine's architecture)"],
            )
        return host_toolchain(environ, tag=f"{device.abi}-sim")
    ndk = ndk_room.find_ndk(ndk_path, environ, version=ndk_version)
    ndk_room.warn_about_conflicts(ndk)
    if device is None:
        return ndk_toolchain(ndk, DEFAULT_ABI, api_level)
    return ndk_toolchain(ndk, device.abi, min(api_level, device.api_level))


def _host_args(compilers: HostCompilers) -> dict[str, str]:
    # A list is how CMake takes a compiler with arguments that it always needs.
    arguments = {
        "CMAKE_C_COMPILER": ";".join(compilers.c),
        "CMAKE_CXX_COMPILER": ";".join(compilers.cxx),
    }
    if compilers.archiver and compilers.ranlib:
        arguments["CMAKE_AR"] = str(compilers.archiver)
        arguments["CMAKE_RANLIB"] = str(compilers.ranlib)
    return arguments
