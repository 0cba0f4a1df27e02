"""An adb server's end of the wire, spoken by hand, against the phone's daemon in this process."""

from __future__ import annotations

import os
import socket
import struct
import threading
from pathlib import Path

from devkit.sim.adbd import daemon, packets
from devkit.sim.adbd.auth import Keyring
from devkit.sim.adbd.packets import CLSE, CNXN, OKAY, OPEN, WRTE, Packet
from devkit.sim.releases import find_release

TIMEOUT_S = 10.0


class Peer:
    """Sends and reads single packets; `conversation` streams over one service."""

    def __init__(self, sock: socket.socket, thread: threading.Thread) -> None:
        self.sock = sock
        self.thread = thread
        self._next_id = 100
        sock.settimeout(TIMEOUT_S)

    def send(
        self, command: int, arg0: int, arg1: int, payload: bytes = b"", *, checksum: bool = False
    ) -> None:
        header = packets.encode_header(command, arg0, arg1, payload, with_checksum=checksum)
        packets.send_packet(self.sock, header, payload)

    def receive(self) -> Packet | None:
        return packets.read_packet(self.sock, verify=lambda _: False)

    def expect(self, command: int) -> Packet:
        packet = self.receive()
        assert packet is not None
        assert packet.command == command, packet
        return packet

    def connect(self, version: int = packets.VERSION_SKIP_CHECKSUM, max_payload: int = 1 << 20) -> Packet:
        self.send_connect(version, max_payload)
        return self.expect(CNXN)

    def send_connect(
        self,
        version: int = packets.VERSION_SKIP_CHECKSUM,
        max_payload: int = 1 << 20,
        features: str = "shell_v2",
    ) -> None:
        banner = f"host::features={features}\0".encode()
        self.send(CNXN, version, max_payload, banner, checksum=True)

    def open(self, service: str) -> Conversation:
        self._next_id += 1
        self.send(OPEN, self._next_id, 0, service.encode() + b"\0")
        packet = self.receive()
        assert packet is not None
        return Conversation(self, self._next_id, packet)

    def hang_up(self) -> None:
        self.sock.close()
        self.thread.join(TIMEOUT_S)
        assert not self.thread.is_alive(), "the daemon still serves a closed connection"


class Conversation:
    """One stream, stop and wait in both directions."""

    def __init__(self, peer: Peer, local_id: int, answer: Packet) -> None:
        self.peer = peer
        self.local_id = local_id
        self.accepted = answer.command == OKAY
        self.remote_id = answer.arg0
        self.closed = not self.accepted
        self._buffer = bytearray()

    def write(self, data: bytes) -> None:
        self.peer.send(WRTE, self.local_id, self.remote_id, data)
        while True:
            packet = self._next()
            if packet.command == OKAY or self.closed:
                return

    def read(self, count: int) -> bytes:
        while len(self._buffer) < count and not self.closed:
            self._next()
        data = bytes(self._buffer[:count])
        del self._buffer[:count]
        return data

    def read_to_end(self) -> bytes:
        while not self.closed:
            self._next()
        return bytes(self._buffer)

    def close(self) -> None:
        self.peer.send(CLSE, self.local_id, self.remote_id)
        while not self.closed:
            self._next()

    def _next(self) -> Packet:
        packet = self.peer.receive()
        assert packet is not None, "the connection ended"
        if packet.command == WRTE:
            assert (packet.arg0, packet.arg1) == (self.remote_id, self.local_id)
            self._buffer += packet.payload
            self.peer.send(OKAY, self.local_id, self.remote_id)
        elif packet.command == CLSE:
            self.closed = True
        return packet


def make_peer(android: str = "14", keyring: Keyring | None = None) -> Peer:
    """A peer whose daemon runs in a thread, with the same services as in a phone."""
    ours, theirs = socket.socketpair()
    properties = {"ro.product.name": "n", "ro.product.model": "m", "ro.product.device": "d"}
    config = daemon.DaemonConfig(
        properties, {"PATH": os.environ["PATH"]}, find_release(android).wire, daemon.preload(), keyring
    )
    served = daemon.Daemon(config)
    thread = threading.Thread(target=served.serve_connection, args=(theirs,), daemon=True)
    thread.start()
    return Peer(ours, thread)


def request(kind: bytes, path: bytes | Path) -> bytes:
    """A sync request."""
    data = path if isinstance(path, bytes) else os.fsencode(path)
    return struct.pack("<4sI", kind, len(data)) + data
