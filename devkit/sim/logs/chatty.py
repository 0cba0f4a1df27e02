"""How logd up to Android 11 folded repeated messages into one line (logd/ChattyLogBuffer.cpp).

Of N equal messages in a row the first and the last are kept; between them stands how many are missing.
They are held back until another message comes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from devkit.sim.logs.wire import BINARY_BUFFERS, INFO, encode_text

# Since Android 12 (SerializedLogBuffer) nothing is folded any more.
LAST_API_LEVEL = 30
_SAME_FOR_NS = 60 * 10**9
_MAX_DROPPED = 0xFFFF


class Message(NamedTuple):
    """An entry on its way into a buffer."""

    log_id: int
    uid: int
    pid: int
    tid: int
    sec: int
    nsec: int
    payload: bytes

    @property
    def stamp(self) -> int:
        """Nanoseconds since 1970."""
        return self.sec * 10**9 + self.nsec


class Folder:
    """Folds one buffer's messages.

    Args:
        store: takes what goes into the buffer.
        name_of: the name of a thread, given process and thread.
    """

    def __init__(self, store: Callable[[Message], None], name_of: Callable[[int, int], str]) -> None:
        self._store = store
        self._name_of = name_of
        self._last: Message | None = None
        self._held: Message | None = None
        self._dropped = 0
        self._name = ""

    def add(self, message: Message) -> None:
        """A new message."""
        last = self._last
        if last is None or not _same(message, last):
            if last is not None and self._held is not None:
                self._note_dropped()
                self._store(last)
            self._held = None
            self._dropped = 0
            self._last = message
            self._store(message)
            return
        if self._held is None:
            # The first of a row is in the buffer already; from the second on they wait.
            self._held = last
            # Asked now: when another message comes, this process may be gone.
            self._name = self._name_of(message.pid, message.tid)
        else:
            if self._dropped == _MAX_DROPPED:
                self._note_dropped()
                self._dropped = 0
            self._held = last
            self._dropped += 1
        self._last = message

    def _note_dropped(self) -> None:
        if self._held is None or self._dropped == 0:
            return
        held = self._held
        user = {0: "(root)", 1000: "(system)", 2000: "(shell)"}.get(held.uid, "")
        lines = "line" if self._dropped == 1 else "lines"
        text = f"uid={held.uid}{user} {self._name} identical {self._dropped} {lines}"
        payload = encode_text(INFO, b"chatty", text.encode("utf-8", "replace"))
        self._store(Message(held.log_id, held.uid, held.pid, held.tid, held.sec, held.nsec, payload))


def _same(message: Message, last: Message) -> bool:
    return (
        message.payload == last.payload
        and message.log_id not in BINARY_BUFFERS
        and (message.uid, message.pid, message.tid) == (last.uid, last.pid, last.tid)
        and message.stamp <= last.stamp + _SAME_FOR_NS
    )
