"""The one thread that moves bytes from this machine's sockets into an SSH connection."""

from __future__ import annotations

import collections
import contextlib
import selectors
import socket
import threading
from collections.abc import Callable

Ready = Callable[[int], None]
READ, WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE


class Pump(threading.Thread):
    """A selector loop. Everything but `call` and `stop` belongs to the loop's own thread.

    The other direction, from SSH to the sockets, is done by the transport's thread as it decrypts:
    handing the data to another thread first would switch the interpreter's lock twice for each 32 KiB.

    Args:
        crashed: told when the loop ends by an error of ours, instead of by `stop`.
    """

    def __init__(self, name: str, crashed: Callable[[Exception], None]) -> None:
        super().__init__(name=f"devkit pump {name}", daemon=True)
        self._selector = selectors.DefaultSelector()
        self._calls: collections.deque[Callable[[], None]] = collections.deque()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._selector.register(self._wake_in, READ, self._woken)
        self._crashed = crashed
        self._lock = threading.Lock()
        self._awake = False
        self._stopping = False
        self._ended = False

    def call(self, work: Callable[[], None]) -> bool:
        """Have `work` done in the loop's thread, soon and in order. Any thread may ask.

        False: the loop has ended, and it will not be done.
        """
        with self._lock:
            if self._ended:
                return False
            self._calls.append(work)
            waking = not self._awake
            self._awake = True
        if waking:
            with contextlib.suppress(OSError):
                self._wake_out.send(b"!")
        return True

    def stop(self) -> None:
        """End the loop after what was asked for before; does not wait."""
        self._stopping = True
        self.call(lambda: None)

    def watch(self, sock: socket.socket, events: int, ready: Ready) -> None:
        """Call `ready(events)` when `sock` is ready for one of `events`; 0 stops watching."""
        known = sock.fileno() >= 0 and sock in self._selector.get_map()
        if not events:
            if known:
                self._selector.unregister(sock)
        elif known:
            self._selector.modify(sock, events, ready)
        else:
            self._selector.register(sock, events, ready)

    def run(self) -> None:
        """Until `stop`."""
        try:
            while True:
                for key, events in self._selector.select():
                    key.data(events)
                while self._calls:
                    self._calls.popleft()()
                with self._lock:
                    if self._stopping and not self._calls:
                        self._ended = True
                        return
        except Exception as error:
            self._crashed(error)
        finally:
            self._ended = True
            self._selector.close()
            self._wake_in.close()
            self._wake_out.close()

    def _woken(self, _events: int) -> None:
        with contextlib.suppress(BlockingIOError):
            self._wake_in.recv(4096)
        with self._lock:
            self._awake = False
