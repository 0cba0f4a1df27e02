"""Why a machine refuses to make a virtual phone, and what its owner can do about it."""

from __future__ import annotations

import errno
from pathlib import Path

from devkit.errors import EXIT_USAGE, SimError
from devkit.sim.init import SetupFailed

# Settings with which a distribution refuses namespaces to ordinary users, with the value that does not.
_REFUSING_SETTINGS = {
    "apparmor_restrict_unprivileged_userns": "0",  # Ubuntu 24.04
    "unprivileged_userns_clone": "1",  # older Debian
}


class Refused(SimError):
    """This machine does not allow namespaces or mounts; a reduced phone may still be possible."""


def reduced_notice(error: Refused) -> str:
    """What to tell users whose phone is a reduced one."""
    hints = "".join(f"\n  for a whole one: {hint}" for hint in error.hints)
    return (
        f"{error.what}.\nThis phone is reduced: its programs run beside this machine's own, with the same"
        f" files and network; its writable folder is $TMPDIR (docs/virtual-phone.md).{hints}"
    )


def foreign_needs_users() -> SimError:
    """Programs of another processor were asked for without a user namespace."""
    return SimError(
        "a phone without a user namespace cannot run programs of another processor",
        evidence="qemu would have to be made known to the whole machine",
        hints=["leave --abi out: programs of this machine"],
        exit_code=EXIT_USAGE,
    )


def explain(error: SetupFailed, *, log: str = "", own_users: bool = True) -> SimError:
    """What a failed step means for the user.

    Args:
        log: the end of what the phone's processes wrote.
        own_users: a user namespace was tried.
    """
    evidence = f"{error.step}: {error}"
    if not own_users and error.number in (errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSPC):
        return Refused(
            "this machine does not let root make a virtual phone without a user namespace",
            evidence=evidence,
            hints=["root with CAP_SYS_ADMIN, CAP_SETUID and CAP_CHOWN can: docker run --privileged"],
        )
    if error.step == "user namespace" and error.number in (errno.ENOSPC, errno.EUSERS):
        return Refused(
            "this machine does not allow more user namespaces, which a virtual phone needs",
            evidence=evidence,
            hints=["sudo sysctl user.max_user_namespaces=10000"],
        )
    if error.number not in (errno.EPERM, errno.EACCES):
        return SimError("the virtual phone does not start", evidence=f"{evidence}\n{log}")
    hints = []
    for name, good in _REFUSING_SETTINGS.items():
        value = _setting(f"/proc/sys/kernel/{name}")
        if value and value != good:
            evidence += f"\nkernel.{name} = {value}"
            hints.append(f"sudo sysctl kernel.{name}={good}")
    if not hints or _in_container():
        hints.append(
            "in Docker: docker run --security-opt seccomp=unconfined"
            " --security-opt apparmor=unconfined --security-opt systempaths=unconfined …"
        )
    return Refused(
        "this machine does not let devkit make a virtual phone: "
        + ("mounts are refused" if error.step == "file tree" else "namespaces are refused"),
        evidence=evidence,
        hints=hints,
    )


def _in_container() -> bool:
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


def _setting(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
