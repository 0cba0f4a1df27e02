"""50,000 lines a second of a log: `devkit logcat` with filter and file, `adb logcat` to a file.

Both read the same writer in turn. What counts is the processor time of each client, that no line is missing
from its file, and that devkit's memory does not grow.

Each file is checked while it grows, and what was checked is given back. Else what a file takes is memory
nobody has touched yet, and on a virtual machine the first touch costs the writer ten times what the copy
costs (it was up to half of all processor time, in some readings and not in others).
"""

from __future__ import annotations

import ctypes
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import adbutils

from benchmarks.report import Measure
from devkit import sim

LINES_PER_S = 50_000
SECONDS, QUICK_SECONDS = 60, 5
ROUNDS = 3
MAX_CPU_RATIO = 2.0
MAX_GROWTH_MB = 16.0
_WAIT_S = 60.0
_CHECK_EACH_S = 0.25
_PAGE_BYTES = 4096
# fallocate(2): FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE
_PUNCH_HOLE = 0x2 | 0x1
ADB = Path(adbutils.__file__).parent / "binaries" / "adb"

_WRITER = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
/* writer NAME SECONDS RATE: RATE lines a second, in steps of 10 ms. */
int main(int argc, char **argv) {
    struct sockaddr_un address = {AF_UNIX, "/dev/socket/logdw"};
    int fd = socket(AF_UNIX, SOCK_DGRAM, 0), line = 0;
    if (argc < 4 || connect(fd, (void *)&address, sizeof address)) return 2;
    struct timespec now, next;
    clock_gettime(CLOCK_MONOTONIC, &next);
    for (int step = 0; step < atoi(argv[2]) * 100; step++) {
        for (int i = 0; i < atoi(argv[3]) / 100; i++, line++) {
            char packet[300] = {0};
            clock_gettime(CLOCK_REALTIME, &now);
            unsigned short tid = getpid();
            unsigned seconds = now.tv_sec, nanoseconds = now.tv_nsec;
            memcpy(packet + 1, &tid, 2);
            memcpy(packet + 3, &seconds, 4);
            memcpy(packet + 7, &nanoseconds, 4);
            packet[11] = line % 1000 ? 4 : 6;
            int size = 12 + sprintf(packet + 12, "MNNJNI") + 1;
            size += sprintf(packet + size, "%s %d of a text about as long as others are", argv[1], line) + 1;
            if (send(fd, packet, size, 0) < 0) return 3;
        }
        if ((next.tv_nsec += 10000000) >= 1000000000) { next.tv_nsec -= 1000000000; next.tv_sec++; }
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &next, NULL);
    }
    return 0;
}
"""


@dataclass(frozen=True)
class _Reading:
    cpu_s: float
    lost: int
    growth_mb: float


def run(*, quick: bool) -> list[Measure]:
    """Rounds of both in turn; medians are compared."""
    seconds = QUICK_SECONDS if quick else SECONDS
    rounds = 1 if quick else ROUNDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ["XDG_STATE_HOME"] = str(folder / "state")
        (folder / "writer.c").write_text(_WRITER)
        subprocess.run(["gcc", "-O2", "writer.c", "-o", "writer"], cwd=folder, check=True)
        with sim.start_phone("bench", adb=ADB, lifeline=True) as phone:
            adb = [str(ADB), "-P", str(phone.record.adb_port), "-s", phone.record.serial]
            subprocess.run(
                [*adb, "push", folder / "writer", "/data/local/tmp/writer"],
                check=True,
                stdout=subprocess.DEVNULL,
            )
            subprocess.run([*adb, "logcat", "-G", "16M"], check=True)
            ours, peers = [], []
            for number in range(rounds):
                file = folder / f"devkit {number}"
                devkit = [sys.executable, "-m", "devkit", "logcat", "-s", "sim:bench", "-b", "main", "-q"]
                devkit += ["MNNJNI:E", "--save", str(file), "--rotate", "0"]
                ours.append(_read(adb, devkit, file, f"d{number}", seconds, own_file=True))
                file = folder / f"adb {number}"
                peers.append(_read(adb, [*adb, "logcat", "-b", "main"], file, f"a{number}", seconds))
    return _measures(ours, peers, seconds)


def _read(
    adb: list[str], command: list[str], file: Path, name: str, seconds: int, *, own_file: bool = False
) -> _Reading:
    """One reader during one run of the writer."""
    subprocess.run([*adb, "logcat", "-b", "all", "-c"], check=True)
    with (Path(os.devnull) if own_file else file).open("wb") as out:
        reader = subprocess.Popen(command, stdout=out)
    subprocess.run([*adb, "shell", "log -t MNNJNI begin"], check=True)
    _await(lambda: file.exists() and b"begin" in _tail(file))
    early_kb = _rss_kb(reader.pid)
    with _Check(file, name, seconds * LINES_PER_S) as check:
        writer = subprocess.Popen([*adb, "shell", f"/data/local/tmp/writer {name} {seconds} {LINES_PER_S}"])
        time.sleep(seconds / 4)
        early_kb = _rss_kb(reader.pid) or early_kb
        if writer.wait() != 0:
            raise RuntimeError("the writer failed")
        last = f"{name} {seconds * LINES_PER_S - 1} of".encode()
        _await(lambda: last in _tail(file))
        growth_mb = (_rss_kb(reader.pid) - early_kb) / 1024
        reader.send_signal(signal.SIGINT)
        _, _, usage = os.wait4(reader.pid, 0)
        reader.returncode = 0
    return _Reading(usage.ru_utime + usage.ru_stime, check.missing, growth_mb)


class _Check:
    """Looks at a file's lines while they come, and gives back the room of what it has seen.

    Attributes:
        missing: how many of the writer's lines are not in it, once the check has been left.
    """

    def __init__(self, file: Path, name: str, lines: int) -> None:
        self._file = file
        self._numbers = re.compile(rb": %b (\d+) of[^\n]*\n" % name.encode()).findall
        self._seen = bytearray(lines)
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.missing = lines

    def __enter__(self) -> _Check:
        self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._done.set()
        self._thread.join()
        self.missing = self._seen.count(0)

    def _run(self) -> None:
        rest, given_back = b"", 0
        with self._file.open("r+b", buffering=0) as stream:
            while True:
                last = self._done.wait(_CHECK_EACH_S)
                data = rest + stream.read()
                end = data.rfind(b"\n") + 1
                rest = data[end:]
                for number in self._numbers(data[:end]):
                    self._seen[int(number)] = 1
                # All but what `_tail` looks at.
                room = (stream.tell() - 2 * _PAGE_BYTES) // _PAGE_BYTES * _PAGE_BYTES
                if room > given_back:
                    _give_back(stream.fileno(), given_back, room - given_back)
                    given_back = room
                if last:
                    return


def _give_back(fd: int, offset: int, count: int) -> None:
    """A hole in a file; where the file system has none, the file stays whole."""
    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    fallocate(fd, _PUNCH_HOLE, offset, count)


def _measures(ours: list[_Reading], peers: list[_Reading], seconds: int) -> list[Measure]:
    own = statistics.median(r.cpu_s for r in ours)
    peer = statistics.median(r.cpu_s for r in peers)
    spread = statistics.pstdev([r.cpu_s for r in ours])
    ratio = own / max(peer, 0.001)
    lost, peer_lost = sum(r.lost for r in ours), sum(r.lost for r in peers)
    growth = max(r.growth_mb for r in ours)
    peer_growth = max(r.growth_mb for r in peers)
    return [
        Measure(f"processor time for {seconds} s", "s", own, peer, spread, ratio, "x",
                f"<= {MAX_CPU_RATIO:g} x", ratio <= MAX_CPU_RATIO),
        Measure("lines lost", "lines", lost, peer_lost, 0, lost, "lines", "0", lost == 0),
        Measure("growth of memory", "MB", growth, peer_growth, 0, growth, "MB", f"<= {MAX_GROWTH_MB:g} MB",
                growth <= MAX_GROWTH_MB),
    ]  # fmt: skip


def _await(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + _WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError("the reader does not keep up, or has ended")
        time.sleep(0.05)


def _tail(file: Path) -> bytes:
    with file.open("rb") as stream:
        stream.seek(max(0, file.stat().st_size - 4096))
        return stream.read()


def _rss_kb(pid: int) -> int:
    text = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+)", text)
    return int(found[1]) if found else 0
