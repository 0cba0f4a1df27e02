"""Any file of an NDK by the name people know it by: `devkit ndk path lldb-server --abi arm64-v8a`."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from pathlib import Path

from devkit.errors import ToolMissing, UsageError
from devkit.ndk.candidates import quoted
from devkit.ndk.layout import Ndk, architecture, numbers, triple

DEFAULT_ABI = "arm64-v8a"
# Names of the folders below simpleperf/bin/android.
_SIMPLEPERF = {"arm64-v8a": "arm64", "armeabi-v7a": "arm"}
# Short names of things that have long or several names.
_ALIASES = {
    "toolchain": "android.toolchain.cmake",
    "asan": "libclang_rt.asan-{architecture}-android.so",
    "hwasan": "libclang_rt.hwasan-{architecture}-android.so",
    "ubsan": "libclang_rt.ubsan_standalone-{architecture}-android.so",
}
_SUFFIXES = ("", ".exe", ".cmd", ".sh")


def find_file(ndk: Ndk, name: str, abi: str | None = None) -> Path:
    """A tool or file of the NDK.

    Files that run on a phone (lldb-server, simpleperf, sanitizer runtimes, libc++_shared.so) are
    looked up for `abi`; so is everything else when an ABI is given. "sysroot" is a folder.

    Args:
        abi: default arm64-v8a for files of phones; None finds this machine's tools first.

    Raises:
        UsageError: a path instead of a name.
        ToolMissing: unknown ABI, or the NDK does not have it; names what is close.
    """
    if not name or "/" in name or "\\" in name:
        raise UsageError(
            f"{name!r} is no file's name",
            hints=["devkit ndk path   prints the folder", "devkit ndk path clang"],
        )
    wanted = abi or DEFAULT_ABI
    real_name = _ALIASES.get(name, name).format(architecture=architecture(wanted))
    if real_name == "sysroot":
        return ndk.prebuilt / "sysroot"
    on_phone, here = _phone_folders(ndk, wanted), _host_folders(ndk)
    for folder in on_phone if abi is not None else [*here, *on_phone]:
        for suffix in _SUFFIXES if abi is None else ("",):
            if (folder / (real_name + suffix)).is_file():
                return folder / (real_name + suffix)
    folders = on_phone if abi is not None else [*here, *on_phone]
    for_whom = f" for {abi}" if abi is not None else ""
    lacking = "\nthis NDK is not complete: it lacks " + ", ".join(ndk.missing) if ndk.missing else ""
    names = sorted({file.name for folder in folders for file in _files(folder)})
    close = difflib.get_close_matches(real_name, names, n=3)
    raise ToolMissing(
        f"no {real_name}{for_whom} in this NDK",
        evidence=f"NDK {ndk.revision} at {quoted(ndk.path)}\nlooked in: "
        + ", ".join(_relative(folder, ndk) for folder in folders)
        + lacking,
        hints=[f"devkit ndk path {guess}" + (f" --abi {abi}" if abi else "") for guess in close]
        or ["devkit ndk list"],
    )


def _phone_folders(ndk: Ndk, abi: str) -> list[Path]:
    """Folders with files for phones. They are the same below every host tag: any will do."""
    base = ndk.path / "toolchains/llvm/prebuilt"
    linux = sorted(base.glob("*/lib*/clang/*/lib/linux"), key=lambda p: numbers(p.parts[-3]), reverse=True)
    folders = [folder / architecture(abi) for folder in linux]
    folders += linux
    folders += sorted(base.glob(f"*/sysroot/usr/lib/{triple(abi)}"))
    folders.append(ndk.path / "simpleperf/bin/android" / _SIMPLEPERF.get(abi, abi))
    # Up to r22 the STLs were folders of their own, and gdbserver was there up to r23.
    folders.append(ndk.path / "sources/cxx-stl/llvm-libc++/libs" / abi)
    folders.append(ndk.path / f"prebuilt/android-{_SIMPLEPERF.get(abi, abi)}/gdbserver")
    return [folder for folder in folders if folder.is_dir()]


def _host_folders(ndk: Ndk) -> list[Path]:
    folders = []
    try:
        tag = ndk.host_tag
    except ToolMissing:
        pass
    else:
        system, _, machine = tag.partition("-")
        folders = [
            ndk.prebuilt / "bin",
            ndk.path / "prebuilt" / tag / "bin",
            ndk.path / "simpleperf/bin" / system / machine,
            ndk.path / "shader-tools" / tag,
        ]
    folders += [ndk.path, ndk.path / "build/cmake", ndk.path / "build", ndk.path / "simpleperf"]
    return [folder for folder in folders if folder.is_dir()]


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in folder.iterdir() if file.is_file())


def _relative(folder: Path, ndk: Ndk) -> str:
    return str(folder.relative_to(ndk.path)) if folder != ndk.path else "."
