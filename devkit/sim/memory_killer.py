"""lmkd: kills the program that uses most when all together use more than the phone has.

The limit is watched, not enforced: a program that fills memory very fast is over it for some milliseconds.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from devkit.sim.family import descendants
from devkit.sim.logs.wire import INFO, KERNEL, MAIN, LogWriter
from devkit.sim.places import is_reduced
from devkit.sim.services import PhoneFacts, Service, Sockets
from devkit.sim.users import SHELL_ID

# From half of the limit on it is looked more often.
CALM_PAUSE_S = 0.05
ALERT_PAUSE_S = 0.004
_SERVICES = ("init", "adbd", "logd", "tombstoned", "toolbox", "lmkd", "magiskd")
# What adbd's programs have on a phone.
_SCORE = -1000
_PAGE_KIB = os.sysconf("SC_PAGE_SIZE") // 1024


@dataclass(frozen=True)
class Usage:
    """What a process uses."""

    pid: int
    name: str
    rss_kib: int
    virtual_kib: int
    shared_kib: int


def lmkd_service() -> Service:
    """The service."""
    return Service("lmkd", {}, as_root=True, run=_run)


def _run(facts: PhoneFacts, sockets: Sockets) -> None:
    limit_kib = (facts.memory_limit_bytes or 0) // 1024
    log, kernel = LogWriter("lowmemorykiller"), LogWriter("kernel")
    own = os.getpid()
    while True:
        used = list(usages(own))
        total = sum(usage.rss_kib for usage in used)
        if total > limit_kib and used:
            victim = choose_victim(used)
            log.write(INFO, kill_line(victim, total, limit_kib), log_id=MAIN)
            kernel.write(INFO, kernel_line(victim), log_id=KERNEL, author=(1, 1))
            try:
                os.kill(victim.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            _wait_for_end(victim.pid)
        time.sleep(CALM_PAUSE_S if total < limit_kib // 2 else ALERT_PAUSE_S)


def choose_victim(used: list[Usage]) -> Usage:
    """The biggest."""
    return max(used, key=lambda usage: usage.rss_kib)


def usages(own: int) -> Iterable[Usage]:
    """All programs of the phone; its services do not count, nor does the reader itself."""
    # A reduced phone's programs are those below its keeper.
    pids = descendants(os.getppid()) if is_reduced() else [int(n) for n in os.listdir("/proc") if n.isdigit()]
    for pid in pids:
        if pid in (1, own):
            continue
        folder = Path(f"/proc/{pid}")
        try:
            virtual, resident, shared = (folder / "statm").read_text().split()[:3]
            comm = (folder / "comm").read_text(encoding="utf-8", errors="replace").rstrip("\n")
        except (OSError, ValueError):
            continue
        if int(resident) and not (comm in _SERVICES and _is_service(folder)):
            sizes = (int(pages) * _PAGE_KIB for pages in (resident, virtual, shared))
            yield Usage(pid, comm, *sizes)


def kill_line(victim: Usage, total_kib: int, limit_kib: int) -> str:
    """lmkd's message (lmkd.cpp, kill_one_process)."""
    return (
        f"Kill '{victim.name}' ({victim.pid}), uid {SHELL_ID}, oom_score_adj {_SCORE} "
        f"to free {victim.rss_kib}kB rss, 0kB swap; reason: min watermark is breached and "
        f"swap is low (0kB < {max(0, total_kib - limit_kib)}kB)"
    )


def kernel_line(victim: Usage) -> str:
    """The kernel's message (mm/oom_kill.c, __oom_kill_process)."""
    return (
        f"Out of memory: Killed process {victim.pid} ({victim.name}) total-vm:{victim.virtual_kib}kB, "
        f"anon-rss:{victim.rss_kib - victim.shared_kib}kB, file-rss:{victim.shared_kib}kB, "
        f"shmem-rss:0kB, UID:{SHELL_ID} pgtables:0kB oom_score_adj:{_SCORE}"
    )


def _is_service(folder: Path) -> bool:
    """Whether a process is one of the phone's own: those are Python, which has no file on the phone."""
    try:
        return not os.readlink(folder / "exe").startswith(("/system/", "/data/"))
    except OSError:
        return True


def _wait_for_end(pid: int) -> None:
    """Memory is free only when the process is gone; killing another before would be wrong."""
    deadline = time.monotonic() + 2.0
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/statm").read_text().startswith("0 "):
                return
        except OSError:
            return
        time.sleep(0.001)
