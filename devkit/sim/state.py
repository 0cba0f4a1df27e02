"""What a running phone leaves on disk: its record, its lock, its folder; and how that is cleaned up."""

from __future__ import annotations

import contextlib
import difflib
import fcntl
import json
import os
import re
import shutil
import stat
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from devkit import paths
from devkit.errors import EXIT_USAGE, SimError

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class PhoneRecord:
    """A phone that is running.

    Args:
        serial: how adb names it: "127.0.0.1:PORT".
        port: where its adbd listens, on 127.0.0.1.
        pid: its supervisor. SIGTERM ends the phone in order, SIGKILL ends it too.
        adb_host: the adb server it is connected to, None when it is to none.
        adb_port: that server's port.
        started_at: seconds since the epoch.
        state_dir: its folder, gone when the phone has ended.
        confinement: "namespaces", "root-namespaces", or "reduced" where this machine refuses both.
    """

    name: str
    serial: str
    port: int
    pid: int
    adb_host: str | None
    adb_port: int | None
    model: str
    started_at: float
    state_dir: Path
    confinement: str = "namespaces"

    def as_dict(self) -> dict[str, object]:
        """The record as JSON shows it."""
        return {**asdict(self), "state_dir": str(self.state_dir)}


def phones_dir() -> Path:
    """The folder with one folder for each phone."""
    return paths.state_dir() / "sim"


def phone_dir(name: str) -> Path:
    """The folder of one phone."""
    return phones_dir() / name


def registry_file(name: str) -> Path:
    """The announcement of a phone's adb server (see `paths.adb_server_registry`)."""
    return paths.adb_server_registry() / f"sim-{name}.json"


def check_name(name: str) -> None:
    """Raises:
    SimError: the name cannot be that of a phone.
    """
    if not _NAME.fullmatch(name):
        raise SimError(
            f"{name!r} cannot be the name of a phone",
            hints=["use letters, digits, dots, dashes and underscores: devkit sim start phone-2"],
            exit_code=EXIT_USAGE,
        )


def no_such_phone(name: str) -> SimError:
    """The error for a name that no running phone has."""
    running = [other for other in known_names() if is_locked(other)]
    near = difflib.get_close_matches(name, running, n=1)
    return SimError(
        f"no virtual phone named {name} is running",
        evidence=f"running: {', '.join(running)}" if running else None,
        hints=[*(f"did you mean {each}?" for each in near), "devkit sim list", f"devkit sim start {name}"],
    )


def write_record(record: PhoneRecord) -> None:
    """Announce a phone as ready."""
    content = json.dumps(record.as_dict(), indent=2) + "\n"
    paths.write_atomically(record.state_dir / "phone.json", content)


def read_record(name: str) -> PhoneRecord | None:
    """The record of a phone, whether it lives or not; None when there is none or it is unreadable."""
    try:
        data: dict[str, Any] = json.loads((phone_dir(name) / "phone.json").read_text(encoding="utf-8"))
        return PhoneRecord(**{**data, "state_dir": Path(data["state_dir"])})
    except (OSError, ValueError, TypeError, KeyError):
        return None


def known_names() -> list[str]:
    """Names of phones that live, or left something behind."""
    try:
        entries = sorted(phones_dir().iterdir())
    except OSError:
        return []
    return [entry.name for entry in entries if entry.is_dir() and _NAME.fullmatch(entry.name)]


def lock_phone(name: str) -> int | None:
    """Take the lock that says "this phone lives". The descriptor is the lock; None when it is taken.

    The phone's own processes inherit it, so the lock is free only once all of them are gone.
    """
    path = _lock_file(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        # The one who held it before may have removed the file meanwhile.
        try:
            if os.path.samestat(os.fstat(fd), os.stat(path)):
                return fd
        except FileNotFoundError:
            pass
        os.close(fd)


def is_locked(name: str) -> bool:
    """Whether a phone of this name lives (or is starting, or ending)."""
    try:
        fd = os.open(_lock_file(name), os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False


def remove_phone(name: str) -> None:
    """Remove everything a phone keeps on disk, its lock last. Only for the holder of the lock."""
    with contextlib.suppress(OSError):
        registry_file(name).unlink()
    remove_tree(phone_dir(name))
    with contextlib.suppress(OSError):
        _lock_file(name).unlink()


def left_behind() -> list[str]:
    """Names of phones that do not live and have left something: their supervisor was killed."""
    return [name for name in known_names() if not is_locked(name)]


def sweep() -> None:
    """Remove what phones left behind whose supervisor was killed."""
    for name in left_behind():
        fd = lock_phone(name)
        if fd is not None:
            with closing_fd(fd):
                remove_phone(name)


@contextlib.contextmanager
def closing_fd(fd: int) -> Iterator[int]:
    """Close a descriptor at the end of the block."""
    try:
        yield fd
    finally:
        os.close(fd)


def remove_tree(path: Path) -> None:
    """Remove a folder, also when programs took away its permissions. Silent about what stays."""
    shutil.rmtree(path, ignore_errors=True)
    if not path.is_dir():
        return
    with contextlib.suppress(OSError):
        path.chmod(stat.S_IRWXU)
    # Top down: a folder is opened up before the walk looks into it.
    for folder, names, _ in os.walk(path):
        for name in names:
            with contextlib.suppress(OSError):
                os.chmod(os.path.join(folder, name), stat.S_IRWXU)
    shutil.rmtree(path, ignore_errors=True)


def _lock_file(name: str) -> Path:
    # Names of phones do not start with a dot.
    return phones_dir() / f".{name}.lock"
