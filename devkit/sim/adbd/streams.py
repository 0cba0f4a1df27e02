"""One adb stream as a service sees it: bytes in, bytes out, with the protocol's backpressure.

In both directions one WRTE may be under way until its OKAY; with delayed acks (Android 14) as many
bytes as the window that OPEN and OKAY announce. Incoming data is acknowledged when the service takes
it, so a service that does not read stops the sender.
"""

from __future__ import annotations

import collections
import struct
import threading
from collections.abc import Callable, Iterator
from typing import Protocol

from devkit.sim.adbd import packets
from devkit.sim.adbd.faults import FaultBoard

Buffer = bytes | bytearray | memoryview

# The protocol allows one; a little slack keeps a sloppy peer alive, a flood ends its connection.
MAX_QUEUED_CHUNKS = 16
# INITIAL_DELAYED_ACK_BYTES in adb.h.
DELAYED_ACK_WINDOW_BYTES = 32 * 1024 * 1024
_ACKNOWLEDGED = struct.Struct("<i")


class StreamClosed(Exception):
    """The other side has closed the stream, or the connection is gone."""


class PacketSink(Protocol):
    """What a stream needs from its connection."""

    @property
    def max_payload(self) -> int:
        """The most bytes one WRTE may carry."""

    @property
    def delayed_ack(self) -> bool:
        """Whether both sides count acknowledged bytes instead of packets."""

    def send(self, command: int, arg0: int, arg1: int, payload: Buffer = b"") -> None:
        """Send one packet; a broken connection is not reported here but by closing all streams."""

    def forget(self, stream_id: int) -> None:
        """The stream has ended; its id is free."""


class Stream:
    """A stream between a service of the phone and a socket of the adb server.

    Args:
        window_bytes: with delayed acks, how much the peer takes before it acknowledges any.
        faults: what goes wrong with its bytes.
    """

    def __init__(
        self,
        transport: PacketSink,
        local_id: int,
        remote_id: int,
        *,
        window_bytes: int = 0,
        faults: FaultBoard | None = None,
    ) -> None:
        self.local_id = local_id
        self.remote_id = remote_id
        # The name of the service, for faults that go by it.
        self.service = ""
        self.faults = faults or FaultBoard(None)
        self._transport = transport
        self._lock = threading.Condition()
        self._inbox: collections.deque[memoryview] = collections.deque()
        self._rest = memoryview(b"")
        self._queued_bytes = 0
        self._offered_bytes = window_bytes
        # What may be sent now: bytes with delayed acks, else packets (0 or 1).
        self._credit = 0
        self._closed_by_peer = False
        self._ended = False
        self._waker: Callable[[], None] = lambda: None

    # ---- for services

    def accept(self) -> None:
        """Tell the peer that the service is there."""
        with self._lock:
            self._credit = self._offered_bytes if self._transport.delayed_ack else 1
        self._send_okay(DELAYED_ACK_WINDOW_BYTES)

    def refuse(self) -> None:
        """Tell the peer that there is no such service."""
        with self._lock:
            self._ended = True
        self._transport.forget(self.local_id)
        # A refused OPEN is answered with local id 0.
        self._transport.send(packets.CLSE, 0, self.remote_id)

    def wait_open(self, timeout_s: float) -> bool:
        """For a stream that we opened: whether the peer accepted it in time."""
        with self._lock:
            self._lock.wait_for(lambda: self._credit > 0 or self.closed, timeout_s)
            return self._credit > 0 and not self.closed

    @property
    def closed(self) -> bool:
        """Whether the peer has closed. Data it sent before may still be waiting."""
        return self._closed_by_peer or self._ended

    def can_write(self) -> bool:
        """Whether `try_write` would send now."""
        return self._credit > 0 and not self.closed

    @property
    def max_payload(self) -> int:
        """The most bytes one packet may carry."""
        return self._transport.max_payload

    def set_waker(self, waker: Callable[[], None]) -> None:
        """Have `waker` called from another thread whenever data, an OKAY or a close arrives."""
        self._waker = waker
        waker()

    def take(self) -> memoryview | None:
        """The next piece of incoming data without waiting, or None. Acknowledges it."""
        with self._lock:
            if self._rest:
                chunk, self._rest = self._rest, memoryview(b"")
                return chunk
            if not self._inbox:
                return None
            chunk = self._dequeue()
        self._acknowledge(chunk)
        return chunk

    def try_write(self, data: Buffer) -> bool:
        """Send `data` (at most `max_payload` bytes) if the peer has room for it.

        Raises:
            StreamClosed: the peer closed.
        """
        with self._lock:
            if self.closed:
                raise StreamClosed
            if self._credit <= 0:
                return False
            # The last packet may be larger than what is left of the window, as adbd's may.
            self._credit -= len(data) if self._transport.delayed_ack else 1
        if self.faults.spoils_output:
            data = self.faults.outgoing(self, data)
        self.send_now(data)
        return True

    def send_now(self, data: Buffer) -> None:
        """Send without a look at what the peer has room for. Only for `try_write` and faults."""
        if not self.closed:
            self._transport.send(packets.WRTE, self.local_id, self.remote_id, data)

    def write(self, data: Buffer) -> None:
        """Send all of `data`, waiting for acknowledgements as needed.

        Raises:
            StreamClosed: the peer closed.
        """
        view = memoryview(data)
        for start in range(0, len(view), self.max_payload):
            piece = view[start : start + self.max_payload]
            while not self.try_write(piece):
                with self._lock:
                    self._lock.wait_for(lambda: self._credit > 0 or self.closed)

    def pieces(self, count: int) -> Iterator[memoryview]:
        """The next `count` bytes, in pieces as they arrived, not copied.

        Raises:
            StreamClosed: the peer closed before all of them came.
        """
        while count:
            if not self._rest:
                self._rest = self._wait_for_chunk()
            piece = self._rest[:count]
            self._rest = self._rest[count:]
            count -= len(piece)
            yield piece

    def read(self, count: int) -> bytes:
        """Exactly `count` bytes.

        Raises:
            StreamClosed: the peer closed before all of them came.
        """
        return b"".join(self.pieces(count))

    def close(self, *, flush: bool = True) -> None:
        """End the stream from our side, once the peer has taken everything we sent (`flush`)."""
        with self._lock:
            # With a window the peer drains what it has by itself, and waiting would cost a round trip.
            if flush and not self._transport.delayed_ack:
                self._lock.wait_for(lambda: self._credit > 0 or self.closed)
            if self._ended:
                return
            by_peer = self._closed_by_peer
            self._ended = True
            self._lock.notify_all()
        self._transport.forget(self.local_id)
        if not by_peer and self.remote_id:
            self._transport.send(packets.CLSE, self.local_id, self.remote_id)

    # ---- for the transport

    def deliver(self, payload: memoryview) -> bool:
        """Data from the peer. False when it floods the stream against the protocol."""
        with self._lock:
            if self.closed:
                return True
            if self._transport.delayed_ack:
                if self._queued_bytes >= DELAYED_ACK_WINDOW_BYTES:
                    return False
            elif len(self._inbox) >= MAX_QUEUED_CHUNKS:
                return False
            if self.faults.spoils_input:
                payload = self.faults.incoming(payload)
            self._inbox.append(payload)
            self._queued_bytes += len(payload)
            self._lock.notify_all()
        self._waker()
        return True

    def acknowledged(self, remote_id: int, payload: Buffer) -> None:
        """An OKAY from the peer: it accepted our OPEN, or took what we sent.

        Args:
            payload: with delayed acks how many bytes; adbd ignores an OKAY of the wrong kind.
        """
        if (len(payload) == _ACKNOWLEDGED.size) != self._transport.delayed_ack:
            return
        with self._lock:
            if self.remote_id == 0:
                self.remote_id = remote_id
            if self._transport.delayed_ack:
                self._credit += _ACKNOWLEDGED.unpack(payload)[0]
            else:
                self._credit = 1
            self._lock.notify_all()
        self._waker()

    def closed_by_peer(self, *, answer: bool) -> None:
        """The peer closed, or the connection is gone (`answer` False)."""
        with self._lock:
            first = not self.closed
            self._closed_by_peer = True
            self._lock.notify_all()
        self._transport.forget(self.local_id)
        # A refused OPEN of ours never learned of a remote id to answer to.
        if first and answer and self.remote_id:
            self._transport.send(packets.CLSE, self.local_id, self.remote_id)
        self._waker()

    def _dequeue(self) -> memoryview:
        chunk = self._inbox.popleft()
        self._queued_bytes -= len(chunk)
        return chunk

    def _acknowledge(self, chunk: memoryview) -> None:
        if not self.closed:
            self._send_okay(len(chunk))

    def _send_okay(self, count: int) -> None:
        payload = _ACKNOWLEDGED.pack(count) if self._transport.delayed_ack else b""
        self._transport.send(packets.OKAY, self.local_id, self.remote_id, payload)

    def _wait_for_chunk(self) -> memoryview:
        with self._lock:
            self._lock.wait_for(lambda: self._inbox or self.closed)
            if not self._inbox:
                raise StreamClosed
            chunk = self._dequeue()
        self._acknowledge(chunk)
        return chunk
