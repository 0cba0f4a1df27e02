"""hosts_wire.py PORT PORT DELAY_S RATE_BITS_S: a cable between two interfaces, as long and slow as wanted.

What `tc netem` would do, in a process: many kernels come without it. Frames are read and written with
their virtio header (PACKET_VNET_HDR), so the kernel's large segments and unfinished checksums stay good.
A rate of 0 is no limit. The queue of each direction holds 1,000 frames, as netem's; more are dropped.
"""

from __future__ import annotations

import collections
import select
import socket
import sys
import time

_SOL_PACKET, _PACKET_VNET_HDR, _PACKET_OUTGOING = 263, 15, 4
_ALL_PROTOCOLS = 0x0003
_FRAME_BYTES = 70_000
_HEADER_BYTES = 10
_QUEUE_FRAMES = 1000


class Lane:
    """One direction: frames leave in order, each when it is due."""

    def __init__(
        self, source: socket.socket, sink: socket.socket, delay_s: float, rate_bits_s: float
    ) -> None:
        self.source, self.sink = source, sink
        self._delay_s, self._rate_bits_s = delay_s, rate_bits_s
        self._free_at = 0.0
        self._frames: collections.deque[tuple[float, bytes]] = collections.deque()

    def read(self) -> None:
        frame, address = self.source.recvfrom(_FRAME_BYTES)
        # What this process writes into the port comes back as outgoing.
        if address[2] == _PACKET_OUTGOING or len(self._frames) >= _QUEUE_FRAMES:
            return
        now = time.monotonic()
        sent_at = now
        if self._rate_bits_s:
            self._free_at = max(now, self._free_at) + (len(frame) - _HEADER_BYTES) * 8 / self._rate_bits_s
            sent_at = self._free_at
        self._frames.append((sent_at + self._delay_s, frame))

    def write(self) -> float | None:
        """Send what is due; seconds until there is more to do, None when nothing waits."""
        while self._frames:
            left = self._frames[0][0] - time.monotonic()
            if left > 0:
                return left
            _, frame = self._frames.popleft()
            try:
                self.sink.send(frame)
            except OSError:
                pass  # The other end is down: a cable loses it.
        return None


def open_port(name: str) -> socket.socket:
    """All frames of an interface, whole."""
    port = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    port.setsockopt(_SOL_PACKET, _PACKET_VNET_HDR, 1)
    port.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
    port.bind((name, 0))
    return port


def main(one: str, other: str, delay_s: float, rate_bits_s: float) -> None:
    ports = open_port(one), open_port(other)
    lanes = {
        ports[0]: Lane(ports[0], ports[1], delay_s, rate_bits_s),
        ports[1]: Lane(ports[1], ports[0], delay_s, rate_bits_s),
    }
    sys.stdout.write("up\n")
    sys.stdout.flush()
    while True:
        waits = [wait for wait in (lane.write() for lane in lanes.values()) if wait is not None]
        ready, _, _ = select.select(list(ports), [], [], min(waits, default=None))
        for port in ready:
            lanes[port].read()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]))
