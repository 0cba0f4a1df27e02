"""The log for others than logcat: the last lines of a process, for its tombstone; the end of a boot."""

from __future__ import annotations

import socket
import time

from devkit.sim.logs.entry import parse_packet
from devkit.sim.logs.layout import lines_of
from devkit.sim.logs.wire import BUFFER_NAMES, LOGD, LOGDR, MAX_ENTRY_BYTES, REBOOT
from devkit.sim.places import socket_path

_MAX_ENTRIES = 500
_TIMEOUT_S = 2.0
# The letters of debuggerd, which has its own.
_LETTERS = "!.VDIWEFS"


def process_lines(buffer: str, pid: int) -> list[str]:
    """The last entries of a process in a buffer, as tombstones show them; empty when logd does not answer."""
    lines: list[str] = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as sock:
            sock.settimeout(_TIMEOUT_S)
            sock.connect(socket_path(LOGDR))
            lids = BUFFER_NAMES.index(buffer)
            sock.send(f"dumpAndClose lids={lids} tail={_MAX_ENTRIES} pid={pid}".encode())
            while packet := sock.recv(MAX_ENTRY_BYTES):
                entry = parse_packet(packet)
                if entry is None:
                    continue
                stamp = time.strftime("%m-%d %H:%M:%S", time.localtime(entry.sec))
                letter = _LETTERS[entry.priority] if entry.priority < len(_LETTERS) else "?"
                tag = entry.tag.decode("utf-8", "replace")
                head = f"{stamp}.{entry.nsec // 10**6:03} {entry.pid:5} {entry.tid:5} {letter} {tag:<8}: "
                lines += [head + line.decode("utf-8", "replace") for line in lines_of(entry.message)]
    except OSError:
        pass
    return lines


def log_reboot() -> None:
    """What is in the log becomes what `logcat -L` shows, and a new one begins. To be called by init."""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as sock:
            sock.settimeout(_TIMEOUT_S)
            sock.connect(socket_path(LOGD))
            sock.sendall(REBOOT.encode() + b"\0")
            sock.recv(64)
    except OSError:
        pass
