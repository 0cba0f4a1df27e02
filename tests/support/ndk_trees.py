"""Android NDKs of small real files, in the layouts of r21 to r30, and archives of them."""

from __future__ import annotations

import stat
import zipfile
from collections.abc import Mapping
from pathlib import Path

TRIPLES = {
    "arm64-v8a": ("aarch64", "aarch64-linux-android"),
    "armeabi-v7a": ("arm", "arm-linux-androideabi"),
    "x86": ("i386", "i686-linux-android"),
    "x86_64": ("x86_64", "x86_64-linux-android"),
}
# revision -> (clang's folder below prebuilt/<tag>, whether the STLs are folders of their own)
LAYOUTS: Mapping[str, tuple[str, bool]] = {
    "21.4.7075529": ("lib64/clang/9.0.9", True),
    "22.1.7171670": ("lib64/clang/11.0.5", True),
    "23.1.7779620": ("lib64/clang/12.0.8", False),
    "25.2.9519653": ("lib64/clang/14.0.7", False),
    "26.3.11579264": ("lib/clang/17.0.2", False),
    "27.3.13750724": ("lib/clang/18", False),
    "29.0.14206865": ("lib/clang/21", False),
    "30.0.14904198": ("lib/clang/22", False),
}


def make_ndk(
    folder: Path, revision: str, *, tag: str = "linux-x86_64", without: tuple[str, ...] = ()
) -> Path:
    """A complete NDK for hosts of `tag`, less the paths in `without`. Tools are scripts that run."""
    clang, old_stl = LAYOUTS[revision]
    base = f"toolchains/llvm/prebuilt/{tag}"
    files = {
        "source.properties": f"Pkg.Desc = Android NDK\nPkg.Revision = {revision}\n",
        "build/cmake/android.toolchain.cmake": "# the toolchain file\n",
        "ndk-build": "#!/bin/sh\n",
        f"{base}/sysroot/usr/include/stdio.h": "/* bionic */\n",
        f"{base}/AndroidVersion.txt": clang.rpartition("/")[2] + "\n",
        f"prebuilt/{tag}/bin/make": "#!/bin/sh\n",
        "simpleperf/app_profiler.py": "#!/usr/bin/env python3\n",
        "simpleperf/bin/android/arm64/simpleperf": "phone's simpleperf\n",
        "simpleperf/bin/linux/x86_64/simpleperf": "#!/bin/sh\n",
    }
    for tool in ("clang-18", "clang++", "llvm-strip", "llvm-symbolizer", "lldb.sh", "ld.lld"):
        files[f"{base}/bin/{tool}"] = f"#!/bin/sh\necho {tool}\n"
    for abi, (arch, triple) in TRIPLES.items():
        files[f"{base}/{clang}/lib/linux/{arch}/lldb-server"] = f"lldb-server {arch}\n"
        files[f"{base}/{clang}/lib/linux/{arch}/libomp.so"] = f"libomp {arch}\n"
        files[f"{base}/{clang}/lib/linux/libclang_rt.asan-{arch}-android.so"] = f"asan {arch}\n"
        if old_stl:
            files[f"sources/cxx-stl/llvm-libc++/libs/{abi}/libc++_shared.so"] = f"STL {abi}\n"
        else:
            files[f"{base}/sysroot/usr/lib/{triple}/libc++_shared.so"] = f"STL {abi}\n"
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        if text.startswith("#!"):
            file.chmod(0o755)
    (folder / base / "bin/clang").symlink_to("clang-18")
    for name in without:
        (folder / name).unlink()
    return folder


def zip_tree(tree: Path, archive: Path, *, top: str | None = None) -> bytes:
    """Pack a folder as Google does (modes and symlinks kept, one folder on top); the archive's bytes."""
    top = tree.name if top is None else top
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as packed:
        for path in sorted(tree.rglob("*")):
            name = f"{top}/{path.relative_to(tree)}" if top else str(path.relative_to(tree))
            mode = path.lstat().st_mode
            info = zipfile.ZipInfo(name + ("/" if stat.S_ISDIR(mode) else ""))
            info.create_system = 3
            info.external_attr = mode << 16 | (0x10 if stat.S_ISDIR(mode) else 0)
            info.compress_type = zipfile.ZIP_DEFLATED
            if stat.S_ISDIR(mode):
                packed.writestr(info, b"")
            elif stat.S_ISLNK(mode):
                packed.writestr(info, str(path.readlink()))
            else:
                packed.writestr(info, path.read_bytes())
    return archive.read_bytes()
