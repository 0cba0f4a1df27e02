"""Linux namespaces, mounts and capabilities through libc: what `unshare`, `mount` and `setpriv` do.

No program of the host is needed, and it works for root and for ordinary users alike.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import re
import signal
import socket
import struct
import time
from pathlib import Path
from typing import Any

CLONE_NEWTIME = 0x00000080
CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
# What root can make without a user namespace, and what everybody can make with one.
ROOT_NAMESPACES = CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWPID | CLONE_NEWNET
PHONE_NAMESPACES = CLONE_NEWUSER | ROOT_NAMESPACES

MS_RDONLY = 0x1
MS_NOSUID = 0x2
MS_NODEV = 0x4
MS_NOEXEC = 0x8
MS_REMOUNT = 0x20
MS_NOATIME = 0x400
MS_NODIRATIME = 0x800
MS_BIND = 0x1000
MS_MOVE = 0x2000
MS_REC = 0x4000
MS_PRIVATE = 0x40000
MS_RELATIME = 0x200000

_MNT_DETACH = 2
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NAME = 15
_CAPABILITY_VERSION_3 = 0x20080522
_LAST_CAPABILITY = 63
_CAP_SYS_ADMIN = 21
# What a phone's root keeps where it is this machine's root: Docker's list without MKNOD and AUDIT_WRITE, and
# with NET_ADMIN (of the phone's own network) and SYS_PTRACE (of its own processes).
_KEPT_CAPABILITIES = frozenset((0, 1, 3, 4, 5, 6, 7, 8, 10, 12, 13, 18, 19, 31))
_SIOCSIFFLAGS = 0x8914
_IFF_UP_RUNNING = 0x1 | 0x40
_SYS_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41}

# statvfs flags (Python names only some) and the mount flags that keep them over a remount.
_KEPT_FLAGS = (
    (0x1, MS_RDONLY),
    (0x2, MS_NOSUID),
    (0x4, MS_NODEV),
    (0x8, MS_NOEXEC),
    (0x400, MS_NOATIME),
    (0x800, MS_NODIRATIME),
    (0x1000, MS_RELATIME),
)

_libc: Any = ctypes.CDLL(None, use_errno=True)


def unshare(flags: int) -> None:
    """Move this process (for CLONE_NEWPID: its next children) into new namespaces.

    Raises:
        OSError: the kernel, a sandbox or a setting of the distribution refuses.
    """
    _check(_libc.unshare(flags), "unshare")


def join(fd: int, kind: int) -> None:
    """Enter an existing namespace.

    Args:
        fd: a file of /proc/PID/ns.
        kind: the CLONE_NEW… flag of its kind.

    Raises:
        OSError: the kernel refuses.
    """
    _check(_libc.setns(fd, kind), "setns")


def map_ids(outer_uid: int, outer_gid: int, inner_id: int) -> None:
    """Make this process's user and group appear as `inner_id` in the user namespace it just made.

    Raises:
        OSError: the kernel refuses.
    """
    # Without privileges a gid map is accepted only after setgroups was given up.
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{inner_id} {outer_uid} 1")
    Path("/proc/self/gid_map").write_text(f"{inner_id} {outer_gid} 1")


def restart_clocks() -> bool:
    """Have the monotonic and boot time clocks of this process's next children start at 0.

    False where the kernel is too old for it (before 5.6) or refuses.
    """
    if _libc.unshare(CLONE_NEWTIME) != 0:
        return False
    clocks = {"monotonic": time.CLOCK_MONOTONIC, "boottime": time.CLOCK_BOOTTIME}
    lines = [f"{name} {-int(time.clock_gettime(clock))} 0" for name, clock in clocks.items()]
    try:
        Path("/proc/self/timens_offsets").write_text("\n".join(lines))
    except OSError:
        return False
    return True


def mount(source: str | None, target: Path, kind: str | None, flags: int = 0, options: str = "") -> None:
    """mount(2).

    Raises:
        OSError: it failed; the message names the target.
    """
    result = _libc.mount(
        source.encode() if source else None,
        os.fsencode(target),
        kind.encode() if kind else None,
        ctypes.c_ulong(flags),
        options.encode() if options else None,
    )
    _check(result, f"mount {kind or source} on {target}")


def bind(source: Path, target: Path, add_flags: int = 0) -> None:
    """Make `source` also appear at `target`, with additional restrictions.

    Raises:
        OSError: it failed.
    """
    result = _libc.mount(os.fsencode(source), os.fsencode(target), None, ctypes.c_ulong(MS_BIND), None)
    _check(result, f"bind {source} to {target}")
    if add_flags:
        restrict(target, add_flags)


def restrict(target: Path, add_flags: int) -> None:
    """Add flags (MS_RDONLY, MS_NOEXEC…) to the mount at `target`, keeping those it has.

    Raises:
        OSError: it failed.
    """
    present = os.statvfs(target).f_flag
    kept = sum(mount_flag for statvfs_flag, mount_flag in _KEPT_FLAGS if present & statvfs_flag)
    mount(None, target, None, MS_REMOUNT | MS_BIND | kept | add_flags)


def make_mounts_private() -> None:
    """No mount of this namespace is seen outside, and none of outside arrives later.

    Raises:
        OSError: it failed.
    """
    mount(None, Path("/"), None, MS_REC | MS_PRIVATE)


def change_root(root: Path) -> None:
    """Make `root` (a mount point) this namespace's root and let go of everything else.

    Raises:
        OSError: it failed.
    """
    os.chdir(root)
    number = _SYS_PIVOT_ROOT.get(os.uname().machine)
    if number is not None and _libc.syscall(number, b".", b".") == 0:
        # Old and new root are now stacked on "/"; this takes the old one away.
        _check(_libc.umount2(b".", _MNT_DETACH), "umount of the old root")
    else:
        # pivot_root cannot leave an initramfs.
        mount(".", Path("/"), None, MS_MOVE)
        os.chroot(".")
    os.chdir("/")


def bring_loopback_up() -> None:
    """Give a new network namespace its 127.0.0.1.

    Raises:
        OSError: it failed.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, _SIOCSIFFLAGS, struct.pack("16sH22x", b"lo", _IFF_UP_RUNNING))


def set_host_name(name: str) -> None:
    """sethostname(2).

    Raises:
        OSError: it failed.
    """
    data = name.encode()
    _check(_libc.sethostname(data, len(data)), "sethostname")


def die_with_parent(number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal (SIGKILL) when the thread that forked it ends.

    A change of user, group or capabilities clears this again: call it after those. The caller must
    check afterwards that its parent is still there.

    Raises:
        OSError: it failed.
    """
    _check(_prctl(_PR_SET_PDEATHSIG, int(number)), "prctl(PR_SET_PDEATHSIG)")


def adopt_orphans() -> None:
    """Become the parent of every process below this one whose own parent ends.

    Raises:
        OSError: it failed.
    """
    _check(_prctl(_PR_SET_CHILD_SUBREAPER, 1), "prctl(PR_SET_CHILD_SUBREAPER)")


def close_fds_except(keep: set[int]) -> None:
    """Close every descriptor of this process that is not in `keep`."""
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd not in keep:
            try:
                os.close(fd)
            except OSError:
                pass


def is_privileged() -> bool:
    """Whether this process is root with the right to make namespaces and mounts without a user namespace."""
    try:
        found = re.search(r"^CapEff:\s*([0-9a-f]+)", Path("/proc/self/status").read_text(), re.MULTILINE)
    except OSError:
        return False
    return os.geteuid() == 0 and found is not None and bool(int(found[1], 16) >> _CAP_SYS_ADMIN & 1)


def limit_root() -> None:
    """Programs that this process starts as root get only what a container's root has."""
    for capability in set(range(_LAST_CAPABILITY + 1)) - _KEPT_CAPABILITIES:
        _prctl(_PR_CAPBSET_DROP, capability)


def become_user(number: int) -> None:
    """Be another user of this machine for good, with the group of the same number and without capabilities.

    Raises:
        OSError: this is not root, or there is no such number in this user namespace.
    """
    # While there is the right to do so.
    for capability in range(_LAST_CAPABILITY + 1):
        _prctl(_PR_CAPBSET_DROP, capability)
    os.setgroups([number])
    os.setresgid(number, number, number)
    os.setresuid(number, number, number)
    # The change of user has hidden this process's own /proc from it.
    _check(_prctl(_PR_SET_DUMPABLE, 1), "prctl(PR_SET_DUMPABLE)")
    drop_privileges()


def drop_privileges() -> None:
    """Give up all capabilities of this process and of everything it will ever start.

    Raises:
        OSError: it failed.
    """
    for capability in range(_LAST_CAPABILITY + 1):
        _prctl(_PR_CAPBSET_DROP, capability)
    forbid_new_privileges()
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def forbid_new_privileges() -> None:
    """No program that this process or its children start gains rights by its file (setuid).

    Raises:
        OSError: it failed.
    """
    _check(_prctl(_PR_SET_NO_NEW_PRIVS, 1), "prctl(PR_SET_NO_NEW_PRIVS)")


def set_process_title(title: str) -> None:
    """Change what `ps` shows of this process: its name, and its command line as far as there is room."""
    name = title.encode()
    comm = ctypes.create_string_buffer(name[:15])
    _prctl(_PR_SET_NAME, ctypes.addressof(comm))
    try:
        fields = Path("/proc/self/stat").read_bytes().rpartition(b")")[2].split()
        # proc(5): arg_start and arg_end are fields 48 and 49; the list starts at field 3.
        start, end = int(fields[45]), int(fields[46])
    except (OSError, ValueError, IndexError):
        return
    if end > start > 0:
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, name, min(len(name), end - start - 1))


def _prctl(option: int, argument: int) -> int:
    # The kernel reads five longs; plain Python integers would travel as C ints.
    rest = (ctypes.c_ulong(argument), ctypes.c_ulong(0), ctypes.c_ulong(0), ctypes.c_ulong(0))
    return int(_libc.prctl(option, *rest))


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
