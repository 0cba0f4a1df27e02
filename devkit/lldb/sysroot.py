"""The mini sysroot: the phone's own C library and linker, kept here by build-id.

Without them LLDB can unwind only one frame when the program is stopped in the C library; with them
it has the whole stack and pulls nothing else (200 libraries, 34 MB, in the platform protocol).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import posixpath
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from devkit import output, paths
from devkit.errors import FileError
from devkit.symbols import read_elf

if TYPE_CHECKING:
    from devkit.device import Device

# On Android /system/bin/linker64 and /system/lib64/libc.so are links into the runtime APEX.
_BIONIC = (
    "/system/bin/linker64",
    "/apex/com.android.runtime/lib64/bionic/libc.so",
    "/system/lib64/libc.so",
)
_GLIBC = ("/system/lib64/libc.so.6",)
_INDEX = "index.json"


def mini_sysroot(device: Device, interpreter: str | None) -> Path:
    """A local folder with the phone's libc and dynamic linker, pulled only when not yet here.

    One shell round trip when everything is cached.

    Args:
        interpreter: the program's PT_INTERP; None for a static program.
    """
    wanted = [*(_GLIBC if device.libc == "glibc" else _BIONIC)]
    if interpreter and interpreter not in wanted:
        wanted.insert(0, interpreter)
    key = hashlib.sha256(device.fingerprint.encode()).hexdigest()[:16]
    folder = paths.cache_dir() / "sysroot" / key
    index = _read_index(folder)
    for remote, (size, mtime) in _look(device, wanted).items():
        known = index.get(remote)
        local = folder / posixpath.basename(remote)
        if known and known["size"] == size and known["mtime"] == mtime and local.is_file():
            continue
        folder.mkdir(parents=True, exist_ok=True)
        output.current().detail(f"pulling {remote} for the mini sysroot")
        device.pull(remote, local)
        index[remote] = {"size": size, "mtime": mtime, "build_id": _build_id(local)}
        paths.write_atomically(folder / _INDEX, json.dumps(index, indent=1))
    return folder


def _look(device: Device, files: Sequence[str]) -> dict[str, tuple[int, int]]:
    from devkit.device import quote

    # -L: the size of the file behind the link. Missing files only make stat complain.
    result = device.shell(f"{quote(['stat', '-L', '-c', '%s %Y %n', *files])} 2>/dev/null")
    found: dict[str, tuple[int, int]] = {}
    for line in result.text.splitlines():
        with contextlib.suppress(ValueError):
            size, mtime, name = line.split(" ", 2)
            found[name] = (int(size), int(mtime))
    return found


def _read_index(folder: Path) -> dict[str, Any]:
    try:
        loaded = json.loads((folder / _INDEX).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return loaded if isinstance(loaded, dict) else {}


def _build_id(file: Path) -> str | None:
    try:
        return read_elf(file).build_id
    except FileError:
        return None
