"""The phone's two users. Root is mapped from the user who runs the phone; the shell user, 2000, is mapped
from that root in a namespace below, without capabilities and with a view in which private folders are closed.

Both are the same user for the host, so files belong to root in root's eyes and to the shell in the shell's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from devkit.sim import namespaces
from devkit.sim.namespaces import MS_RDONLY

ROOT_ID = 0
SHELL_ID = 2000


@dataclass(frozen=True)
class ShellWorld:
    """The namespaces of the shell user; they live as long as these descriptors are open."""

    mounts: int
    users: int


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


def become_shell(world: ShellWorld) -> None:
    """Turn this process into one of the shell user, for good.

    Raises:
        OSError: it failed.
    """
    namespaces.join(world.mounts, namespaces.CLONE_NEWNS)
    namespaces.join(world.users, namespaces.CLONE_NEWUSER)
    namespaces.drop_privileges()
    os.close(world.mounts)
    os.close(world.users)


def is_shell(pid: int | str, world_users: int) -> bool:
    """Whether a process lives in the shell's namespace; False when it is gone."""
    try:
        return os.path.samestat(os.stat(f"/proc/{pid}/ns/user"), os.fstat(world_users))
    except OSError:
        return False
