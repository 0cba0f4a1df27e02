"""The 24-byte header and the payload of adb packets: building and reading them, no state.

Layout and limits: packages/modules/adb/protocol.txt and adb.h.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

VERSION_WITH_CHECKSUM = 0x01000000
VERSION_SKIP_CHECKSUM = 0x01000001
MAX_PAYLOAD_V1_BYTES = 4 * 1024
MAX_PAYLOAD_BYTES = 1024 * 1024

_HEADER = struct.Struct("<6I")
HEADER_BYTES = _HEADER.size


def _command(name: bytes) -> int:
    return int.from_bytes(name, "little")


CNXN = _command(b"CNXN")
AUTH = _command(b"AUTH")
OPEN = _command(b"OPEN")
OKAY = _command(b"OKAY")
CLSE = _command(b"CLSE")
WRTE = _command(b"WRTE")
STLS = _command(b"STLS")


class ProtocolError(Exception):
    """The peer sent something that is no adb packet. The connection cannot go on."""


class Header(NamedTuple):
    """A packet's header whose magic and length have been checked."""

    command: int
    arg0: int
    arg1: int
    length: int
    checksum: int


class Packet(NamedTuple):
    """One adb packet."""

    command: int
    arg0: int
    arg1: int
    payload: memoryview


def checksum(payload: bytes | bytearray | memoryview) -> int:
    """The sum of all bytes, which the protocol calls CRC."""
    return sum(payload) & 0xFFFFFFFF


def encode_header(
    command: int, arg0: int, arg1: int, payload: bytes | bytearray | memoryview, *, with_checksum: bool
) -> bytes:
    """The header for `payload`. `with_checksum` is what peers of version 0x01000000 insist on."""
    crc = checksum(payload) if with_checksum else 0
    return _HEADER.pack(command, arg0, arg1, len(payload), crc, command ^ 0xFFFFFFFF)


def parse_header(raw: bytes | bytearray | memoryview, *, max_payload: int = MAX_PAYLOAD_BYTES) -> Header:
    """Decode and check a header.

    Raises:
        ProtocolError: the magic does not fit the command, or the payload would be too long.
    """
    command, arg0, arg1, length, crc, magic = _HEADER.unpack(raw)
    if magic != command ^ 0xFFFFFFFF:
        raise ProtocolError(f"bad magic {magic:08x} for command {command:08x}")
    if length > max_payload:
        raise ProtocolError(f"payload of {length} bytes is over the limit")
    return Header(command, arg0, arg1, length, crc)


def read_packet(
    sock: socket.socket, *, verify: Callable[[Header], bool], max_payload: int = MAX_PAYLOAD_BYTES
) -> Packet | None:
    """Read one packet, or None when the peer has closed the connection between two packets.

    Args:
        verify: whether the checksum of a packet with this header counts.
        max_payload: the most bytes this side takes.

    Raises:
        ProtocolError: it is no adb packet, its checksum is wrong, or the connection ended within it.
        OSError: the connection broke.
    """
    raw = _receive(sock, HEADER_BYTES, at_start=True)
    if raw is None:
        return None
    header = parse_header(raw, max_payload=max_payload)
    payload = _receive(sock, header.length) if header.length else memoryview(b"")
    assert payload is not None
    if verify(header) and checksum(payload) != header.checksum:
        raise ProtocolError(f"checksum is {checksum(payload):08x}, the header says {header.checksum:08x}")
    return Packet(header.command, header.arg0, header.arg1, payload)


def send_packet(sock: socket.socket, header: bytes, payload: bytes | bytearray | memoryview) -> None:
    """Send header and payload in one go, without copying the payload.

    Raises:
        OSError: the connection broke.
    """
    if not payload:
        sock.sendall(header)
        return
    sent = sock.sendmsg([header, payload])
    if sent < len(header):
        sock.sendall(header[sent:])
        sent = len(header)
    if sent < len(header) + len(payload):
        sock.sendall(memoryview(payload)[sent - len(header) :])


def _receive(sock: socket.socket, count: int, *, at_start: bool = False) -> memoryview | None:
    view = memoryview(bytearray(count))
    got = 0
    while got < count:
        n = sock.recv_into(view[got:], 0, socket.MSG_WAITALL)
        if n == 0:
            if at_start and got == 0:
                return None
            raise ProtocolError(f"the connection ended after {got} of {count} bytes")
        got += n
    return view
