"""The phone's file tree: what is mounted where, inside the phone's own mount namespace.

The layout is Android 14's. Everything is read-only but /data/local/tmp, the shared storage and a few
folders in memory.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from devkit.sim import foreign, image, namespaces
from devkit.sim.hardware import FOLDERS, MEMINFO
from devkit.sim.namespaces import MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY

# In `control`: the id of the phone's boot. In /dev: where `control` appears.
BOOT_ID = "boot_id"
CONTROL_FOLDER = ".devkit"
_ROOT_BYTES = 8 * 1024 * 1024
_PROPERTIES_BYTES = 1024 * 1024
_TOMBSTONES_BYTES = 32 * 1024 * 1024
_ST_NOEXEC = 0x8
# Where crash reports are kept.
PRIVATE_MOUNT = "data/tombstones"

_FOLDERS = {
    "apex": 0o755,
    "data": 0o111,
    "data/app": 0o111,
    "data/data": 0,
    "data/local": 0o111,
    "data/local/tmp": 0o771,
    "data/misc": 0o111,
    "data/tombstones": 0,
    "data/misc/adb": 0o700,
    "dev": 0o755,
    "metadata": 0,
    "mnt": 0o755,
    "odm": 0o755,
    "oem": 0o755,
    "proc": 0o555,
    "product": 0o755,
    "product/bin": 0o755,
    "storage": 0o111,
    "storage/emulated": 0o111,
    "storage/emulated/0": 0o771,
    "storage/self": 0o755,
    "sys": 0o755,
    "sys/class": 0o755,
    "sys/devices": 0o755,
    "sys/devices/system": 0o755,
    "sys/devices/system/cpu": 0o755,
    "system": 0o755,
    "system_ext": 0o755,
    "vendor": 0o755,
    "vendor/bin": 0o755,
    "vendor/lib64": 0o755,
}
_LINKS = {
    "bin": "/system/bin",
    "d": "/sys/kernel/debug",
    "etc": "/system/etc",
    "sdcard": "/storage/self/primary",
    "storage/self/primary": "/storage/emulated/0",
}
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_DEVICE_LINKS = {
    "dev/fd": "/proc/self/fd",
    "dev/stdin": "/proc/self/fd/0",
    "dev/stdout": "/proc/self/fd/1",
    "dev/stderr": "/proc/self/fd/2",
    "dev/ptmx": "pts/ptmx",
}
# Started by root, the phone's programs are root for the kernel's files. These must stay as they are.
_PROTECTED_PROC = ("sys", "sysrq-trigger", "irq", "bus", "fs", "acpi", "scsi", "driver", "asound")


@dataclass(frozen=True)
class RootPlan:
    """What a phone's tree is made of.

    Args:
        root: an existing folder outside; the tree appears there first.
        system: the image to show as /system.
        data: a folder outside for /data/local/tmp, None for memory.
        data_limit_bytes: size of /data/local/tmp when it is memory.
        shared: a folder outside for /sdcard.
        keys: a folder outside for /data/misc/adb.
        hardware: a folder outside with the model's own parts of /sys and /proc (see hardware.py).
        control: a folder outside in which the supervisor says what is wrong with the phone.
        properties: what `getprop` tells.
        su: there is a `su`.
        foreign: a folder outside with the libraries of another processor, and its qemu (see foreign.py).
        owner: whose, in the phone, is what the shell user may write; None where its users are this machine's
            user under two names.
    """

    root: Path
    system: Path
    data: Path | None
    data_limit_bytes: int | None
    shared: Path
    keys: Path
    hardware: Path
    control: Path
    properties: Mapping[str, str]
    su: bool = False
    foreign: tuple[Path, Path] | None = None
    owner: int | None = None


def build_root(plan: RootPlan) -> None:
    """Mount the tree at `plan.root`.

    Raises:
        OSError: the kernel or a sandbox refuses; the message names the mount.
    """
    root = plan.root
    namespaces.make_mounts_private()
    namespaces.mount("tmpfs", root, "tmpfs", MS_NOSUID | MS_NODEV, f"mode=755,size={_ROOT_BYTES}")
    for name in _FOLDERS:
        (root / name).mkdir(mode=0o755)
    for name, target in _LINKS.items():
        (root / name).symlink_to(target)
    _link_loader(root)
    if plan.su:
        # Where Magisk puts it: in the first folder of PATH.
        (root / "product/bin/su").symlink_to("/system/bin/logcat")
    namespaces.bind(plan.system, root / "system", MS_RDONLY | MS_NOSUID | MS_NODEV)
    if plan.foreign is not None:
        namespaces.bind(plan.foreign[0], root / foreign.LIBRARY_DIR, MS_RDONLY | MS_NOSUID | MS_NODEV)
        _link_foreign_loader(root)
    _mount_dev(root / "dev", plan)
    _mount_proc(root / "proc", plan)
    _mount_hardware(plan.hardware, root)
    _mount_data(plan)
    namespaces.bind(plan.keys, root / "data/misc/adb", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    namespaces.bind(plan.shared, root / "storage/emulated/0", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    mounted = {"proc", "dev", "system", "sys/devices/system/cpu", "data/local/tmp", "data/misc/adb"}
    mounted |= {"storage/emulated/0", PRIVATE_MOUNT}
    # Only root may look into it and write there: see devkit/sim/users.py.
    private = MS_NOSUID | MS_NODEV | MS_NOEXEC
    namespaces.mount("tmpfs", root / PRIVATE_MOUNT, "tmpfs", private, f"mode=0,size={_TOMBSTONES_BYTES}")
    for name, mode in reversed(_FOLDERS.items()):
        if name not in mounted:
            (root / name).chmod(mode)
    namespaces.restrict(root, MS_RDONLY)


def _link_loader(root: Path) -> None:
    path = image.LOADER_PATHS[os.uname().machine]
    link = root / path.relative_to("/")
    link.parent.mkdir(mode=0o755)
    link.symlink_to(f"/system/{image.LOADER}")


def _link_foreign_loader(root: Path) -> None:
    search = root / foreign.SEARCH_DIR
    search.parent.mkdir(mode=0o755)
    search.symlink_to(f"/{foreign.LIBRARY_DIR}")
    (root / "lib" / foreign.LOADER).symlink_to(f"/{foreign.LIBRARY_DIR}/{foreign.LOADER}")


def _mount_dev(dev: Path, plan: RootPlan) -> None:
    namespaces.mount("tmpfs", dev, "tmpfs", MS_NOSUID | MS_NOEXEC, f"mode=755,size={_ROOT_BYTES}")
    for name in _DEVICES:
        if not Path("/dev", name).exists():
            continue
        (dev / name).touch()
        namespaces.bind(Path("/dev") / name, dev / name)
    for name in ("pts", "socket", "__properties__", CONTROL_FOLDER):
        (dev / name).mkdir(mode=0o755)
    for name, target in _DEVICE_LINKS.items():
        (dev.parent / name).symlink_to(target)
    namespaces.mount(
        "devpts", dev / "pts", "devpts", MS_NOSUID | MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0600"
    )
    text = "".join(f"{key}={value}\n" for key, value in sorted(plan.properties.items()))
    (dev / "__properties__/build.prop").write_text(text, encoding="utf-8")
    (dev / "__properties__/changed").mkdir(mode=0o755)
    changed = f"mode=755,size={_PROPERTIES_BYTES}" + _owned(plan)
    namespaces.mount(
        "tmpfs", dev / "__properties__/changed", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, changed
    )
    namespaces.mount("tmpfs", dev / "socket", "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, changed)
    namespaces.bind(plan.control, dev / CONTROL_FOLDER, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    namespaces.restrict(dev, MS_RDONLY)


def _mount_proc(proc: Path, plan: RootPlan) -> None:
    namespaces.mount("proc", proc, "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
    if plan.foreign is not None:
        # Before /proc/sys is covered: nothing in the phone can change it.
        foreign.register(plan.foreign[1], proc / "sys/fs/binfmt_misc")
    # Android's kernel has no user namespaces; here they would give the phone's programs capabilities. The
    # shell user's is the one there is. Without one, this would be the whole machine's limit.
    if plan.owner is None:
        try:
            (proc / "sys/user/max_user_namespaces").write_text("1")
        except OSError:
            pass
    for name in _PROTECTED_PROC:
        path = proc / name
        if path.exists():
            namespaces.bind(path, path, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
    random = proc / "sys/kernel/random/boot_id"
    if random.exists():
        namespaces.bind(plan.control / BOOT_ID, random, MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)


def _mount_hardware(hardware: Path, root: Path) -> None:
    """Show the model's hardware, and this machine's processors where the model says nothing of them."""
    read_only = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC
    cpus = Path("sys/devices/system/cpu")
    for name in FOLDERS:
        source = hardware / name
        # Engines read core counts and clock rates there. Some containers have no /sys.
        if not source.is_dir() and Path(name) == cpus:
            source = "/" / cpus
        if source.is_dir():
            (root / name).mkdir(mode=0o755, exist_ok=True)
            namespaces.bind(source, root / name, read_only)
    if (hardware / MEMINFO).exists():
        namespaces.bind(hardware / MEMINFO, root / MEMINFO, read_only)


def _mount_data(plan: RootPlan) -> None:
    target = plan.root / "data/local/tmp"
    if plan.data is not None and not os.statvfs(plan.data).f_flag & _ST_NOEXEC:
        namespaces.bind(plan.data, target, MS_NOSUID | MS_NODEV)
        return
    size = f",size={plan.data_limit_bytes}" if plan.data_limit_bytes else ""
    namespaces.mount("tmpfs", target, "tmpfs", MS_NOSUID | MS_NODEV, "mode=771" + size + _owned(plan))


def _owned(plan: RootPlan) -> str:
    return "" if plan.owner is None else f",uid={plan.owner},gid={plan.owner}"
