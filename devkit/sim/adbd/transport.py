"""One connection from an adb server: handshake, dispatch of packets to streams, sending."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from typing import Protocol

from devkit.sim.adbd import packets
from devkit.sim.adbd.faults import FaultBoard
from devkit.sim.adbd.log import log
from devkit.sim.adbd.packets import Header, Packet, ProtocolError
from devkit.sim.adbd.release import WireRelease
from devkit.sim.adbd.streams import DELAYED_ACK_WINDOW_BYTES, Buffer, Stream

MAX_STREAMS = 4096
FINISH_TIMEOUT_S = 0.5
_REMOTE_ID_ANY = 0
_AUTH_TOKEN, _AUTH_SIGNATURE, _AUTH_PUBLIC_KEY = 1, 2, 3


class Authenticator(Protocol):
    """Decides over the AUTH packets of one connection. Without one every peer is welcome."""

    def challenge(self) -> bytes:
        """A new token for the peer to sign."""

    def accepts(self, signature: bytes) -> bool:
        """Whether the last token was signed with a key that is known."""

    def ask(self, public_key: bytes, let_in: Callable[[], None]) -> None:
        """Ask the user about a new key; returns at once, and has `let_in` called if they agree."""

    def withdraw(self) -> None:
        """The connection is gone: the user need not answer any more."""


class Transport:
    """The phone's side of one adb connection.

    Args:
        sock: the connected socket; the transport owns it from here on.
        banner: what CNXN says of the phone.
        serve: runs a service for a stream; called in a thread of its own with the service's name.
        release: the protocol of which Android release is spoken.
        authenticator: None lets every peer in.
        faults: what goes wrong with the streams.
    """

    def __init__(
        self,
        sock: socket.socket,
        banner: bytes,
        serve: Callable[[Transport, Stream, str], None],
        release: WireRelease,
        authenticator: Authenticator | None = None,
        faults: FaultBoard | None = None,
    ) -> None:
        self.max_payload = packets.MAX_PAYLOAD_V1_BYTES
        self.delayed_ack = False
        self.on_end: list[Callable[[], None]] = []
        self._sock = sock
        self._banner = banner
        self._serve = serve
        self._authenticator = authenticator
        self._release = release
        self._faults = faults or FaultBoard(None)
        self._online = False
        self._peer_version = packets.VERSION_WITH_CHECKSUM
        self._streams: dict[int, Stream] = {}
        self._next_id = 1
        self._table_lock = threading.Lock()
        self._send_lock = threading.Lock()
        self._ended = threading.Event()

    def run(self) -> None:
        """Serve the connection until it ends. Never raises for what the peer does."""
        try:
            while (packet := self._read()) is not None:
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
        with_checksum = self._checksums or command == packets.CNXN
        header = packets.encode_header(command, arg0, arg1, payload, with_checksum=with_checksum)
        try:
            with self._send_lock:
                packets.send_packet(self._sock, header, payload)
        except OSError:
            self.kick()

    def open(self, destination: str) -> Stream:
        """Open a stream towards the adb server (what `reverse` listeners do)."""
        stream = self._new_stream(_REMOTE_ID_ANY)
        window = DELAYED_ACK_WINDOW_BYTES if self.delayed_ack else 0
        self.send(packets.OPEN, stream.local_id, window, destination.encode() + b"\0")
        return stream

    def forget(self, stream_id: int) -> None:
        """Free the id of a stream that has ended."""
        with self._table_lock:
            self._streams.pop(stream_id, None)

    def finish(self) -> None:
        """Close our half and give the peer FINISH_TIMEOUT_S to close its own."""
        try:
            self._sock.shutdown(socket.SHUT_WR)
            self._ended.wait(FINISH_TIMEOUT_S)
        except OSError:
            pass

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
                stream.acknowledged(packet.arg0, packet.payload)
        elif packet.command == packets.CLSE:
            stream = self._find(packet)
            if stream is not None:
                stream.closed_by_peer(answer=True)

    def _connect(self, packet: Packet) -> None:
        self._close_streams()
        self._peer_version = packet.arg0
        self.max_payload = max(1, min(packet.arg1, self._release.max_payload_bytes))
        offered = _features(bytes(packet.payload))
        self.delayed_ack = "delayed_ack" in offered and "delayed_ack" in self._release.features
        log(f"CNXN version={packet.arg0:x} max={packet.arg1} {bytes(packet.payload[:500])!r}")
        if self._authenticator is None:
            self._let_in()
        else:
            self._online = False
            self.send(packets.AUTH, _AUTH_TOKEN, 0, self._authenticator.challenge())

    def _authenticate(self, packet: Packet) -> None:
        if self._authenticator is None or self._online:
            return
        if packet.arg0 == _AUTH_SIGNATURE:
            if self._authenticator.accepts(bytes(packet.payload)):
                self._let_in()
            else:
                # The peer tries its next key, and shows the public one after the last.
                self.send(packets.AUTH, _AUTH_TOKEN, 0, self._authenticator.challenge())
        elif packet.arg0 == _AUTH_PUBLIC_KEY:
            self._authenticator.ask(bytes(packet.payload), self._let_in)

    def _let_in(self) -> None:
        self._online = True
        self.send(packets.CNXN, self._release.protocol_version, self._release.max_payload_bytes, self._banner)

    def _open(self, packet: Packet) -> None:
        remote_id = packet.arg0
        if remote_id == 0:
            return
        # arg1 is the window of `delayed_ack`; adbd refuses one that was not agreed on, and its absence.
        if (packet.arg1 != 0) != self.delayed_ack or len(self._streams) >= MAX_STREAMS:
            self.send(packets.CLSE, 0, remote_id)
            return
        name = bytes(packet.payload).rstrip(b"\0").decode("utf-8", "surrogateescape")
        log(f"open {name[:500]!r}")
        stream = self._new_stream(remote_id, packet.arg1)
        stream.service = name
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

    def _new_stream(self, remote_id: int, window_bytes: int = 0) -> Stream:
        with self._table_lock:
            stream = Stream(self, self._next_id, remote_id, window_bytes=window_bytes, faults=self._faults)
            self._streams[self._next_id] = stream
            self._next_id = self._next_id % 0xFFFFFFFF + 1
        return stream

    def _read(self) -> Packet | None:
        return packets.read_packet(
            self._sock, verify=self._checksum_counts, max_payload=self._release.max_payload_bytes
        )

    @property
    def _checksums(self) -> bool:
        """Whether the older of the two sides wants checksums."""
        return min(self._peer_version, self._release.protocol_version) < packets.VERSION_SKIP_CHECKSUM

    def _checksum_counts(self, header: Header) -> bool:
        if header.command == packets.CNXN:
            return header.arg0 < packets.VERSION_SKIP_CHECKSUM
        return self._checksums

    def _close_streams(self) -> None:
        with self._table_lock:
            streams = list(self._streams.values())
        for stream in streams:
            stream.closed_by_peer(answer=False)

    def _end(self) -> None:
        self._online = False
        if self._authenticator is not None:
            self._authenticator.withdraw()
        self._close_streams()
        for callback in self.on_end:
            callback()
        self._sock.close()
        self._ended.set()


def _features(banner: bytes) -> frozenset[str]:
    """What the peer's `host::features=a,b,c` offers."""
    text = banner.partition(b"\0")[0].decode("utf-8", "replace").rpartition("::")[2]
    for fact in text.split(";"):
        if fact.startswith("features="):
            return frozenset(fact.removeprefix("features=").split(","))
    return frozenset()
