from __future__ import annotations

import socket
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from devkit.sim.adbd import packets
from devkit.sim.adbd.packets import CNXN, WRTE, ProtocolError


def test_commands_are_their_letters() -> None:
    assert struct.pack("<I", CNXN) == b"CNXN"
    assert CNXN == 0x4E584E43  # as protocol.txt writes it


def test_header_as_protocol_txt_describes_it() -> None:
    header = packets.encode_header(WRTE, 1, 2, b"ab", with_checksum=True)
    assert header == struct.pack("<6I", 0x45545257, 1, 2, 2, 0x61 + 0x62, 0x45545257 ^ 0xFFFFFFFF)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.integers(0, 2**32 - 1),
    st.binary(max_size=70_000),
)
def test_packets_survive_the_wire(command: int, arg0: int, arg1: int, payload: bytes) -> None:
    left, right = socket.socketpair()
    with left, right:
        left.settimeout(5)
        packets.send_packet(
            left, packets.encode_header(command, arg0, arg1, payload, with_checksum=True), payload
        )
        packet = packets.read_packet(right, verify=lambda _: True)
    assert packet is not None
    assert (packet.command, packet.arg0, packet.arg1, bytes(packet.payload)) == (command, arg0, arg1, payload)


def read_from(data: bytes) -> packets.Packet | None:
    left, right = socket.socketpair()
    with left, right:
        left.sendall(data)
        left.shutdown(socket.SHUT_WR)
        return packets.read_packet(right, verify=lambda _: True)


def test_end_of_the_connection_between_and_within_packets() -> None:
    whole = packets.encode_header(WRTE, 1, 2, b"abc", with_checksum=True) + b"abc"
    assert read_from(b"") is None
    for cut in (1, 23, 24, len(whole) - 1):
        with pytest.raises(ProtocolError, match="the connection ended"):
            read_from(whole[:cut])


def test_wrong_magic_length_and_checksum() -> None:
    good = packets.encode_header(WRTE, 1, 2, b"abc", with_checksum=True)
    with pytest.raises(ProtocolError, match="magic"):
        read_from(good[:20] + b"\0\0\0\0" + b"abc")
    with pytest.raises(ProtocolError, match="over the limit"):
        packets.parse_header(struct.pack("<6I", WRTE, 1, 2, 1024 * 1024 + 1, 0, WRTE ^ 0xFFFFFFFF))
    with pytest.raises(ProtocolError, match="checksum"):
        read_from(good + b"abd")


def test_a_big_packet_is_sent_through_a_small_pipe() -> None:
    import threading

    payload = bytes(1024 * 1024)
    left, right = socket.socketpair()
    with left, right:
        left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        header = packets.encode_header(WRTE, 1, 2, payload, with_checksum=False)
        thread = threading.Thread(target=packets.send_packet, args=(left, header, payload))
        thread.start()
        packet = packets.read_packet(right, verify=lambda _: False)
        thread.join()
    assert packet is not None
    assert len(packet.payload) == len(payload)
