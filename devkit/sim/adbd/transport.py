"""One connection from an adb server: handshake, dispatch of packets to streams, sending."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Protocol

from devkit.sim.adbd import packets
from devkit.sim.adbd.log import log
from devkit.sim.adbd.packets import Header, Packet, ProtocolError
from devkit.sim.adbd.streams import Buffer, Stream

MAX_STREAMS = 4096
_REMOTE_ID_ANY = 0


class Authenticator(Protocol):
    """Decides over AUTH packets. Without one every peer is welcome."""

    def challenge(self) -> bytes:
        """A new token for the peer to sign."""

    def accepts(self, kind: int, payload: bytes) -> bool:
        """Whether this answer (kind: 2 signature, 3 public key) lets the peer in."""


class Transport:
    """The phone's side of one adb connection.

    Args:
        sock: the connected socket; the transport owns it from here on.
        banner: what CNXN says of the phone.
        serve: runs a service for a stream; called in a thread of its own with the service's name.
        authenticator: None lets every peer in.
    """

    def __init__(
        self,
        sock: socket.socket,
        banner: bytes,
        serve: Callable[[Transport, Stream, str], None],
        authenticator: Authenticator | None = None,
    ) -> None:
        self.max_payload = packets.MAX_PAYLOAD_V1_BYTES
        self.on_end: list[Callable[[], None]] = []
        self._sock = sock
        self._banner = banner
        self._serve = serve
        self._authenticator = authenticator
        self._online = False
        self._peer_version = packets.VERSION_WITH_CHECKSUM
        self._streams: dict[int, Stream] = {}
        self._next_id = 1
        self._table_lock = threading.Lock()
        self._send_lock = threading.Lock()

    def run(self) -> None:
        """Serve the connection until it ends. Never raises for what the peer does."""
        try:
            while (packet := packets.read_packet(self._sock, verify=self._checksum_counts)) is not None:
                self._dispatch(packet)
        except ProtocolError as error:
            log(f"connection dropped: {error}")
        except OSError as error:
            log(f"connection lost: {error}")
        finally:
            self._end()

    def send(self, command: int, arg0: int, arg1: int, payload: Buffer = b"") -> None:
        """Send one packet. On a broken connection nothing happens: `run` notices and ends it."""
        # The peer's version is unknown before its CNXN, hence a checksum in our first packets too.
        with_checksum = self._peer_version < packets.VERSION_SKIP_CHECKSUM or command == packets.CNXN
        header = packets.encode_header(command, arg0, arg1, payload, with_checksum=with_checksum)
        try:
            with self._send_lock:
                packets.send_packet(self._sock, header, payload)
        except OSError:
            self.kick()

    def open(self, destination: str) -> Stream:
        """Open a stream towards the adb server (what `reverse` listeners do)."""
        stream = self._new_stream(_REMOTE_ID_ANY)
        self.send(packets.OPEN, stream.local_id, 0, destination.encode() + b"\0")
        return stream

    def forget(self, stream_id: int) -> None:
        """Free the id of a stream that has ended."""
        with self._table_lock:
            self._streams.pop(stream_id, None)

    def kick(self) -> None:
        """Break the connection off; `run` then ends."""
        try:
            self._sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass

    # ---- packets from the peer

    def _dispatch(self, packet: Packet) -> None:
        if packet.command == packets.CNXN:
            self._connect(packet)
        elif packet.command == packets.AUTH:
            self._authenticate(packet)
        elif not self._online:
            return
        elif packet.command == packets.OPEN:
            self._open(packet)
        elif packet.command == packets.WRTE:
            stream = self._find(packet)
            if stream is not None and not stream.deliver(packet.payload):
                raise ProtocolError("the peer does not wait for acknowledgements")
        elif packet.command == packets.OKAY:
            stream = self._find(packet)
            if stream is not None:
                stream.acknowledged(packet.arg0)
        elif packet.command == packets.CLSE:
            stream = self._find(packet)
            if stream is not None:
                stream.closed_by_peer(answer=True)

    def _connect(self, packet: Packet) -> None:
        self._close_streams()
        self._peer_version = packet.arg0
        self.max_payload = max(1, min(packet.arg1, packets.MAX_PAYLOAD_BYTES))
        log(f"CNXN version={packet.arg0:x} max={packet.arg1} {bytes(packet.payload[:200])!r}")
        if self._authenticator is None:
            self._let_in()
        else:
            self.send(packets.AUTH, 1, 0, self._authenticator.challenge())

    def _authenticate(self, packet: Packet) -> None:
        if self._authenticator is None or self._online:
            return
        if self._authenticator.accepts(packet.arg0, bytes(packet.payload)):
            self._let_in()
        elif packet.arg0 == 2:
            self.send(packets.AUTH, 1, 0, self._authenticator.challenge())

    def _let_in(self) -> None:
        self._online = True
        self.send(packets.CNXN, packets.VERSION_SKIP_CHECKSUM, packets.MAX_PAYLOAD_BYTES, self._banner)

    def _open(self, packet: Packet) -> None:
        remote_id = packet.arg0
        if remote_id == 0:
            return
        # arg1 is the window of `delayed_ack`, which we do not offer.
        if packet.arg1 != 0 or len(self._streams) >= MAX_STREAMS:
            self.send(packets.CLSE, 0, remote_id)
            return
        name = bytes(packet.payload).rstrip(b"\0").decode("utf-8", "surrogateescape")
        log(f"open {name[:500]!r}")
        stream = self._new_stream(remote_id)
        threading.Thread(target=self._serve, args=(self, stream, name), daemon=True).start()

    def _find(self, packet: Packet) -> Stream | None:
        stream = self._streams.get(packet.arg1)
        if stream is None:
            return None
        # A CLSE may come with id 0 (a refused OPEN); an OKAY tells us the id of a stream we opened.
        if stream.remote_id == packet.arg0:
            return stream
        if packet.command == packets.CLSE and packet.arg0 == 0:
            return stream
        if packet.command == packets.OKAY and stream.remote_id == _REMOTE_ID_ANY and packet.arg0 != 0:
            return stream
        return None

    def _new_stream(self, remote_id: int) -> Stream:
        with self._table_lock:
            stream = Stream(self, self._next_id, remote_id)
            self._streams[self._next_id] = stream
            self._next_id = self._next_id % 0xFFFFFFFF + 1
        return stream

    def _checksum_counts(self, header: Header) -> bool:
        if header.command == packets.CNXN:
            return header.arg0 < packets.VERSION_SKIP_CHECKSUM
        return self._peer_version < packets.VERSION_SKIP_CHECKSUM

    def _close_streams(self) -> None:
        with self._table_lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.closed_by_peer(answer=False)

    def _end(self) -> None:
        self._online = False
        self._close_streams()
        for callback in self.on_end:
            callback()
        self._sock.close()
