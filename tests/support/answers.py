"""Since when an adb server answers at a port of a host: it is asked twenty times a second."""

from __future__ import annotations

import subprocess
import sys
import threading
import time

from tests.support.host import Host

# It answers again when answers keep coming for this long, without a pause longer than the other.
_STEADY_S = 2.0
_PAUSE_S = 1.0
# Asks an adb server's version again and again; prints when each answer came, by the clock all hosts share.
_PROBE = """\
import socket, sys, threading, time

def ask():
    try:
        with socket.create_connection(("127.0.0.1", int(sys.argv[1])), 3) as sock:
            sock.sendall(b"000chost:version")
            if sock.recv(4) == b"OKAY":
                sys.stdout.write(f"{time.monotonic()}\\n")
                sys.stdout.flush()
    except OSError:
        pass

while True:
    threading.Thread(target=ask, daemon=True).start()
    time.sleep(0.05)
"""


class Answers:
    """What a probe on the server prints: when answers came."""

    def __init__(self, server: Host, port: int) -> None:
        self._times: list[float] = []
        self._probe = server.start([sys.executable, "-c", _PROBE, str(port)], stderr=subprocess.DEVNULL)
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._probe.stdout is not None
        for line in self._probe.stdout:
            self._times.append(float(line))

    def back_after(self, healed: float, give_up_s: float) -> float | None:
        """Seconds from `healed` until answers came and kept coming; None: not in time."""
        while True:
            now = time.monotonic()
            came = [when for when in list(self._times) if when > healed]
            first = last = came[0] if came else now
            for when in came:
                if when - last > _PAUSE_S:
                    first = when
                last = when
            if came and last - first >= _STEADY_S and now - last < _PAUSE_S:
                return first - healed
            if now - healed > give_up_s + _STEADY_S:
                return None
            time.sleep(0.05)

    def close(self) -> None:
        """End the probe."""
        self._probe.kill()
        self._probe.wait()
