"""Who writes to the log: users, command lines and thread names, asked while the writer is still there."""

from __future__ import annotations

from pathlib import Path

from devkit.sim.users import user_of

_USER_KNOWN_S = 1.0


class Users:
    """Whose a process is, remembered for a moment."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, float]] = {}
        # Command lines, for the statistics: when those are asked for, a process may be gone.
        self.names: dict[int, str] = {}

    def user_of(self, pid: int, now: float) -> int:
        """ROOT_ID or SHELL_ID.

        Args:
            now: by the monotonic clock, seconds.
        """
        known = self._known.get(pid)
        if known is not None and now - known[1] < _USER_KNOWN_S:
            return known[0]
        if len(self._known) > 1000:
            self._known.clear()
            self.names.clear()
        user = user_of(pid)
        name = _command_of(pid)
        if name:
            self.names[pid] = name
        self._known[pid] = (user, now)
        return user


def _command_of(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().partition(b"\0")[0]
    except OSError:
        return ""
    return words.decode("utf-8", "replace")


def thread_name(pid: int, tid: int) -> str:
    """A thread's name, its process's when it is gone."""
    for path in (f"/proc/{pid}/task/{tid}/comm", f"/proc/{pid}/comm"):
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace").rstrip("\n")
        except OSError:
            continue
    return "<unknown>"
