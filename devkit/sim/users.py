"""The phone's two users, root and shell (2000).

Usually root is mapped from the user who runs the phone; the shell user is mapped from that root in a
namespace below, without capabilities and with a view in which private folders are closed. Both are the same
user for the host, so files belong to root in root's eyes and to the shell in the shell's.

Where user namespaces are refused and root runs the phone, they are this machine's users 0 and 2000.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.sim import namespaces
from devkit.sim.namespaces import MS_RDONLY
from devkit.sim.places import is_reduced

ROOT_ID = 0
SHELL_ID = 2000


@dataclass(frozen=True)
class ShellWorld:
    """The namespaces of the shell user; they live as long as these descriptors are open.

    Both are None where it is a user of this machine.
    """

    mounts: int | None = None
    users: int | None = None


def make_shell_world(read_only: Sequence[Path]) -> ShellWorld:
    """Make the shell's namespaces. To be called as the phone's root.

    Args:
        read_only: mount points that only root may change. With mode 0 they are closed to the shell too:
            it is their owner, but can change their mode no more.

    Raises:
        OSError: the kernel refuses.
    """
    made_read, made_write = os.pipe()
    done_read, done_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        problem = 0
        try:
            namespaces.unshare(namespaces.CLONE_NEWNS)
            for path in read_only:
                namespaces.restrict(path, MS_RDONLY)
            namespaces.unshare(namespaces.CLONE_NEWUSER)
            namespaces.map_ids(ROOT_ID, ROOT_ID, SHELL_ID)
        except OSError as error:
            problem = error.errno or 1
        os.write(made_write, bytes([min(problem, 255)]))
        os.close(done_write)
        os.read(done_read, 1)
        os._exit(0)
    try:
        os.close(made_write)
        problem = int.from_bytes(os.read(made_read, 1), "little")
        if problem:
            raise OSError(problem, f"the shell user's namespaces: {os.strerror(problem)}")
        folder = f"/proc/{pid}/ns"
        return ShellWorld(
            *(os.open(f"{folder}/{kind}", os.O_RDONLY | os.O_CLOEXEC) for kind in ("mnt", "user"))
        )
    finally:
        for fd in (made_read, done_read, done_write):
            os.close(fd)
        os.waitpid(pid, 0)


def check_shell_user() -> ShellWorld:
    """The world of a shell user that is one of this machine's.

    Raises:
        OSError: this process cannot become that user.
    """
    pid = os.fork()
    if pid == 0:
        problem = 0
        try:
            become_shell(ShellWorld())
        except OSError as error:
            problem = error.errno or 1
        os._exit(min(problem, 255))
    problem = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if problem:
        raise OSError(problem, f"becoming user {SHELL_ID}: {os.strerror(problem)}")
    return ShellWorld()


def become_shell(world: ShellWorld) -> None:
    """Turn this process into one of the shell user, for good. A reduced phone has no other.

    Raises:
        OSError: it failed.
    """
    if is_reduced():
        return
    if world.mounts is None or world.users is None:
        namespaces.become_user(SHELL_ID)
        return
    namespaces.join(world.mounts, namespaces.CLONE_NEWNS)
    namespaces.join(world.users, namespaces.CLONE_NEWUSER)
    namespaces.drop_privileges()
    os.close(world.mounts)
    os.close(world.users)


def user_of(pid: int) -> int:
    """Whose a process is: ROOT_ID, or SHELL_ID, also when it is gone. To be asked by the phone's root."""
    if is_reduced():
        return SHELL_ID
    try:
        if not os.path.samestat(os.stat(f"/proc/{pid}/ns/user"), os.stat("/proc/self/ns/user")):
            return SHELL_ID
        status = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return SHELL_ID
    owner = re.search(r"^Uid:\s*\d+\s+(\d+)", status, re.MULTILINE)
    return SHELL_ID if owner is None or int(owner[1]) == SHELL_ID else ROOT_ID
