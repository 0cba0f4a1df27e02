"""Programs of another processor: arm64 ones on an x86_64 machine, run by qemu through binfmt_misc.

Since Linux 6.7 a user namespace can have a binfmt_misc of its own, so nothing changes outside of the phone.
The phone's own tools stay those of this machine. The C library for the others lies where phones with a native
bridge have it, in /system/lib64/arm64.
"""

from __future__ import annotations

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from devkit.errors import EXIT_USAGE, SimError
from devkit.sim import elf, namespaces
from devkit.sim.models import host_abi

ARM64 = "arm64-v8a"
LIBRARY_DIR = "system/lib64/arm64"
LOADER = "ld-linux-aarch64.so.1"
# Where the loader of Debian's cross library looks by itself.
SEARCH_DIR = "lib/aarch64-linux-gnu"

_FIRST_KERNEL = (6, 7)
_CROSS_DIRS = (Path("/usr/aarch64-linux-gnu/lib"), Path("/usr/lib/aarch64-linux-gnu"))
_QEMU_NAMES = ("qemu-aarch64-static", "qemu-aarch64")
# The C library's own family, as the x86_64 image has it: what a phone offers without being deployed.
_LIBRARIES = (
    "libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "libutil.so.1",
    "libresolv.so.2", "libanl.so.1",
)  # fmt: skip
# The first 20 bytes of an aarch64 program or shared program; the mask leaves out what differs. As in
# qemu's scripts/qemu-binfmt-conf.sh.
_MAGIC = bytes.fromhex("7f454c460201010000000000000000000200b700")
_MASK = bytes.fromhex("ffffffffffffff00fffffffffffffffffeffffff")


@dataclass(frozen=True)
class ForeignPlan:
    """What makes foreign programs run.

    Args:
        qemu: a static one: inside the phone nothing of this machine is found any more.
        libraries: name → file here, with the loader.
    """

    qemu: Path
    libraries: dict[str, Path]


def plan_foreign(abi: str) -> ForeignPlan | None:
    """What a phone of this ABI needs besides its image; None when its programs are this machine's.

    Raises:
        SimError: it cannot be had here.
    """
    if abi == host_abi():
        return None
    if abi != ARM64:
        raise SimError(
            f"a virtual phone cannot run programs for {abi} on this machine",
            hints=[f"possible: {host_abi()}, and {ARM64} through qemu"],
            exit_code=EXIT_USAGE,
        )
    if _kernel() < _FIRST_KERNEL:
        raise SimError(
            "this machine's kernel cannot run arm64 programs in a virtual phone",
            evidence=f"Linux {os.uname().release}; binfmt_misc in namespaces came with 6.7",
            hints=["use an arm64 machine, or a newer kernel", "leave --abi out: programs of this machine"],
        )
    qemu = next((found for name in _QEMU_NAMES if (found := _static(name))), None)
    libraries = next((held for folder in _CROSS_DIRS if (held := _libraries_in(folder))), None)
    missing = [
        package
        for package, found in (("qemu-user-static", qemu), ("libc6-arm64-cross", libraries))
        if found is None
    ]
    if qemu is None or libraries is None:
        raise SimError(
            "arm64 programs in a virtual phone need a static qemu and an arm64 C library",
            evidence="not found: " + " and ".join(missing),
            hints=["sudo apt install " + " ".join(missing)],
        )
    return ForeignPlan(qemu, libraries)


def write_libraries(plan: ForeignPlan, folder: Path) -> None:
    """Copy the libraries, under build-ids of their own as all of the phone's.

    Raises:
        OSError: they cannot be read or written.
    """
    for name, source in plan.libraries.items():
        (folder / name).write_bytes(elf.with_own_build_id(source.read_bytes()))
        (folder / name).chmod(0o755)


def register(qemu: Path, mount_point: Path) -> None:
    """Have the kernel start arm64 programs of this user namespace, and of those in it, with qemu.

    It holds for as long as the mount does. To be called while `qemu` can still be seen: the kernel opens
    it now (flag F).

    Raises:
        OSError: the kernel or a sandbox refuses.
    """
    namespaces.mount("binfmt_misc", mount_point, "binfmt_misc")
    rule = b":qemu-aarch64:M::" + _escaped(_MAGIC) + b":" + _escaped(_MASK) + b":" + os.fsencode(qemu) + b":F"
    fd = os.open(mount_point / "register", os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.write(fd, rule)
    finally:
        os.close(fd)


def _escaped(data: bytes) -> bytes:
    return b"".join(b"\\x%02x" % byte for byte in data)


def _static(name: str) -> Path | None:
    found = shutil.which(name)
    if found is None or ":" in found:
        return None
    path = Path(found).resolve()
    return path if elf.is_elf(path) and elf.interpreter(path) is None else None


def _libraries_in(folder: Path) -> dict[str, Path] | None:
    found = {name: folder / name for name in (LOADER, *_LIBRARIES) if elf.is_elf(folder / name)}
    return found if LOADER in found and "libc.so.6" in found else None


def _kernel() -> tuple[int, int]:
    match = re.match(r"(\d+)\.(\d+)", os.uname().release)
    return (int(match[1]), int(match[2])) if match else (0, 0)
