"""Answers for a debugger before it asks: the questions with which LLDB begins, sent in one go.

LLDB greets a gdbserver with some thirty questions, one after the other, each a round trip of the link. Most
are always the same, and their answers do not change while the process stands still. As soon as both sides
have agreed on how they speak (qSupported), they are sent to the server together; when LLDB asks one of them,
its answer is here. The first command that changes anything ends this, and bytes pass as they are.

Packets are those of GDB's remote protocol (Overview) and of LLDB's extensions (lldb/docs/resources).
"""

from __future__ import annotations

import collections
import re
import threading

# In LLDB's own order: some decide how later ones are answered. None changes what a debugger of LLDB's kind
# would not change itself; a server that does not know one says so with an empty answer.
_QUESTIONS = (
    b"QThreadSuffixSupported", b"QListThreadsInStopReply", b"qHostInfo", b"vCont?",
    b"qVAttachOrWaitSupported", b"QEnableErrorStrings", b"qProcessInfo", b"?",
    b"qXfer:features:read:target.xml:0,131071", b"qOffsets", b"qStructuredDataPlugins",
    b"qXfer:auxv:read::0,131071", b"qShlibInfoAddr", b"qXfer:libraries-svr4:read::0,131071",
)  # fmt: skip
# Questions that leave everything as it is: with them the answers stay true.
_HARMLESS = re.compile(
    rb"q(?!Attach|Launch|Kill|Platform|FileLoad|SaveCore)|[pxmg?Zz]|jThread|jModules"
    rb"|Q(?:Thread|List|Enable|PassSignals)|vCont\?"
)
_PACKET = re.compile(rb"\$([^#]*)#[0-9a-fA-F]{2}", re.DOTALL)
_AGREEMENT, _NO_ACKS = b"qSupported", b"QStartNoAckMode"


class AnswersAhead:
    """What stands between both directions of one connection; the two may be fed from two threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._from_client = b""
        self._from_server = b""
        self._without_acks = False
        self._agreed = False
        self._over = False
        # Questions the server still has to answer, in order: with the client's own marked.
        self._open: collections.deque[tuple[bytes, bool]] = collections.deque()
        self._answers: dict[bytes, bytes] = {}
        self._awaited: bytes | None = None
        self.saved = 0

    def up(self, data: bytes) -> tuple[bytes, bytes]:
        """Take what the client says; what goes to the server, and what goes back at once."""
        with self._lock:
            if self._over:
                return data, b""
            self._from_client += data
            to_server, to_client = bytearray(), bytearray()
            while not self._over and (found := _PACKET.search(self._from_client)) is not None:
                before, packet = self._from_client[: found.start()], found[1]
                whole = self._from_client[: found.end()]
                self._from_client = self._from_client[found.end() :]
                self._client_asks(packet, before, whole, to_server, to_client)
            if self._over or b"$" not in self._from_client:
                # Acknowledgements, an interrupt.
                to_server += self._from_client
                self._from_client = b""
            return bytes(to_server), bytes(to_client)

    def down(self, data: bytes) -> bytes:
        """Take what the server says; what goes to the client."""
        with self._lock:
            if self._over and not self._open:
                rest, self._from_server = self._from_server, b""
                return rest + data
            self._from_server += data
            to_client = bytearray()
            while self._open and (found := _PACKET.search(self._from_server)) is not None:
                whole = self._from_server[: found.end()]
                self._from_server = self._from_server[found.end() :]
                question, is_clients = self._open.popleft()
                if question == _NO_ACKS and whole.endswith(b"$OK#9a"):
                    self._without_acks = True
                if is_clients or self._awaited == question:
                    to_client += whole
                    self._awaited = None if self._awaited == question else self._awaited
                else:
                    self._answers[question] = whole
            if not self._open:
                to_client += self._from_server
                self._from_server = b""
            return bytes(to_client)

    def _client_asks(
        self, packet: bytes, before: bytes, whole: bytes, to_server: bytearray, to_client: bytearray
    ) -> None:
        if not self._agreed:
            to_server += whole
            self._open.append((packet, True))
            if packet.startswith(_AGREEMENT):
                # With acknowledgements each packet has to wait for its own.
                self._agreed, self._over = True, not self._without_acks
                for question in _QUESTIONS if self._without_acks else ():
                    to_server += _framed(question)
                    self._open.append((question, False))
        elif packet in self._answers:
            to_client += self._answers[packet]
            self.saved += 1
        elif any(question == packet and not own for question, own in self._open):
            self._awaited = packet
            self.saved += 1
        else:
            to_server += whole
            self._open.append((packet, True))
            # From here on answers may change, and not everything that comes is one.
            self._over = not _HARMLESS.match(packet)


def _framed(packet: bytes) -> bytes:
    return b"$%s#%02x" % (packet, sum(packet) % 256)
