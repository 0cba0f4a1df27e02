"""The first process of the world of hosts.py: reaps, and ends when its stdin does. Takes all others along.

Started as pid 1 of a pid namespace: when it ends, the kernel kills everything in it.
"""

from __future__ import annotations

import os
import select
import signal


def main() -> None:
    wakeup, signals = os.pipe()
    os.set_blocking(signals, False)
    signal.set_wakeup_fd(signals)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    os.write(1, b"up\n")
    while True:
        ready, _, _ = select.select([0, wakeup], [], [])
        if 0 in ready and not os.read(0, 512):
            return
        if wakeup in ready:
            os.read(wakeup, 512)
            try:
                while os.waitpid(-1, os.WNOHANG)[0]:
                    pass
            except ChildProcessError:
                pass


if __name__ == "__main__":
    main()
